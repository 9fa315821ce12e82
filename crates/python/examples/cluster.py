"""Sweep on a pool of processes on this machine, or on a Dask cluster.

    python cluster.py --seeds 2000                      # rayon's threads in this process
    python cluster.py --seeds 2000 --pool processes     # concurrent.futures
    python cluster.py --seeds 2000 --pool dask          # dask.distributed, LocalCluster
    python cluster.py --seeds 2000 --pool tcp://host:8786   # a Dask scheduler elsewhere

The output file is the same, byte for byte, for every pool.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import carob


@contextlib.contextmanager
def pool(kind: str, workers: int) -> Iterator[concurrent.futures.Executor | None]:
    """Yield an executor, or ``None`` for this process."""
    if kind == "threads":
        yield None
    elif kind == "processes":
        with concurrent.futures.ProcessPoolExecutor(workers) as executor:
            yield executor
    else:
        from dask.distributed import Client, LocalCluster

        with contextlib.ExitStack() as stack:
            address = kind
            if kind == "dask":
                address = stack.enter_context(
                    LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
                )
            yield stack.enter_context(Client(address)).get_executor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200, help="Seeds of each cell [default: 200]")
    parser.add_argument("--pool", default="threads", help="threads, processes, dask, or tcp://HOST:PORT")
    parser.add_argument("--workers", type=int, default=2, help="Processes of a local pool [default: 2]")
    parser.add_argument("--to", default="sweep.jsonl", help="File of the rows [default: sweep.jsonl]")
    given = parser.parse_args()
    base = carob.scenario("thesis/exchange-udp", algorithms="default,cocoa-03")
    parameters = {"loss": ["0 %", "1 %", "2 %", "5 %", "10 %"]}
    with pool(given.pool, given.workers) as executor:
        began = time.perf_counter()
        saved = base.sweep(parameters, seeds=given.seeds, executor=executor, to=given.to)
        took = time.perf_counter() - began
    digest = hashlib.sha256(Path(saved.path).read_bytes()).hexdigest()[:16]
    print(f"{saved.runs} runs in {took:.1f} s; {saved.path}: SHA-256 {digest}")


if __name__ == "__main__":
    main()
