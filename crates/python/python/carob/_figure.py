"""Figures of reports, as SVG."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """Figure for a white background. Notebooks display it; :meth:`save` writes it to a file."""

    #: The SVG document.
    svg: str
    title: str
    caption: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the SVG document to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def __repr__(self) -> str:
        return f"Figure({self.title!r}, {len(self.svg)} bytes of SVG)"

    def _repr_svg_(self) -> str:
        return self.svg
