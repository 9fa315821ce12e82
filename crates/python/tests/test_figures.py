"""Figures as SVG, and adapters to matplotlib and Altair."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import carob
import pytest

BLOCKS = ["64 B", "128 B", "256 B"]


@pytest.fixture(scope="module")
def swept() -> carob.Runs:
    base = carob.scenario("carob/default", algorithms="default,cocoa-03")
    return base.sweep({"block": BLOCKS}, cell="default-high", seeds=10)


@pytest.fixture(scope="module")
def alone() -> carob.Runs:
    base = carob.scenario("carob/default", algorithms="default,cocoa-03")
    return base.run(cell="default-high", seeds=10)


def parts(svg: str, word: str) -> int:
    """Count the elements with a word in their class; the SVG must parse."""
    root = ElementTree.fromstring(svg)
    return sum(word in element.get("class", "").split() for element in root.iter())


def test_a_sweep_has_a_mark_for_each_value_and_algorithm(swept, tmp_path):
    figure = swept.figure()
    assert figure._repr_svg_() == figure.svg
    # One mark per point, one on each line and one in each legend entry.
    assert parts(figure.svg, "mark") == 2 * (len(BLOCKS) + 2)
    for value in ("64 B", "256 B"):
        assert f"cocoa-03, {value}:" in figure.svg
    assert ">block (B)<" in figure.svg and ">fct_s (s)<" in figure.svg
    assert "10 seeds" in figure.caption and "block" in repr(figure)
    figure.save(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text() == figure.svg


def test_a_comparison_has_a_row_for_each_difference(swept):
    comparison = swept.compare("fct_s", by="block", against="64 B")
    figure = comparison.figure()
    assert parts(figure.svg, "ratio-bar") == len(comparison) == 4
    assert ">algorithm cocoa-03<" in figure.svg and ">128 B<" in figure.svg
    assert "10 seeds" in figure.caption
    assert figure.svg in comparison._repr_html_()


def test_without_seeds_for_an_interval_the_row_says_so():
    base = carob.scenario("thesis/exchange-udp", algorithms="default,cocoa-03")
    svg = base.run(seeds=3).compare(against="default").figure().svg
    assert "too few seeds" in svg and parts(svg, "ratio-bar") > 0


def test_runs_have_the_figures_of_their_report(alone):
    assert "boxes" in carob.figures()
    boxes = alone.figure("boxes")
    assert alone.figure().svg == boxes.svg
    assert parts(boxes.svg, "box") > 0 and "var(" not in boxes.svg
    assert "prefers-color-scheme" not in boxes.svg, "a notebook has a ground of its own"
    assert "relative to default" in alone.figure("ratios").title


def test_wrong_figures_have_hints(alone, swept):
    with pytest.raises(ValueError, match="there are boxes"):
        alone.figure("boxen")
    with pytest.raises(ValueError, match="nothing to draw: the figure needs a wireless network"):
        alone.figure("circle")
    with pytest.raises(ValueError, match="over="):
        swept.figure("boxes")
    with pytest.raises(KeyError, match="algorithm"):
        swept.figure(over="colour")
    with pytest.raises(ValueError, match="did you mean fct_s"):
        swept.figure(metric="fct", over="block")


def test_matplotlib_takes_and_returns_axes(swept, alone, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, middle, right) = pyplot.subplots(1, 3)
    assert swept.plot(over="block", ax=left) is left
    [default, _] = left.containers
    table = swept.table()
    small = [
        time
        for time, block, algorithm in zip(table["fct_s"], table["block"], table["algorithm"])
        if (block, algorithm) == ("64 B", "default")
    ]
    assert list(default[0].get_xdata()) == [64, 128, 256]
    assert default[0].get_ydata()[0] == pytest.approx(sum(small) / len(small))
    assert left.get_xlabel() == "block (B)" and left.get_ylabel() == "fct_s (s)"

    comparison = swept.compare(by="block", against="64 B")
    assert comparison.plot(middle) is middle
    assert len(middle.containers) == len(comparison)

    assert alone.plot(ax=right) is right
    assert [line.get_label() for line in right.get_lines()] == alone.algorithms
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5_000
    pyplot.close(figure)


def test_altair_has_the_numbers_of_the_figure(swept, alone):
    pytest.importorskip("altair")
    pytest.importorskip("pyarrow")
    rows, spec = datasets(swept.chart(over="block"))
    assert len(rows) == 2 * len(BLOCKS)
    [(_, lines)] = swept._inner._swept("fct_s", "block").panels
    means = [mean for _, points in lines for _, mean, _ in points]
    assert [row["mean"] for row in rows] == means and len(set(means)) > len(BLOCKS)
    assert {layer["mark"]["type"] for layer in spec["layer"]} == {"rule", "line", "point"}
    rows, spec = datasets(alone.chart())
    assert len(rows) == len(alone) and spec["mark"]["type"] == "boxplot"


def datasets(chart) -> tuple:
    """Return the rows and the specification, validated by the library against its schema."""
    spec = chart.to_dict()
    [rows] = spec["datasets"].values()
    return rows, spec


def test_missing_packages_are_named_with_the_command():
    script = """
import sys
for name in ("matplotlib", "matplotlib.pyplot", "altair", "pyarrow", "polars"):
    sys.modules.pop(name, None)
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("matplotlib", "altair", "pyarrow", "polars"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import carob
runs = carob.scenario("thesis/exchange-udp", algorithms="default").run(seeds=1)
for call in (runs.plot, runs.chart, runs.table().to_arrow, runs.table().to_polars):
    try:
        call()
    except ModuleNotFoundError as error:
        print(str(error).splitlines()[-1])
"""
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    hints = ["'carob[plot]'", "'carob[plot]'", "'pyarrow'", "'polars'"]
    assert printed.stdout.splitlines() == [f"hint: pip install {hint}" for hint in hints]


def test_lines_of_a_plot_over_two_keys_do_not_look_alike():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    base = carob.scenario("carob/default").set(error="none", response="2 kB")
    parameters = {"loss": ["0 %", "5 %"], "block": ["64 B", "256 B"]}
    names = "default,cocoa-plus,fasor,carob"
    axes = base.sweep(parameters, algorithms=names, seeds=2).plot(over="loss")
    lines = [one.lines[0] for one in axes.containers]
    shown = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines]
    assert len(shown) == 8 == len(set(shown))
    pyplot.close(axes.figure)
