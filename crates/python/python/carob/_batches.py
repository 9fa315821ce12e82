"""Runs in other processes and on other machines, by any ``concurrent.futures.Executor``."""

from __future__ import annotations

import concurrent.futures
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import _carob

#: Seconds that a task should take: long beside the cost of a task in any pool (a few ms).
TASK_SECONDS = 1.0
#: Most runs of a task, whatever they take.
RUNS_MAX = 100_000


@dataclass(frozen=True)
class Selection:
    """Which runs of a scenario."""

    cell: str | None = None
    everywhere: bool = False
    seed: int | None = None
    seeds: int | None = None


def run_batch(
    scenario: _carob.Scenario, selection: Selection, start: int, end: int
) -> tuple[bytes, float]:
    """Make the runs ``start..end`` on one thread; return their packed records and the seconds taken."""
    began = time.perf_counter()
    s = selection
    records = _carob.run_batch(scenario, s.cell, s.everywhere, s.seed, s.seeds, start, end)
    return records, time.perf_counter() - began


def _workers(executor: concurrent.futures.Executor) -> int:
    """Return the number of workers, as far as the executor tells."""
    count = getattr(executor, "_max_workers", None)
    if isinstance(count, int) and count > 0:
        return count
    client: Any = getattr(executor, "_client", None)
    try:
        return max(1, int(sum(client.ncores().values())))  # dask.distributed
    except Exception:
        return os.cpu_count() or 1


class _Parts:
    """Parts of all points in order, each as large as the time of a run so far suggests."""

    def __init__(self, jobs: list[int]) -> None:
        self._jobs = jobs
        self._point = 0
        self._start = 0
        self._seconds: float | None = None

    def measured(self, runs: int, seconds: float) -> None:
        """Learn from a task: points differ, so the newest counts as much as all before."""
        each = seconds / max(runs, 1)
        self._seconds = each if self._seconds is None else (self._seconds + each) / 2

    def next(self) -> tuple[int, int, int] | None:
        """Return point, start and end of the next part."""
        while self._point < len(self._jobs) and self._start >= self._jobs[self._point]:
            self._point, self._start = self._point + 1, 0
        if self._point >= len(self._jobs):
            return None
        # The first tasks only measure.
        size = 1 if self._seconds is None else int(TASK_SECONDS / max(self._seconds, 1e-9))
        size = max(1, min(size, RUNS_MAX))
        start = self._start
        self._start = min(start + size, self._jobs[self._point])
        return self._point, start, self._start


def parts(
    scenarios: Sequence[_carob.Scenario],
    jobs: list[int],
    selection: Selection,
    executor: concurrent.futures.Executor,
    in_flight: int | None,
) -> Iterator[tuple[int, int, bytes, int]]:
    """Yield (point, start, records, number of runs) of all parts, in order.

    At most ``in_flight`` tasks (three for each worker by default) are submitted and not yet yielded, so
    memory does not grow with the number of runs.
    """
    limit = in_flight or 3 * _workers(executor)
    plan = _Parts(jobs)
    waiting: deque[tuple[int, int, int, Any]] = deque()
    try:
        while True:
            while len(waiting) < limit and (part := plan.next()) is not None:
                point, start, end = part
                task = executor.submit(run_batch, scenarios[point], selection, start, end)
                waiting.append((point, start, end, task))
            if not waiting:
                return
            point, start, end, task = waiting[0]
            records, seconds = task.result()
            waiting.popleft()
            plan.measured(end - start, seconds)
            yield point, start, records, end - start
    finally:
        for *_, task in waiting:
            task.cancel()
