"""Settings of scenarios and controllers in the syntax of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def value(given: Any) -> str:
    """Return a value as text: ``on`` or ``off``, a list with commas, or ``str(value)``."""
    if isinstance(given, bool):
        return "on" if given else "off"
    if isinstance(given, (list, tuple)):
        return ",".join(value(one) for one in given)
    return str(given)


def settings(mapping: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> list[str]:
    """Return ``key=value`` for each setting."""
    both = {**(mapping or {}), **keywords}
    return [f"{key}={value(one)}" for key, one in both.items()]


def names(given: str | Sequence[str] | None) -> list[str] | None:
    """Return names as a list; a string is split at commas."""
    if given is None:
        return None
    if isinstance(given, str):
        given = given.split(",")
    return [name.strip() for name in given]
