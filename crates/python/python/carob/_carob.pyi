"""Compiled part of the package. Use ``carob`` and ``carob.aio``."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

__version__: str

class CarobError(Exception):
    """Base of all errors of carob."""

class ScenarioError(CarobError):
    """Invalid scenario, cell or setting."""

class ControllerError(CarobError):
    """Unknown controller, or a constant or parameter that it does not accept."""

class VersionMismatchError(CarobError):
    """Records that are damaged or come from another version of carob."""

class CoapError(CarobError):
    """Request that failed without a response, or endpoint that cannot be opened."""

def recommend(asked: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the JSON of ``carob lab compare --json`` and the recommendation as text."""

class Table:
    @property
    def columns(self) -> list[str]: ...
    def dictionary(self) -> dict[str, tuple[str, str]]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, column: str) -> list[Any]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def command(words: list[str]) -> int:
    """Run ``carob``, or ``carob-studies`` if that is the first word, and return the exit code."""

def load(path: str) -> Table: ...

class Scenario:
    def __new__(
        cls,
        name: str,
        text: str | None = None,
        settings: list[str] = ...,
        algorithms: list[str] | None = None,
    ) -> Scenario: ...
    def __getnewargs__(self) -> tuple[str, str, list[str], list[str] | None]: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def settings(self) -> list[str]: ...
    @property
    def hash(self) -> str: ...
    @property
    def cells(self) -> list[str]: ...
    @property
    def algorithms(self) -> list[str]: ...
    @property
    def seeds(self) -> int: ...
    @property
    def first_seed(self) -> int: ...
    def network(self) -> list[tuple[str, str]]: ...
    def _run(
        self,
        cell: str | None = None,
        everywhere: bool = False,
        seed: int | None = None,
        seeds: int | None = None,
        threads: int | None = None,
        progress: Callable[[int, int], Any] | None = None,
    ) -> Runs: ...

def run_batch(
    scenario: Scenario,
    cell: str | None,
    everywhere: bool,
    seed: int | None,
    seeds: int | None,
    start: int,
    end: int,
) -> bytes: ...
def scenarios() -> list[tuple[str, str]]: ...
def controllers() -> list[tuple[str, str, str]]: ...
def metrics() -> list[tuple[str, str, str]]: ...
def figures() -> list[tuple[str, str, str]]: ...
def looks(names: list[str]) -> list[tuple[str, int]]: ...
def difference_figure(
    label: str, rows: list[tuple[str, str, str, tuple[float, float, float], str]]
) -> str: ...

class Swept:
    @property
    def key(self) -> str: ...
    @property
    def values(self) -> list[str]: ...
    @property
    def numbers(self) -> tuple[list[float], str, bool] | None: ...
    @property
    def label(self) -> str: ...
    @property
    def panels(self) -> list[tuple[str, list[tuple[str, list[tuple[int, float, float]]]]]]: ...
    def figure(self) -> tuple[str, str, str]: ...

class Runs:
    def __len__(self) -> int: ...
    @property
    def scenario_names(self) -> list[str]: ...
    @property
    def algorithms(self) -> list[str]: ...
    @property
    def trace_hash(self) -> str: ...
    def table(self) -> Table: ...
    def long_table(self) -> Table: ...
    def summary_table(self) -> Table: ...
    def json(self, each: bool = False) -> str: ...
    def samples(
        self,
        metric: str,
        algorithm: str | None = None,
        cell: str | None = None,
        keys: list[tuple[str, str]] = ...,
    ) -> list[float]: ...
    def sample_table(self, metric: str) -> Table: ...
    def statistic(
        self,
        metric: str,
        statistic: str = "p50",
        algorithm: str | None = None,
        cell: str | None = None,
        keys: list[tuple[str, str]] = ...,
    ) -> float | None: ...
    def _compare(self, metric: str, by: str, against: str) -> list[dict[str, Any]]: ...
    @property
    def swept_keys(self) -> list[str]: ...
    def _figure(
        self, name: str | None = None, metric: str | None = None
    ) -> tuple[str, str, str] | None: ...
    def _swept(self, metric: str, over: str) -> Swept: ...
    def _report(self, command: str) -> str: ...
    def _save(self, path: str) -> None: ...

class Batches:
    def __new__(
        cls,
        points: list[tuple[Any, list[tuple[str, str]]]],
        cell: str | None = None,
        everywhere: bool = False,
        seed: int | None = None,
        seeds: int | None = None,
    ) -> Batches: ...
    @property
    def jobs(self) -> list[int]: ...
    def write_to(self, path: str) -> None: ...
    def add(self, point: int, start: int, records: bytes) -> None: ...
    def runs(self) -> Runs: ...
    def finish(self) -> None: ...

class Controller:
    def __new__(cls, name: str, settings: list[str] = ..., seed: int = 0) -> Controller: ...
    @property
    def name(self) -> str: ...
    @property
    def rto(self) -> float | None: ...
    @property
    def tagging(self) -> str: ...
    def window(self, now: float) -> int: ...
    def earliest_departure(self, now: float, size: int = 64) -> float: ...
    def begin(self, now: float, size: int = 64) -> Exchange: ...
    def expired(self, exchange: Exchange, now: float) -> float | None: ...
    def answered(
        self, exchange: Exchange, now: float, transmission: int | None = None, size: int = 64
    ) -> None: ...
    def abandoned(self, exchange: Exchange, now: float, reset: bool = False) -> None: ...
    def gauges(self) -> dict[str, float | int | str]: ...

class Exchange:
    """Confirmable message and its transmissions."""

    @property
    def timeout(self) -> float:
        """Retransmission timer in seconds, from the last transmission."""
    @property
    def retransmissions(self) -> int:
        """Number of retransmissions."""
    @property
    def ended(self) -> bool:
        """True after an acknowledgement or response, and after the exchange was given up."""

class Response:
    """Response to a request."""

    @property
    def code(self) -> str:
        """Response code, such as ``2.05``."""
    @property
    def ok(self) -> bool:
        """True for codes 2.xx."""
    @property
    def payload(self) -> bytes:
        """Body."""
    @property
    def text(self) -> str:
        """Body decoded as UTF-8; raises ``UnicodeDecodeError`` if it is invalid."""
    @property
    def options(self) -> list[tuple[int, bytes]]:
        """Options as (number, value)."""
    @property
    def content_format(self) -> int | None:
        """Content-Format."""
    @property
    def peer(self) -> str:
        """Server address as IP:PORT."""
    @property
    def elapsed(self) -> float:
        """Time from the request to the end of the response, in seconds."""
    @property
    def origin(self) -> str:
        """``network``, or from the client's cache ``fresh`` or ``validated`` (RFC 7252 5.6)."""

class Client:
    def __new__(
        cls,
        controller: str | None = None,
        psk: tuple[bytes, bytes] | None = None,
        trust: bytes | None = None,
        identity: tuple[bytes, bytes] | None = None,
    ) -> Client: ...
    @property
    def local_address(self) -> str: ...
    def _send(self, method: int, uri: str, body: bytes, extras: object) -> Awaitable[Response]: ...
    def _upload(
        self, method: int, uri: str, extras: object
    ) -> tuple[Any, Awaitable[Response]]: ...
    def _stream(
        self, method: int, uri: str, extras: object
    ) -> Awaitable[tuple[Response, AsyncIterator[bytes]]]: ...
    def _observe(self, uri: str, extras: object) -> Awaitable[Observation]: ...
    def gauges(self, peer: str) -> Awaitable[list[tuple[str, float]]]: ...
    def close(self, limit: float = 5.0) -> Awaitable[None]: ...

class Observation:
    def __aiter__(self) -> AsyncIterator[Response]: ...
    def __anext__(self) -> Awaitable[Response]: ...
    def stop(self) -> Awaitable[None]: ...

class Request:
    """Request that a handler receives."""

    @property
    def method(self) -> int:
        """Method code: 1 GET, 2 POST, 3 PUT, 4 DELETE, 5 FETCH, 6 PATCH, 7 iPATCH."""
    @property
    def payload(self) -> bytes:
        """Body."""
    @property
    def text(self) -> str:
        """Body decoded as UTF-8."""
    @property
    def options(self) -> list[tuple[int, bytes]]:
        """Options as (number, value)."""
    @property
    def peer(self) -> str:
        """Client address as IP:PORT."""
    @property
    def content_format(self) -> int | None:
        """Content-Format of the body."""
    @property
    def accept(self) -> int | None:
        """Content-Format that the client accepts (Accept option)."""
    def parameter(self, name: str) -> str | None:
        """Return the path segment of a parameter, such as ``id`` of ``/sensors/{id}``."""
    def query(self, name: str) -> str | None:
        """Return the value of a query parameter (Uri-Query)."""

class Notifier:
    """Trigger of notifications (RFC 7641); ``confirmable`` sends them as CON."""

    def __new__(cls, confirmable: bool = False) -> Notifier: ...
    def changed(self) -> None:
        """Send a notification to all observers of the resources."""

class Server:
    @staticmethod
    def _start(listening: object, resources: list[Any]) -> Awaitable[Server]: ...
    @property
    def addresses(self) -> list[str]: ...
    def close(self, limit: float = 5.0) -> Awaitable[None]: ...
