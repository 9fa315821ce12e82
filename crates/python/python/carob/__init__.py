"""CoAP with congestion control: the lab, the controllers, and a client and server for asyncio.

- :func:`scenario`, :class:`Scenario`, :class:`Runs`: simulate a network, sweep its settings, compare
  controllers with the same seeds.
- :func:`recommend`: a controller and its settings for a link.
- :class:`Controller`: a congestion controller without the stack, for your own client.
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
    """Return the descriptions of the built-in scenarios, by name."""
    return dict(_scenarios())


def controllers() -> dict[str, str]:
    """Return description and source of each controller, by name."""
    return {name: f"{about} ({source})" for name, about, source in _controllers()}


def metrics() -> dict[str, tuple[str, str]]:
    """Return unit and description of each metric, by name."""
    return {name: (unit, about) for name, unit, about in _metrics()}


def figures() -> dict[str, str]:
    """Return content and required data of each report figure, by name."""
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
    """Recommend a controller and its settings for a link and its traffic, as ``carob lab compare`` does.

    ``link`` is a built-in link or a TOML file. ``numbers``, such as ``loss="5 %"``, override its values; without
    ``link`` they describe the whole link. Returns the object of ``carob lab compare --json`` and, under ``words``, the
    recommendation as text: a list of paragraphs.

    >>> carob.recommend("umts", "command", loss="5 %")["words"][0]  # doctest: +SKIP
    'Use carob. Nothing to set.'
    """
    asked = {"link": link, "numbers": list(numbers.items()), "traffic": traffic, "clients": clients, "burst": burst, "size": size,
             "first_seed": first_seed}
    text, words = _recommend(asked)
    return {**_json.loads(text), "words": words}
