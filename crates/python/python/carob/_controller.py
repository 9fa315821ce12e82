"""A congestion controller alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _carob
from ._settings import settings

Exchange = _carob.Exchange

#: Parameters that are times.
_TIMES = ("ack_timeout", "rto_max")


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool)


class Controller:
    """Congestion controller of one peer, for use inside a client of your own.

    ``name`` is an id of :func:`carob.controllers`, such as ``"fasor"``. ``constants`` sets constants of
    the algorithm; ``parameters`` sets ``ack_timeout``, ``ack_random_factor``, ``max_retransmit`` and
    ``rto_max``, each with its unit: ``ack_timeout="400 ms"``; a number is in seconds. ``seed`` decides the dithering.

    Times are seconds of one clock that never goes back, such as ``asyncio.get_running_loop().time()``;
    timers are seconds from the last transmission.

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
        """Overall RTO in seconds before dithering; ``None`` where the controller keeps none."""
        return self._inner.rto

    @property
    def tagging(self) -> str:
        """Means by which answers should name transmissions: ``off``, ``every-copy``, ``repeated-copies``
        or ``token``. Where your protocol can tell, pass ``transmission`` to :meth:`answered`."""
        return self._inner.tagging

    def window(self, now: float) -> int:
        """Return the number of exchanges that may be outstanding (NSTART or its adaptive form)."""
        return self._inner.window(now)

    def earliest_departure(self, now: float, size: int = 64) -> float:
        """Return the earliest time at which a message of ``size`` bytes may be sent (pacing)."""
        return self._inner.earliest_departure(now, size)

    def begin(self, now: float, size: int = 64) -> Exchange:
        """Begin an exchange: a confirmable message of ``size`` bytes is sent now.

        Wait ``exchange.timeout`` seconds for the answer.
        """
        return self._inner.begin(now, size)

    def expired(self, exchange: Exchange, now: float) -> float | None:
        """Handle the end of the running timer.

        Returns the next timer in seconds, and the message is to be sent again now. Returns ``None``
        after MAX_RETRANSMIT retransmissions: the exchange is given up.
        """
        return self._inner.expired(exchange, now)

    def answered(
        self, exchange: Exchange, now: float, *, transmission: int | None = None, size: int = 64
    ) -> None:
        """Handle an answer of ``size`` bytes, also a late one of an exchange that has ended.

        ``transmission`` names the transmission that was answered, counted from 0.
        """
        self._inner.answered(exchange, now, transmission, size)

    def abandoned(self, exchange: Exchange, now: float, *, reset: bool = False) -> None:
        """Handle the end of an exchange that you cancel, or that the peer resets."""
        self._inner.abandoned(exchange, now, reset)

    def gauges(self) -> dict[str, float | int | str]:
        """Return every gauge of the state; times are seconds."""
        return self._inner.gauges()

    def __repr__(self) -> str:
        return repr(self._inner)
