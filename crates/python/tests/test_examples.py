"""Examples and notebooks run unchanged; a Dask pool writes the same bytes as one process."""

import os
import subprocess
import sys
from pathlib import Path

import carob
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_run(notebook, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    document = nbformat.read(notebook, as_version=4)
    client = nbclient.NotebookClient(document, timeout=120, resources={"metadata": {"path": tmp_path}})
    client.execute()


def test_the_cluster_example_gives_the_same_file_with_every_pool(tmp_path):
    ends = set()
    for pool in ("threads", "processes"):
        command = [sys.executable, EXAMPLES / "cluster.py", "--seeds", "5", "--pool", pool]
        printed = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=tmp_path, timeout=120
        ).stdout
        ends.add(printed.split("SHA-256")[1].strip())
    assert len(ends) == 1


@pytest.mark.slow
def test_dask_with_a_worker_killed_gives_the_file_of_one_process(tmp_path):
    distributed = pytest.importorskip("distributed")
    base = carob.scenario("thesis/long", algorithms="default,cocoa-03,fasor")
    parameters = {"rto_max": ["32 s", "60 s"]}
    base.sweep(parameters, seeds=20, to=tmp_path / "alone.jsonl")
    killed = []

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def kill_once(done, total):
            if not killed and done > total // 4:
                pids = list(client.run(os.getpid).values())
                killed.append(pids[0])
                os.kill(pids[0], 9)

        base.sweep(
            parameters,
            seeds=20,
            executor=client.get_executor(),
            in_flight=4,
            to=tmp_path / "dask.jsonl",
            progress=kill_once,
        )
    assert killed, "no worker was killed"
    assert (tmp_path / "dask.jsonl").read_bytes() == (tmp_path / "alone.jsonl").read_bytes()


@pytest.mark.slow
def test_constants_are_tuned_and_ranked(tmp_path):
    pytest.importorskip("optuna")
    pytest.importorskip("SALib")
    command = [sys.executable, EXAMPLES / "tune.py", "--trials", "4", "--samples", "4", "--seeds", "3"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    best, *effects, last = printed.splitlines()
    for name in ("weight_strong", "weight_weak"):
        value = float(best.split(f"{name}=")[1].split(",")[0])
        assert 0.05 <= value <= 1.0
        assert any(line.startswith(f"{name}: total effect") for line in effects)
    published, tuned = (float(part.split()[0]) for part in last.split(": ")[1].split(", "))
    assert published > 0 and tuned > 0


@pytest.mark.slow
def test_an_adaptive_timer_inside_aiocoap_answers_sooner(tmp_path):
    pytest.importorskip("aiocoap")
    command = [sys.executable, EXAMPLES / "adaptive_timer.py", "--requests", "15", "--loss", "0.15"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    totals = {line.split()[0]: float(line.split()[-2]) for line in printed.splitlines()[2:]}
    assert totals["cocoa-03"] < totals["aiocoap"]
