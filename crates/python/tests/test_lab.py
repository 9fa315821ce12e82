"""Scenarios, runs, sweeps and comparisons."""

import concurrent.futures
import json
import os
import pickle
import signal
import subprocess
import threading
import time
from pathlib import Path

import carob
import pytest

ROOT = Path(__file__).resolve().parents[3]
#: Path of the command; `cargo xtask test python` sets it to the binary of the same build.
COMMAND = os.environ.get("CAROB_COMMAND")
REPORTS = (ROOT / "crates/cli/src/commands/lab/new.toml").read_text()
SCENARIOS = [
    "carob/default",
    "thesis/exchange-udp",
    "thesis/exchange-tcp",
    "retrycount/rto-scatter",
    "nonobserve/gprs",
]


def small() -> carob.Scenario:
    return carob.scenario("thesis/exchange-udp", algorithms="default,cocoa-03")


@pytest.mark.parametrize("name", SCENARIOS)
def test_rows_are_those_of_the_command_to_the_last_bit(name):
    if COMMAND is None:
        pytest.skip("CAROB_COMMAND names the command to compare with")
    arguments = [COMMAND, "lab", "run", name, "--seeds", "2", "--json"]
    for each in (False, True):
        printed = subprocess.run(
            arguments + ["--each"] * each, check=True, capture_output=True, text=True
        ).stdout
        assert carob.scenario(name).run(seeds=2).json(each=each) == printed


def test_a_row_for_each_run_with_units():
    runs = small().run(seeds=3)
    table = runs.table()
    assert len(table) == len(runs) == 3 * 2 * len(small().cells)
    assert table["algorithm"][0] == "default"
    assert table["seed"][:3] == [1, 2, 3]
    assert table.dictionary["fct_s"][0] == "s"
    assert all(time > 0 for time in table["fct_s"])
    assert set(table["version"]) == {carob.__version__}


def test_medians_are_those_of_the_rows():
    runs = small().run(seeds=5)
    rows = [json.loads(line) for line in runs.json().splitlines()]
    for row in rows:
        cell = row["scenario"].split("/")[1]
        median = runs.median("fct_s", algorithm=row["algorithm"], cell=cell)
        assert median == row["metrics"]["fct_s"]["p50"]


def test_threads_and_executors_do_not_change_a_bit(tmp_path):
    parameters = {"down.rate": ["30 kbit/s", "60 kbit/s"]}
    base = carob.scenario("carob/default", algorithms="default,cocoa-03")
    alone = base.sweep(parameters, seeds=3, threads=1)
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        pooled = base.sweep(parameters, seeds=3, executor=pool)
        base.sweep(parameters, seeds=3, executor=pool, to=tmp_path / "pool.jsonl")
    base.sweep(parameters, seeds=3, to=tmp_path / "alone.jsonl")
    assert alone.trace_hash == pooled.trace_hash
    assert alone.json(each=True) == pooled.json(each=True)
    files = [(tmp_path / name).read_bytes() for name in ("pool.jsonl", "alone.jsonl")]
    assert files[0] == files[1]


def test_swept_values_are_columns_and_compare_by_seed():
    runs = carob.scenario("carob/default", algorithms="default").sweep(
        {"block": ["64 B", "256 B"]}, seeds=12
    )
    assert set(runs.table()["block"]) == {"64 B", "256 B"}
    comparison = runs.compare("fct_s", by="block", against="64 B")
    assert {row.value for row in comparison} == {"256 B"}
    for row in comparison:
        assert row.seeds == 12
        assert row.low <= row.difference <= row.high
        assert row.is_settled and row.difference < 0, "larger blocks take fewer round trips"
        assert row.lower == 1.0
    assert "256 B" in str(comparison)
    frame = comparison.to_pandas()
    assert list(frame["value"]) == [row.value for row in comparison]
    assert set(frame["algorithm"]) == {"default"}
    assert frame["ratio"][0] == comparison.rows[0].ratio
    assert "256 B" in runs.report()


def test_a_swept_key_named_like_a_metric_has_a_column_for_itself():
    base = carob.scenario("carob/default").set(error="none", response="20 kB")
    runs = base.sweep({"loss": ["0 %", "5 %"]}, algorithms="default", seeds=6)
    table = runs.table()
    assert len(set(table.columns)) == len(table.columns)
    assert set(table["link.loss"]) == {"0 %", "5 %"}
    assert all(isinstance(share, float) for share in table["loss"])
    assert runs.median("fct_s", loss="5 %") > runs.median("fct_s", loss="0 %")
    with pytest.raises(ValueError, match="there are .*loss"):
        runs.median("fct_s", los="5 %")


def test_response_times_have_labels_and_exact_percentiles():
    text = REPORTS.replace("seeds = 10", "seeds = 2")
    runs = carob.scenario("own/reports", text=text).run()
    table = runs.sample_table()
    assert table.columns[-1] == "response_time_s"
    assert {"scenario", "error", "algorithm", "seed"} <= set(table.columns)
    cell = {"algorithm": "default", "error": "none"}
    rows = zip(table["algorithm"], table["error"], table["response_time_s"])
    times = sorted(time for *key, time in rows if key == list(cell.values()))
    assert len(times) == 2 * 30 * 5
    assert times == sorted(runs.samples("response_time_s", **cell))
    place = 0.95 * (len(times) - 1)
    below = int(place)
    exact = times[below] + (times[below + 1] - times[below]) * (place - below)
    assert runs.statistic("response_time_s", "p95", **cell) == pytest.approx(exact, rel=1e-12)


def test_below_ten_seeds_there_are_no_intervals():
    rows = small().run(seeds=4).compare(against="default").rows
    assert rows and all(row.low is None and not row.is_settled for row in rows)


def test_wrong_names_have_hints():
    with pytest.raises(carob.ScenarioError, match='did you mean "thesis/long"'):
        carob.scenario("thesis/lnog")
    with pytest.raises(carob.ScenarioError, match="did you mean"):
        small().set({"los": "1 %"})
    with pytest.raises(carob.ScenarioError, match="expected"):
        small().set(loss="much")
    with pytest.raises(carob.ScenarioError, match="fasor"):
        small().run("fasr")
    with pytest.raises(ValueError, match="did you mean fct_s"):
        small().run(seeds=1).samples("fct")
    with pytest.raises(KeyError, match="algorithm"):
        small().run(seeds=1).compare(by="colour", against="red")
    with pytest.raises(ValueError, match="cocoa-03"):
        small().run(seeds=1).compare(against="fasor")
    with pytest.raises(OSError, match="cannot read"):
        carob.scenario("nowhere.toml")
    with pytest.raises(ValueError, match="each at least one"):
        small().sweep({"loss": []})


def test_scenarios_are_values_that_can_be_pickled():
    changed = small().set(error="high")
    again = pickle.loads(pickle.dumps(changed))
    assert type(again) is carob.Scenario
    assert (again.hash, again.algorithms) == (changed.hash, changed.algorithms)
    assert small().settings == []
    assert "exchange-udp" in repr(changed)
    assert "<table>" in changed._repr_html_()


def test_saved_runs_round_trip(tmp_path):
    runs = small().run(seeds=2)
    saved = runs.save(tmp_path / "runs.jsonl")
    table = saved.load()
    assert len(table) == len(runs.long_table())
    assert saved.runs == len(runs)
    for column in table.columns:
        assert table[column] == runs.long_table()[column], column
    (tmp_path / "not.jsonl").write_text("{}")
    with pytest.raises(carob.CarobError, match="line 1 is no run"):
        carob.load(tmp_path / "not.jsonl")


def test_tables_reach_arrow_polars_and_pandas():
    pyarrow = pytest.importorskip("pyarrow")
    table = small().run(seeds=2).table()
    arrow = table.to_arrow()
    assert isinstance(arrow, pyarrow.Table)
    assert arrow.column_names == table.columns
    assert arrow["fct_s"].to_pylist() == table["fct_s"]
    assert arrow.schema.field("fct_s").metadata[b"unit"] == b"s"
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(table)["fct_s"].to_list() == table["fct_s"]
    pytest.importorskip("pandas")
    assert list(table.to_pandas()["fct_s"]) == table["fct_s"]


def test_reports_are_one_page(tmp_path):
    page = small().run(seeds=10).report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == page
    assert page.startswith("<!DOCTYPE html>") and "<svg" in page
    assert "carob.scenario(" in page


def test_progress_reaches_the_end():
    told = []
    runs = small().run(seeds=20, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(runs), len(runs))


def test_an_exception_in_progress_ends_the_runs():
    def stop(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        carob.scenario("thesis/long").run(seeds=2000, progress=stop)


def test_ctrl_c_ends_long_runs():
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        carob.scenario("thesis/short").run(seeds=2_000)
    assert time.monotonic() - began < 10


def test_other_threads_run_meanwhile():
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    carob.scenario("thesis/long").run(seeds=30)
    stop.set()
    thread.join()
    assert len(ticks) > 5, "the GIL was held"


def test_a_recommendation_is_that_of_the_command(capfd):
    from carob._carob import command

    answer = carob.recommend("umts", "command", loss="5 %")
    words = ["carob", "lab", "compare", "--link", "umts", "--traffic", "command", "--loss", "5 %", "--json"]
    assert command(words) == 0
    printed = json.loads(capfd.readouterr().out)
    sentences = answer.pop("words")
    for one in (answer, printed):
        one["link"].pop("name")
    assert answer == printed
    assert sentences[0].startswith("Use ")
    with pytest.raises(carob.ScenarioError, match="nb-iot"):
        carob.recommend("5g")
    with pytest.raises(carob.ScenarioError, match="clients 0 is out of range"):
        carob.recommend("umts", clients=0)


def test_the_stub_has_every_name_of_the_module():
    from carob import _carob

    stub = (Path(carob.__file__).parent / "_carob.pyi").read_text()
    names = [name for name in dir(_carob) if not name.startswith("__")]
    missing = [name for name in names if f"class {name}" not in stub and f"def {name}" not in stub]
    assert missing == []


def test_the_package_has_types():
    assert (Path(carob.__file__).parent / "py.typed").exists()
