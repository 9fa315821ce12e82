"""Congestion controller without the stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _carob
from ._settings import settings

Exchange = _carob.Exchange

#: Parameters with a unit of time.
_TIMES = ("ack_timeout", "rto_max")


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool)


class Controller:
    """Congestion controller of one peer, for use in your own client.

    ``name`` is an id of :func:`carob.controllers`, such as ``"fasor"``. ``constants`` sets constants of
    the algorithm. ``parameters`` sets ``ack_timeout``, ``ack_random_factor``, ``max_retransmit`` and
    ``rto_max``; times have a unit (``ack_timeout="400 ms"``) or are numbers in seconds. ``seed`` seeds the random
    dithering of timers.

    Times are seconds of a monotonic clock, such as ``asyncio.get_running_loop().time()``. Timers are seconds
    from the last transmission.

    >>> cc = Controller("fasor")
    >>> exchange = cc.begin(now=0.0)        # the message is sent; wait exchange.timeout seconds
    >>> cc.answered(exchange, now=0.8)      # or cc.expired(exchange, now) where the timer ended
    >>> cc.rto
    """

    def __init__(
        self,
        name: str,
        *,
        constants: Mapping[str, Any] | None = None,
        seed: int = 0,
        **parameters: Any,
    ) -> None:
        timed = {key: f"{parameters[key]} s" for key in _TIMES if _is_number(parameters.get(key))}
        of_algorithm = {f"cc.{key}": value for key, value in (constants or {}).items()}
        self._inner = _carob.Controller(name, settings(of_algorithm, {**parameters, **timed}), seed)

    @property
    def name(self) -> str:
        """Id of the controller."""
        return self._inner.name

    @property
    def rto(self) -> float | None:
        """Overall RTO in seconds before dithering; ``None`` if the controller has no estimate."""
        return self._inner.rto

    @property
    def tagging(self) -> str:
        """Mechanism that maps a response to a transmission: ``off``, ``every-copy``, ``repeated-copies``
        or ``token``. If your protocol identifies the transmission, pass its number to :meth:`answered`."""
        return self._inner.tagging

    def window(self, now: float) -> int:
        """Return the maximum number of outstanding exchanges (NSTART or an adaptive window)."""
        return self._inner.window(now)

    def earliest_departure(self, now: float, size: int = 64) -> float:
        """Return the earliest time at which a message of ``size`` bytes may be sent (pacing)."""
        return self._inner.earliest_departure(now, size)

    def begin(self, now: float, size: int = 64) -> Exchange:
        """Start an exchange: you send a confirmable message of ``size`` bytes at ``now``.

        Wait ``exchange.timeout`` seconds for the acknowledgement or response.
        """
        return self._inner.begin(now, size)

    def expired(self, exchange: Exchange, now: float) -> float | None:
        """Handle the expiry of the retransmission timer.

        Returns the next timer in seconds; retransmit the message at once. Returns ``None`` after
        MAX_RETRANSMIT retransmissions: give up the exchange.
        """
        return self._inner.expired(exchange, now)

    def answered(
        self, exchange: Exchange, now: float, *, transmission: int | None = None, size: int = 64
    ) -> None:
        """Handle an acknowledgement or response of ``size`` bytes, even a late one after the exchange ended.

        ``transmission`` is the number of the acknowledged transmission; the original one is 0.
        """
        self._inner.answered(exchange, now, transmission, size)

    def abandoned(self, exchange: Exchange, now: float, *, reset: bool = False) -> None:
        """End an exchange that you cancel, or that the peer rejects with a Reset (``reset=True``)."""
        self._inner.abandoned(exchange, now, reset)

    def gauges(self) -> dict[str, float | int | str]:
        """Return all state variables by name; times are in seconds."""
        return self._inner.gauges()

    def __repr__(self) -> str:
        return repr(self._inner)
