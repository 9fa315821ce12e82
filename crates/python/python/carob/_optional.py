"""Optional packages."""

from __future__ import annotations

import importlib
from typing import Any


def package(name: str, install: str) -> Any:
    """Import a module; if it is missing, the error names the command that installs it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        top = name.partition(".")[0]
        if (error.name or "").partition(".")[0] != top:
            raise
        raise ModuleNotFoundError(
            f"this call needs {top}, which is not installed\nhint: pip install '{install}'", name=top
        ) from error
