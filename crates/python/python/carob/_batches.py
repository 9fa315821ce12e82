"""Runs in other processes and on other machines, with any ``concurrent.futures.Executor``."""

from __future__ import annotations

import concurrent.futures
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import _carob

#: Target duration of a task in seconds: much longer than the overhead per task of any pool (a few ms).
TASK_SECONDS = 1.0
#: Maximum number of runs per task, however short they are.
RUNS_MAX = 100_000


@dataclass(frozen=True)
class Selection:
    """Selection of runs of a scenario."""

    cell: str | None = None
    everywhere: bool = False
    seed: int | None = None
    seeds: int | None = None


def run_batch(
    scenario: _carob.Scenario, selection: Selection, start: int, end: int
) -> tuple[bytes, float]:
    """Execute the runs ``start..end`` on one thread; return their packed records and the duration in seconds."""
    began = time.perf_counter()
    s = selection
    records = _carob.run_batch(scenario, s.cell, s.everywhere, s.seed, s.seeds, start, end)
    return records, time.perf_counter() - began


def _workers(executor: concurrent.futures.Executor) -> int:
    """Return the number of workers of the executor; without that information, the number of CPUs."""
    count = getattr(executor, "_max_workers", None)
    if isinstance(count, int) and count > 0:
        return count
    client: Any = getattr(executor, "_client", None)
    try:
        return max(1, int(sum(client.ncores().values())))  # dask.distributed
    except Exception:
        return os.cpu_count() or 1


class _Parts:
    """Parts of all points in order, sized by the measured duration of a run."""

    def __init__(self, jobs: list[int]) -> None:
        self._jobs = jobs
        self._point = 0
        self._start = 0
        self._seconds: float | None = None

    def measured(self, runs: int, seconds: float) -> None:
        """Update the duration of a run. Points differ, so the newest task has half of the weight."""
        each = seconds / max(runs, 1)
        self._seconds = each if self._seconds is None else (self._seconds + each) / 2

    def next(self) -> tuple[int, int, int] | None:
        """Return point, start and end of the next part."""
        while self._point < len(self._jobs) and self._start >= self._jobs[self._point]:
            self._point, self._start = self._point + 1, 0
        if self._point >= len(self._jobs):
            return None
        # One run per task until a duration is known.
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

    At most ``in_flight`` tasks (default: three per worker) are submitted and not yet yielded, which bounds
    memory independently of the number of runs.
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
