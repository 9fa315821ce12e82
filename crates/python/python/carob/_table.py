"""Tables with the Arrow PyCapsule interface."""

from __future__ import annotations

import html
import os
from typing import Any

from . import _carob
from ._optional import package

_SHOWN = 10


class Table:
    """Columnar table; ``pyarrow.table(t)``, ``polars.DataFrame(t)`` and others take it without a copy.

    ``table["fct_s"]`` is a list; ``table.dictionary`` has unit and description of each column.
    """

    def __init__(self, inner: _carob.Table) -> None:
        self._inner = inner

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._inner.columns

    @property
    def dictionary(self) -> dict[str, tuple[str, str]]:
        """Unit and description of each column."""
        return self._inner.dictionary()

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``."""
        return package("pyarrow", "pyarrow").table(self)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` (needs pyarrow as well)."""
        package("pandas", "pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``."""
        return package("polars", "polars").DataFrame(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._inner.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, column: str) -> list[Any]:
        return self._inner[column]

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        shown = [self[column][:_SHOWN] for column in self.columns]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_plain(cell))}</td>" for cell in row) + "</tr>"
            for row in zip(*shown)
        )
        more = len(self) - _SHOWN
        rest = f"<p>... and {more} more rows</p>" if more > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{rest}"


def _plain(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def load(path: str | os.PathLike[str]) -> Table:
    """Read a file of :meth:`Runs.save` or ``carob lab run --each --json`` as a table like :meth:`Runs.long_table`."""
    return Table(_carob.load(os.fspath(path)))
