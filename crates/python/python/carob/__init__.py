"""CoAP with congestion control: the lab, the controllers, and a client and server for asyncio.

- :func:`scenario`, :class:`Scenario`, :class:`Runs`: simulate a network, sweep its settings, compare
  controllers with the same seeds.
- :func:`recommend`: a controller and its settings for a link.
- :class:`Controller`: a congestion controller alone, inside a client of your own.
- :mod:`carob.aio`: CoAP over UDP, DTLS, TCP, TLS and WebSocket.

>>> import carob
>>> runs = carob.scenario("carob/default").run(seeds=20)
>>> print(runs.compare(against="default"))
"""

from __future__ import annotations

import json as _json
from typing import Any

from ._carob import (
    CarobError,
    CoapError,
    ControllerError,
    Exchange,
    ScenarioError,
    VersionMismatchError,
    __version__,
    controllers as _controllers,
    figures as _figures,
    metrics as _metrics,
    recommend as _recommend,
    scenarios as _scenarios,
)
from ._controller import Controller
from ._figure import Figure
from ._lab import Comparison, Difference, Runs, Saved, Scenario, scenario
from ._table import Table, load

__all__ = [
    "CarobError",
    "CoapError",
    "Comparison",
    "Controller",
    "ControllerError",
    "Difference",
    "Exchange",
    "Figure",
    "Runs",
    "Saved",
    "Scenario",
    "ScenarioError",
    "Table",
    "VersionMismatchError",
    "__version__",
    "controllers",
    "figures",
    "load",
    "metrics",
    "recommend",
    "scenario",
    "scenarios",
]


def scenarios() -> dict[str, str]:
    """Return the built-in scenarios and their questions, by name."""
    return dict(_scenarios())


def controllers() -> dict[str, str]:
    """Return the controllers and their descriptions, by name."""
    return {name: f"{about} ({source})" for name, about, source in _controllers()}


def metrics() -> dict[str, tuple[str, str]]:
    """Return unit and description of every metric, by name."""
    return {name: (unit, about) for name, unit, about in _metrics()}


def figures() -> dict[str, str]:
    """Return the figures of a report, by name: content and need."""
    return {name: f"{about}; needs {need}" for name, about, need in _figures()}


def recommend(
    link: str | None = "nb-iot",
    traffic: str = "firmware",
    *,
    clients: int = 1,
    burst: int = 1,
    size: int | None = None,
    first_seed: int = 1,
    **numbers: str,
) -> dict[str, Any]:
    """Recommend a controller and its settings for a link and its traffic, as ``carob lab compare``.

    ``link`` is a built-in link or a TOML file; ``numbers`` such as ``loss="5 %"`` override its values, or are a link without one. The keys
    are those of ``--json``, and ``words``: the answer, a sentence or two each.

    >>> carob.recommend("umts", "command", loss="5 %")["words"][0]  # doctest: +SKIP
    'Use carob. Nothing to set.'
    """
    asked = {"link": link, "numbers": list(numbers.items()), "traffic": traffic, "clients": clients, "burst": burst, "size": size,
             "first_seed": first_seed}
    text, words = _recommend(asked)
    return {**_json.loads(text), "words": words}
