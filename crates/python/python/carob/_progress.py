"""Progress bar of long calls, if tqdm is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Iterator

#: ``True`` for a bar, ``False`` for none, ``None`` for a bar only in a terminal (standard error) or a
#: notebook; or a function of (done, total).
Progress = bool | None | Callable[[int, int], Any]


def _is_watched() -> bool:
    return "ipykernel" in sys.modules or sys.stderr.isatty()


@contextmanager
def shown(progress: Progress, total: int) -> Iterator[Callable[[int, int], Any] | None]:
    """Yield the function to call with (done, total), or ``None`` without progress."""
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not _is_watched()):
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(total=total, unit=" runs") as bar:

        def call(done: int, of_all: int) -> None:
            bar.total = of_all
            bar.update(done - bar.n)

        yield call
