"""Scenarios, runs, and paired comparisons."""

from __future__ import annotations

import concurrent.futures
import html
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from . import _carob, _plot
from ._batches import Selection, parts
from ._figure import Figure
from ._optional import package
from ._progress import Progress, shown
from ._settings import names, settings, value
from ._table import Table, load

Names = str | Sequence[str] | None


class Scenario(_carob.Scenario):
    """Validated network, workload and list of controllers; see :func:`scenario`.

    Scenarios are immutable and can be pickled; :meth:`set` returns a new one.
    """

    def set(self, settings_: Mapping[str, Any] | None = None, /, **keywords: Any) -> Scenario:
        """Return a copy of the scenario with changed settings.

        Takes the keys of ``--set``, and values with their units:
        ``set({"down.rate": "30 kbit/s"}, error="high")``. Raises :class:`ScenarioError` with the unknown key or
        the invalid value and the closest valid one.
        """
        more = self.settings + settings(settings_, keywords)
        return type(self)(self.name, self.text, more, self._chosen())

    def with_algorithms(self, algorithms: Names) -> Scenario:
        """Return a copy of the scenario with these controllers, such as ``"default,fasor"``."""
        return type(self)(self.name, self.text, self.settings, names(algorithms))

    def run(
        self,
        algorithms: Names = None,
        *,
        cell: str | None = None,
        seeds: int | None = None,
        seed: int | None = None,
        cc: Mapping[str, Any] | None = None,
        threads: int | None = None,
        progress: Progress = None,
        executor: concurrent.futures.Executor | None = None,
    ) -> Runs:
        """Run every cell with every algorithm and seed.

        ``cell`` is a name or a pattern such as ``"long-1c-*"``; ``seed`` selects a single seed. ``cc`` sets
        constants of the algorithms. ``threads`` limits the threads (default: all cores); an ``executor`` runs
        them in other processes or on other machines (:mod:`carob._batches`). Results depend on neither.
        Ctrl-C stops the runs.
        """
        of = self._with(algorithms, cc)
        everywhere = cell is not None and algorithms is not None
        if executor is None:
            total = len(of.cells) * len(of.algorithms) * (1 if seed is not None else seeds or of.seeds)
            with shown(progress, total) as call:
                inner = of._run(cell, everywhere, seed, seeds, threads, call)
            return Runs(inner, of._call("run", cell, seed, seeds))
        selection = Selection(cell, everywhere, seed, seeds)
        batch = _Batch(of._call("run", cell, seed, seeds), [(of, {})], selection)
        return batch.runs(executor, None, progress)

    @overload
    def sweep(
        self,
        parameters: Mapping[str, Sequence[Any]],
        *,
        algorithms: Names = ...,
        cell: str | None = ...,
        seeds: int | None = ...,
        seed: int | None = ...,
        cc: Mapping[str, Any] | None = ...,
        threads: int | None = ...,
        progress: Progress = ...,
        executor: concurrent.futures.Executor | None = ...,
        in_flight: int | None = ...,
        to: None = None,
    ) -> Runs: ...
    @overload
    def sweep(
        self,
        parameters: Mapping[str, Sequence[Any]],
        *,
        algorithms: Names = ...,
        cell: str | None = ...,
        seeds: int | None = ...,
        seed: int | None = ...,
        cc: Mapping[str, Any] | None = ...,
        threads: int | None = ...,
        progress: Progress = ...,
        executor: concurrent.futures.Executor | None = ...,
        in_flight: int | None = ...,
        to: str | os.PathLike[str],
    ) -> Saved: ...
    def sweep(
        self,
        parameters: Mapping[str, Sequence[Any]],
        *,
        algorithms: Names = None,
        cell: str | None = None,
        seeds: int | None = None,
        seed: int | None = None,
        cc: Mapping[str, Any] | None = None,
        threads: int | None = None,
        progress: Progress = None,
        executor: concurrent.futures.Executor | None = None,
        in_flight: int | None = None,
        to: str | os.PathLike[str] | None = None,
    ) -> Runs | Saved:
        """Run every combination of values, such as ``{"buffer": ["2500 B", "14100 B"]}``.

        Takes the keys of ``--set``; the last key varies fastest. ``executor`` is any
        ``concurrent.futures.Executor``: ``ProcessPoolExecutor()``, or ``client.get_executor()`` of
        ``dask.distributed``. Each task takes about a second; at most ``in_flight`` tasks (default: three per
        worker) are outstanding.

        With ``to`` the runs go to a JSON Lines file as they arrive, and memory does not grow with their
        number. The file is the same, byte for byte, with every executor.
        """
        of = self._with(algorithms, cc)
        points = []
        for combination in itertools.product(*parameters.values()):
            labels = {key: value(one) for key, one in zip(parameters, combination)}
            points.append((of.set(labels), labels))
        if not points:
            raise ValueError("a parameter without values; give each at least one")
        everywhere = cell is not None and algorithms is not None
        call = of._call("sweep", cell, seed, seeds, dict(parameters))
        batch = _Batch(call, points, Selection(cell, everywhere, seed, seeds))
        if executor is None:
            with concurrent.futures.ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
                return batch.run(pool, in_flight, progress, to)
        return batch.run(executor, in_flight, progress, to)

    def compare(
        self, algorithms: Names = None, *, against: str = "default", metric: str = "fct_s", **options: Any
    ) -> Comparison:
        """Run and compare: ``self.run(...).compare(...)``."""
        return self.run(algorithms, **options).compare(metric, against=against)

    def _with(self, algorithms: Names, cc: Mapping[str, Any] | None) -> Scenario:
        of = self if algorithms is None else self.with_algorithms(algorithms)
        return of if cc is None else of.set({f"cc.{key}": one for key, one in cc.items()})

    def _chosen(self) -> list[str] | None:
        return self.__getnewargs__()[3]

    def _call(
        self,
        method: str,
        cell: str | None,
        seed: int | None,
        seeds: int | None,
        parameters: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the Python call that repeats the runs, for reports and files."""
        text = f"carob.scenario({self.name!r})"
        if self.settings:
            text += f".set({dict(one.split('=', 1) for one in self.settings)!r})"
        given: list[str] = [] if parameters is None else [repr(parameters)]
        chosen = self._chosen()
        options = {"algorithms": chosen, "cell": cell, "seed": seed, "seeds": seeds}
        given += [f"{key}={one!r}" for key, one in options.items() if one is not None]
        return f"{text}.{method}({', '.join(given)})"

    def __repr__(self) -> str:
        return (
            f"Scenario({self.title!r}: {len(self.cells)} cells, "
            f"{', '.join(self.algorithms)}; {self.seeds} seeds)"
        )

    def _repr_html_(self) -> str:
        facts = [*self.network(), ("Algorithms", ", ".join(self.algorithms))]
        facts += [("Cells", str(len(self.cells))), ("Seeds", str(self.seeds)), ("Hash", self.hash)]
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
            for name, text in facts
            if text
        )
        return f"<b>{html.escape(self.title)}</b><p>{html.escape(self.about)}</p><table>{rows}</table>"


def scenario(
    name: str | os.PathLike[str], *, algorithms: Names = None, text: str | None = None
) -> Scenario:
    """Read a scenario: a built-in one by name, a ``.toml`` file by path, or ``text`` with any name.

    >>> scenario("thesis/long").set(error="high").run("default,fasor", seeds=20)
    """
    return Scenario(os.fspath(name), text, [], names(algorithms))


class _Batch:
    """Points of a sweep whose runs an executor processes."""

    def __init__(
        self, call: str, points: list[tuple[Scenario, dict[str, str]]], selection: Selection
    ) -> None:
        self._call = call
        self._scenarios = [of for of, _ in points]
        self._selection = s = selection
        labelled = [(of, list(labels.items())) for of, labels in points]
        self._inner = _carob.Batches(labelled, s.cell, s.everywhere, s.seed, s.seeds)

    def run(
        self,
        executor: concurrent.futures.Executor,
        in_flight: int | None,
        progress: Progress,
        to: str | os.PathLike[str] | None,
    ) -> Runs | Saved:
        if to is None:
            return self.runs(executor, in_flight, progress)
        path = os.fspath(to)
        self._inner.write_to(path)
        self._collect(executor, in_flight, progress)
        self._inner.finish()
        return Saved(path, sum(self._inner.jobs))

    def runs(
        self, executor: concurrent.futures.Executor, in_flight: int | None, progress: Progress
    ) -> Runs:
        self._collect(executor, in_flight, progress)
        return Runs(self._inner.runs(), self._call)

    def _collect(
        self, executor: concurrent.futures.Executor, in_flight: int | None, progress: Progress
    ) -> None:
        jobs, done = self._inner.jobs, 0
        with shown(progress, sum(jobs)) as call:
            made = parts(self._scenarios, jobs, self._selection, executor, in_flight)
            for point, start, records, count in made:
                self._inner.add(point, start, records)
                done += count
                if call is not None:
                    call(done, sum(jobs))


@dataclass(frozen=True)
class Saved:
    """Runs stored in a JSON Lines file."""

    path: str
    #: Number of runs.
    runs: int

    def load(self) -> Table:
        """Read the file."""
        return load(self.path)


class Runs:
    """Results of the runs of a scenario or a sweep."""

    def __init__(self, inner: _carob.Runs, call: str) -> None:
        self._inner = inner
        self._call = call

    @property
    def algorithms(self) -> list[str]:
        """Names of the algorithms."""
        return self._inner.algorithms

    @property
    def trace_hash(self) -> str:
        """Hash over the trace hashes of all runs: equal if all events have equal times."""
        return self._inner.trace_hash

    def table(self) -> Table:
        """Return one row per run and one column per metric (mean over the run's flows)."""
        return Table(self._inner.table())

    def long_table(self) -> Table:
        """Return one row per run and metric with twelve statistics, as in ``--each --csv``."""
        return Table(self._inner.long_table())

    def summary(self) -> Table:
        """Return one row per cell, algorithm and metric over all runs, as in ``--csv``."""
        return Table(self._inner.summary_table())

    def json(self, *, each: bool = False) -> str:
        """Return the output of ``carob lab run --json``; with ``each``, of ``--each --json``."""
        return self._inner.json(each)

    def samples(
        self, metric: str, *, algorithm: str | None = None, cell: str | None = None, **keys: Any
    ) -> list[float]:
        """Return all samples of a metric: one per response for ``response_time_s``, one per flow for metrics
        of flows. ``keys`` select swept values, such as ``loss="5 %"``.

        :meth:`sample_table` returns them with labels.
        """
        return self._inner.samples(metric, algorithm, cell, _chosen(keys))

    def sample_table(self, metric: str = "response_time_s") -> Table:
        """Return one row per sample of a metric, with cell, swept values, algorithm and seed.

        >>> runs.sample_table().to_pandas().groupby("algorithm").response_time_s.quantile(0.99)
        """
        return Table(self._inner.sample_table(metric))

    def statistic(
        self,
        metric: str,
        statistic: str = "p50",
        *,
        algorithm: str | None = None,
        cell: str | None = None,
        **keys: Any,
    ) -> float | None:
        """Return a statistic of all samples: ``mean``, ``sd``, ``p50``, ``p95``, ``p99`` and others."""
        return self._inner.statistic(metric, statistic, algorithm, cell, _chosen(keys))

    def median(
        self, metric: str, *, algorithm: str | None = None, cell: str | None = None, **keys: Any
    ) -> float | None:
        """Return the median of all samples."""
        return self.statistic(metric, algorithm=algorithm, cell=cell, **keys)

    def compare(
        self, metric: str = "fct_s", *, by: str = "algorithm", against: str | None = None
    ) -> Comparison:
        """Return paired differences between two values of ``by`` with the same seed.

        ``by`` is ``"algorithm"`` or a swept key. ``against`` is the value of the baseline (default: the first
        algorithm). Confidence intervals are simultaneous at 95 % (Bonferroni); with fewer than ten seeds there are none.
        """
        if against is None:
            if by != "algorithm":
                raise ValueError(f'against: name the value of "{by}" to compare with')
            against = self.algorithms[0]
        rows = self._inner._compare(metric, by, against)
        return Comparison(metric, by, [Difference(**row) for row in rows])

    def figure(
        self, name: str | None = None, *, metric: str = "fct_s", over: str | None = None
    ) -> Figure:
        """Return a figure of the runs as SVG.

        With ``over``, a key such as ``"block"``: means of ``metric`` against its values, one line per
        algorithm and one panel per group. Default for a sweep: its first key. Otherwise the report figure
        with this ``name`` (see :func:`carob.figures`), by default the first available one; ``bars`` and
        ``cdf`` draw ``metric``.
        """
        if over is None and name is None and self._inner.swept_keys:
            over = self._inner.swept_keys[0]
        if over is not None:
            if name is not None:
                raise ValueError("figure: give a name or a key, not both")
            return Figure(*self._inner._swept(metric, over).figure())
        drawn = self._inner._figure(name, metric)
        if drawn is None:
            need = next((need for one, _, need in _carob.figures() if one == name), "runs")
            raise ValueError(f"nothing to draw: the figure needs {need}")
        return Figure(*drawn)

    def plot(self, metric: str = "fct_s", *, over: str | None = None, ax: Any = None) -> Any:
        """Draw on the given matplotlib axes or on new ones, and return them.

        With ``over``: means with 95 % intervals against a key. Otherwise: the distribution of all samples.
        """
        if over is None:
            return _plot.distribution(self, metric, ax)
        return _plot.means(self._inner._swept(metric, over), ax)

    def chart(self, metric: str = "fct_s", *, over: str | None = None) -> Any:
        """Return an Altair chart of :meth:`table`: means against a key, or one box plot per algorithm."""
        return _plot.chart(self, metric, over)

    def report(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as one self-contained HTML page; ``path`` writes it to a file, too."""
        page = self._inner._report(self._call)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page

    def save(self, path: str | os.PathLike[str]) -> Saved:
        """Write a JSON Lines file: one line per run, with the hash of its scenario."""
        name = os.fspath(path)
        self._inner._save(name)
        return Saved(name, len(self))

    def __len__(self) -> int:
        return len(self._inner)

    def __repr__(self) -> str:
        scenarios = ", ".join(self._inner.scenario_names)
        return f"Runs({len(self)} runs of {scenarios}: {', '.join(self.algorithms)})"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.table()._repr_html_()}"


@dataclass(frozen=True)
class Difference:
    """Paired difference between a value of a key and the baseline."""

    #: Keys and values that both have in common.
    group: dict[str, str]
    #: The value of the key.
    value: str
    #: The baseline's value.
    against: str
    #: Number of seeds for which both have the metric.
    seeds: int
    #: Median of the value and of the baseline.
    median: float | None
    median_against: float | None
    #: Mean of the paired differences (value - baseline), and the bounds of its interval.
    difference: float | None
    low: float | None
    high: float | None
    #: Share of seeds in which the value is lower than the baseline.
    lower: float | None

    @property
    def ratio(self) -> float | None:
        """Median relative to the baseline's."""
        if self.median is None or not self.median_against:
            return None
        return self.median / self.median_against

    def _ends(self) -> tuple[float, float, float]:
        """Return the difference and the bounds of its interval; without interval, the difference three times."""
        middle = self.difference or 0.0
        low, high = (middle if end is None else end for end in (self.low, self.high))
        return middle, low, high

    @property
    def is_settled(self) -> bool:
        """True if the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Comparison:
    """Paired differences of a metric."""

    metric: str
    #: Compared key.
    by: str
    rows: list[Difference]

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per difference and one column per key of its group."""
        rows = []
        for row in self.rows:
            fields = {name: value for name, value in vars(row).items() if name != "group"}
            rows.append({**row.group, **fields, "ratio": row.ratio})
        return package("pandas", "pandas").DataFrame(rows)

    def figure(self) -> Figure:
        """Return the differences with their intervals as a figure, one row per difference."""
        rows = []
        for row in self.rows:
            if row.difference is not None:
                text = f"{_short(row.difference)} ({_interval(row)})"
                rows.append((self._heading(row), row.value, self._look(row), row._ends(), text))
        if not rows:
            raise ValueError(f"nothing to draw: no seed has {self.metric} on both sides")
        seeds = max(row.seeds for row in self.rows)
        caption = (
            f"Mean paired differences over {seeds} seeds, with intervals of 95 % for all "
            f"{len(self.rows)} comparisons together (Student's t, Bonferroni)."
        )
        title = f"{self.metric} against {self.by} {self.rows[0].against}"
        return Figure(_carob.difference_figure(self._label(), rows), title, caption)

    def plot(self, ax: Any = None) -> Any:
        """Draw the differences on the given matplotlib axes or on new ones, and return them."""
        return _plot.differences(self, ax)

    def _label(self) -> str:
        against = self.rows[0].against if self.rows else ""
        return f"{_plot._with_unit(self.metric)}: difference from {against}"

    def _heading(self, row: Difference) -> str:
        """Return the keys of a group that differ between groups."""
        first = self.rows[0].group
        differ = [key for key in first if any(one.group.get(key) != first[key] for one in self.rows)]
        return ", ".join(f"{key} {row.group.get(key, '')}" for key in differ)

    def _look(self, row: Difference) -> str:
        """Return the name that selects colour and marker."""
        return row.group.get("algorithm", row.value)

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        """Return the table as text."""
        lines = [["group", self.by, "median", "against", "ratio", "difference", "95 %", "lower", "seeds"]]
        for row in self.rows:
            lines.append([self._heading(row), row.value, _short(row.median), _short(row.median_against),
                          _short(row.ratio), _short(row.difference), _interval(row),
                          "" if row.lower is None else f"{row.lower:.0%}", str(row.seeds)])
        widths = [max(map(len, column)) for column in zip(*lines)]
        rows = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines]
        against = self.rows[0].against if self.rows else ""
        return "\n".join([f"{self.metric} against {self.by} {against}, same seeds", *rows])

    def _repr_html_(self) -> str:
        svg = self.figure().svg if any(row.difference is not None for row in self.rows) else ""
        return f"{svg}<pre>{html.escape(str(self))}</pre>"


def _chosen(keys: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key, value(one)) for key, one in keys.items()]


def _short(number: float | None) -> str:
    """Return three significant digits, without an exponent where the number is at least 1000."""
    if number is None:
        return ""
    return f"{number:.0f}" if 1e3 <= abs(number) < 1e9 else f"{number:.3g}"


def _interval(row: Difference) -> str:
    if row.low is None or row.high is None:
        return "too few seeds"
    return f"{_short(row.low)} to {_short(row.high)}"
