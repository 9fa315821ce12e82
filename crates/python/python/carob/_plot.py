"""Adapters of runs and comparisons to matplotlib axes and Altair charts.

Colours and markers are assigned as in reports: in the order of the algorithms shown, no two alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _carob
from ._optional import package

if TYPE_CHECKING:
    from ._lab import Comparison, Runs

#: matplotlib markers and Altair shapes, by marker index.
_MARKERS = ["o", "s", "D", "^", "X", "v"]
_SHAPES = ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down"]
#: matplotlib line styles.
_LINES = ["-", "--", ":", "-."]
_EXTRA = "carob[plot]"


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    _, ax = package("matplotlib.pyplot", _EXTRA).subplots()
    return ax


def differences(comparison: Comparison, ax: Any) -> Any:
    """Draw paired differences with their intervals; return the axes."""
    ax = _axes(ax)
    rows = [row for row in comparison if row.difference is not None]
    looks = _carob.looks([comparison._look(row) for row in rows])
    for place, (row, (colour, marker)) in enumerate(zip(rows, looks)):
        middle, low, high = row._ends()
        widths = [[middle - low], [high - middle]]
        ax.errorbar(middle, place, xerr=widths, color=colour, marker=_MARKERS[marker], capsize=3)
    names = [" ".join(filter(None, [comparison._heading(row), row.value])) for row in rows]
    ax.set_yticks(range(len(rows)), names)
    ax.invert_yaxis()
    ax.axvline(0, color="black", linewidth=1)
    ax.set_xlabel(comparison._label())
    return ax


def means(swept: _carob.Swept, ax: Any) -> Any:
    """Draw means with 95 % intervals against a swept key; return the axes."""
    ax = _axes(ax)
    numbers, unit, wide = swept.numbers or (list(range(len(swept.values))), "", False)
    names = list(dict.fromkeys(name for _, lines in swept.panels for name, _ in lines))
    looks = dict(zip(names, _carob.looks(names)))
    for panel, (title, lines) in enumerate(swept.panels):
        for name, points in lines:
            # An algorithm has one colour in all panels; panels differ in marker and line style.
            colour, marker = looks[name]
            marker, line = (marker + panel) % len(_MARKERS), _LINES[panel // len(_MARKERS) % len(_LINES)]
            x = [numbers[place] for place, _, _ in points]
            y, halves = [mean for _, mean, _ in points], [half for *_, half in points]
            label = ", ".join(filter(None, [name, title]))
            ax.errorbar(x, y, yerr=halves, label=label, color=colour, marker=_MARKERS[marker], linestyle=line, capsize=3)
    if swept.numbers is None:
        ax.set_xticks(numbers, swept.values)
    elif wide:
        ax.set_xscale("log")
    ax.set_xlabel(f"{swept.key} ({unit})" if unit else swept.key)
    ax.set_ylabel(swept.label)
    ax.legend()
    return ax


def distribution(runs: Runs, metric: str, ax: Any) -> Any:
    """Draw the distribution of all samples of a metric, one line per algorithm; return the axes."""
    ax = _axes(ax)
    for name, (colour, _) in zip(runs.algorithms, _carob.looks(runs.algorithms)):
        samples = sorted(runs.samples(metric, algorithm=name))
        if samples:
            shares = [(k + 1) / len(samples) for k in range(len(samples))]
            ax.step(samples, shares, where="post", label=name, color=colour)
    ax.set_xlabel(_with_unit(metric))
    ax.set_ylabel("Share of samples")
    ax.set_ylim(0, 1)
    ax.legend()
    return ax


def chart(runs: Runs, metric: str, over: str | None) -> Any:
    """Return an Altair chart: means with intervals against a key, or box plots of the table of runs."""
    altair, pyarrow = package("altair", _EXTRA), package("pyarrow", _EXTRA)
    names = runs.algorithms
    looks = _carob.looks(names)
    scale = altair.Scale(domain=names, range=[colour for colour, _ in looks])
    colour = altair.Color("algorithm:N", scale=scale)
    if over is None:
        table = runs.table().to_arrow().select(["algorithm", metric])
        y = altair.Y(f"{metric}:Q", title=_with_unit(metric))
        return altair.Chart(table).mark_boxplot().encode(
            x=altair.X("algorithm:N", sort=names), y=y, color=colour
        )
    swept = runs._inner._swept(metric, over)
    numbers, unit, wide = swept.numbers or (swept.values, "", False)
    rows = [
        {"x": numbers[place], "algorithm": name, "group": title, "mean": mean, "low": mean - half, "high": mean + half}
        for title, lines in swept.panels
        for name, points in lines
        for place, mean, half in points
    ]
    label = f"{over} ({unit})" if unit else over
    if swept.numbers is None:
        x = altair.X("x:O", sort=swept.values, title=label)
    else:
        x = altair.X("x:Q", title=label, scale=altair.Scale(type="log" if wide else "linear", zero=False))
    shapes = altair.Scale(domain=names, range=[_SHAPES[marker] for _, marker in looks])
    y = altair.Y("mean:Q", title=swept.label)
    base = altair.Chart(pyarrow.Table.from_pylist(rows)).encode(x=x, color=colour)
    lines_ = base.mark_line().encode(y=y)
    points_ = base.mark_point(size=60, filled=True).encode(y=y, shape=altair.Shape("algorithm:N", scale=shapes))
    intervals = base.mark_rule().encode(y=altair.Y("low:Q", title=swept.label), y2="high:Q")
    layers = altair.layer(intervals, lines_, points_)
    if len(swept.panels) == 1:
        return layers
    return layers.facet(altair.Facet("group:N", title=None), columns=2)


def _with_unit(metric: str) -> str:
    unit = next((unit for name, unit, _ in _carob.metrics() if name == metric), "1")
    return metric if unit == "1" else f"{metric} ({unit})"
