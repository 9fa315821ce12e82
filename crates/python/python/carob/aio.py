"""CoAP client and server for asyncio: UDP, DTLS, TCP, TLS and WebSocket, selected by the URI scheme.

>>> async with carob.aio.Client(controller="fasor") as client:
...     response = await client.get("coap://[::1]/sensors/temperature")
...     async for state in client.observe("coap://[::1]/count"):
...         print(state.text)
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from . import _carob
from ._carob import CoapError

__all__ = ["Client", "CoapError", "Notifier", "Reply", "Request", "Response", "Server"]

Response = _carob.Response
Request = _carob.Request
Notifier = _carob.Notifier

_METHODS = {"GET": 1, "POST": 2, "PUT": 3, "DELETE": 4, "FETCH": 5, "PATCH": 6, "IPATCH": 7}
_LOG = logging.getLogger("carob.aio")

#: Certificate chain and private key, as PEM.
Pair = tuple[bytes, bytes]


def _method(name: str) -> int:
    try:
        return _METHODS[name.upper()]
    except KeyError:
        raise ValueError(f'unknown method "{name}"; there are {", ".join(_METHODS)}') from None


def _bytes(body: bytes | bytearray | memoryview | str) -> bytes:
    return body.encode() if isinstance(body, str) else bytes(body)


class _Extras:
    """Optional parts of a request."""

    def __init__(
        self,
        content_format: int | None = None,
        accept: int | None = None,
        options: list[tuple[int, bytes]] | None = None,
        confirmable: bool = True,
        timeout: float | None = None,
    ) -> None:
        self.content_format = content_format
        self.accept = accept
        self.options = [(number, bytes(value)) for number, value in options or []]
        self.confirmable = confirmable
        self.timeout = timeout


class Client:
    """CoAP client. Use it as an asynchronous context manager, inside a running event loop.

    ``controller`` is an id of :func:`carob.controllers`. For ``coaps``, ``psk`` is (identity, key), ``trust`` the
    trusted certificates as PEM, and ``identity`` the client's certificate chain and key. A request without a
    response raises :class:`CoapError`; a response with an error code is a :class:`Response`.

    Requests take ``content_format``, ``accept``, ``options`` as (number, bytes), ``confirmable`` and
    ``timeout`` in seconds.
    """

    def __init__(
        self,
        *,
        controller: str | None = None,
        psk: tuple[str | bytes, str | bytes] | None = None,
        trust: bytes | None = None,
        identity: Pair | None = None,
    ) -> None:
        pair = psk and (_bytes(psk[0]), _bytes(psk[1]))
        self._inner = _carob.Client(controller, pair, trust, identity)

    @property
    def local_address(self) -> str:
        """Address of the UDP socket, as IP:PORT."""
        return self._inner.local_address

    async def request(
        self,
        method: str,
        uri: str,
        body: bytes | str | AsyncIterable[bytes] = b"",
        **extras: Any,
    ) -> Response:
        """Send a request and return the response, block-wise if large. ``body`` may be an asynchronous iterable."""
        number, given = _method(method), _Extras(**extras)
        if not isinstance(body, AsyncIterable):
            return await self._inner._send(number, uri, _bytes(body), given)
        pieces, response = self._inner._upload(number, uri, given)
        async for piece in body:
            if not await pieces.send(_bytes(piece)):
                break
        pieces.finish()
        return await response

    async def get(self, uri: str, **extras: Any) -> Response:
        """Send a GET request."""
        return await self.request("GET", uri, **extras)

    async def put(self, uri: str, body: bytes | str | AsyncIterable[bytes], **extras: Any) -> Response:
        """Send a PUT request."""
        return await self.request("PUT", uri, body, **extras)

    async def post(
        self, uri: str, body: bytes | str | AsyncIterable[bytes] = b"", **extras: Any
    ) -> Response:
        """Send a POST request."""
        return await self.request("POST", uri, body, **extras)

    async def delete(self, uri: str, **extras: Any) -> Response:
        """Send a DELETE request."""
        return await self.request("DELETE", uri, **extras)

    async def stream(self, uri: str, **extras: Any) -> AsyncIterator[bytes]:
        """Iterate over the blocks of a GET response. Reading a block requests the next ones.

        Raises :class:`CoapError` if the response has an error code.
        """
        head, blocks = await self._inner._stream(_METHODS["GET"], uri, _Extras(**extras))
        if not head.ok:
            raise CoapError(f"{uri}: {head.code}")
        async for block in blocks:
            yield block

    async def observe(self, uri: str, **extras: Any) -> AsyncIterator[Response]:
        """Iterate over the states of a resource, the current one first (RFC 7641).

        The client renews the registration. Leaving the loop cancels it; ``contextlib.aclosing`` does so
        at once.
        """
        observation = await self._inner._observe(uri, _Extras(**extras))
        try:
            async for state in observation:
                yield state
        finally:
            await observation.stop()

    async def gauges(self, peer: str) -> dict[str, float]:
        """Return the controller state of a peer (IP:PORT), such as ``rto`` in seconds."""
        return dict(await self._inner.gauges(peer))

    async def close(self, limit: float = 5.0) -> None:
        """Close the client after the outstanding requests, or after ``limit`` seconds."""
        await self._inner.close(limit)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Reply:
    """Response of a handler, with code, Content-Format and Max-Age."""

    def __init__(
        self,
        payload: bytes | str = b"",
        code: str = "2.05",
        *,
        content_format: int | None = None,
        max_age: float | None = None,
    ) -> None:
        if content_format is None and isinstance(payload, str) and payload:
            content_format = 0  # text/plain;charset=utf-8 (RFC 7252 12.3)
        self.payload = _bytes(payload)
        self.code = _code(code)
        self.content_format = content_format
        self.max_age = max_age


def _code(text: str) -> int:
    head, dot, tail = text.partition(".")
    if not (dot and head.isdigit() and tail.isdigit() and 2 <= int(head) <= 5 and int(tail) < 32):
        raise ValueError(f'code "{text}": expected a response code such as "2.05"')
    return int(head) << 5 | int(tail)


Handler = Callable[[Request], Awaitable[Any] | Any]


class Server:
    """CoAP server. Declare resources, then use it as an asynchronous context manager.

    >>> server = carob.aio.Server(bind="[::]:5683")
    >>> @server.resource("/hello")
    ... async def hello(request):
    ...     return "hello"

    A handler returns text, bytes, ``None`` (2.04 Changed), or a :class:`Reply`. An exception becomes a 5.00
    response and is logged by the logger ``carob.aio``. ``bind`` is the UDP address (``None``: no UDP); ``dtls``,
    ``tcp``, ``tls`` and ``ws`` are further addresses. ``ws_origin`` lists the hosts whose web pages may open
    WebSockets and by which clients reach the server. ``psk`` maps identities to keys; ``identity`` is a
    certificate chain and its key.
    """

    def __init__(
        self,
        bind: str | None = "[::]:5683",
        *,
        dtls: str | None = None,
        tcp: str | None = None,
        tls: str | None = None,
        ws: str | None = None,
        ws_origin: Iterable[str] = (),
        psk: dict[str | bytes, str | bytes] | None = None,
        identity: Pair | None = None,
        controller: str | None = None,
    ) -> None:
        self.bind, self.bind_dtls, self.bind_tcp = bind, dtls, tcp
        self.bind_tls, self.bind_ws = tls, ws
        self.ws_origin = list(ws_origin)
        self.psk = [(_bytes(name), _bytes(key)) for name, key in (psk or {}).items()]
        self.identity = identity
        self.controller = controller
        self._resources: dict[str, _Described] = {}
        self._inner: _carob.Server | None = None

    def resource(
        self, path: str, method: str = "GET", *, notifier: Notifier | None = None
    ) -> Callable[[Handler], Handler]:
        """Declare the handler for a method and a path, such as ``/sensors/{id}``.

        With a ``notifier`` the resource is observable: ``notifier.changed()`` notifies its observers.
        """
        number = _method(method)

        def declare(handler: Handler) -> Handler:
            described = self._resources.setdefault(path, _Described(path))
            described.handlers.append((number, _wrapped(handler, path)))
            described.notifier = notifier or described.notifier
            return handler

        return declare

    @property
    def addresses(self) -> list[str]:
        """Base URIs of the running server, such as ``coap://127.0.0.1:5683``."""
        return self._inner.addresses if self._inner is not None else []

    async def start(self) -> Server:
        """Start the server in the running event loop."""
        self._inner = await _carob.Server._start(self, list(self._resources.values()))
        return self

    async def close(self, limit: float = 5.0) -> None:
        """Stop the server after the outstanding responses, or after ``limit`` seconds."""
        if self._inner is not None:
            await self._inner.close(limit)

    async def __aenter__(self) -> Server:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Described:
    def __init__(self, path: str) -> None:
        self.path = path
        self.handlers: list[tuple[int, Any]] = []
        self.notifier: Notifier | None = None


def _wrapped(handler: Handler, path: str) -> Callable[[Request], Awaitable[Any]]:
    async def call(request: Request) -> tuple[int, bytes, int | None, float | None]:
        try:
            returned = handler(request)
            if inspect.isawaitable(returned):
                returned = await returned
            if returned is None:
                reply = Reply(code="2.04")
            elif isinstance(returned, Reply):
                reply = returned
            else:
                reply = Reply(returned)
        except Exception:
            _LOG.exception("handler of %s failed", path)
            reply = Reply(code="5.00")
        return reply.code, reply.payload, reply.content_format, reply.max_age

    return call
