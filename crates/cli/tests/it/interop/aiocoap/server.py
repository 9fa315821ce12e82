"""An aiocoap server with the resources of the interop tests; see README.md one folder up."""

import argparse
import asyncio
import ssl
import zlib

import aiocoap
import aiocoap.resource
from aiocoap.numbers.codes import (
    CHANGED,
    CONTENT,
    CREATED,
    DELETED,
    NOT_ACCEPTABLE,
    NOT_FOUND,
    PRECONDITION_FAILED,
    VALID,
)

HELLO = b"hello from aiocoap, 32 bytes ..."
# Longer than aiocoap waits before it sends an empty acknowledgement (EMPTY_ACK_DELAY, 0.1 s).
SLOW_SECONDS = 1.5
LARGE_BYTES = 1 << 20
BULK_BYTES = 4 << 10
TICK_SECONDS = 0.2
TICK_MAX_AGE = 1

TEXT, BYTES, JSON = 0, 42, 50


class Hello(aiocoap.resource.Resource):
    rt, ct = "carob.text", "0"

    async def render_get(self, request):
        return aiocoap.Message(code=CONTENT, payload=HELLO, content_format=TEXT)


class Slow(aiocoap.resource.Resource):
    rt = "carob.text"

    async def render_get(self, request):
        await asyncio.sleep(SLOW_SECONDS)
        return aiocoap.Message(code=CONTENT, payload=b"sorry for the delay")


class Large(aiocoap.resource.Resource):
    rt, ct = "carob.bytes", "42"
    payload = bytes((i * 2654435761 >> 13) & 0xFF for i in range(LARGE_BYTES))

    async def render_get(self, request):
        length = int(request.opt.uri_query[0]) if request.opt.uri_query else LARGE_BYTES
        return aiocoap.Message(
            code=CONTENT, payload=self.payload[:length], content_format=BYTES
        )


class Store(aiocoap.resource.Resource):
    rt, if_ = "carob.store", "carob.p"

    def __init__(self):
        super().__init__()
        self.payload = None

    @property
    def etag(self):
        return zlib.crc32(self.payload).to_bytes(4, "big")

    def condition_holds(self, options):
        if options.if_none_match and self.payload is not None:
            return False
        if not options.if_match:
            return True
        if self.payload is None:
            return False
        return any(value in (b"", self.etag) for value in options.if_match)

    async def render_get(self, request):
        if self.payload is None:
            return aiocoap.Message(code=NOT_FOUND)
        if self.etag in request.opt.etags:
            return aiocoap.Message(code=VALID, etag=self.etag)
        return aiocoap.Message(
            code=CONTENT, payload=self.payload, etag=self.etag, content_format=BYTES
        )

    async def render_put(self, request):
        if not self.condition_holds(request.opt):
            return aiocoap.Message(code=PRECONDITION_FAILED)
        code = CREATED if self.payload is None else CHANGED
        self.payload = request.payload
        return aiocoap.Message(code=code)

    async def render_delete(self, request):
        if not self.condition_holds(request.opt):
            return aiocoap.Message(code=PRECONDITION_FAILED)
        self.payload = None
        return aiocoap.Message(code=DELETED)


class Echo(aiocoap.resource.Resource):
    rt = "carob.echo"

    @staticmethod
    def back(request, code):
        return aiocoap.Message(
            code=code,
            payload=request.payload,
            content_format=request.opt.content_format,
        )

    async def render_post(self, request):
        return self.back(request, CHANGED)

    async def render_fetch(self, request):
        return self.back(request, CONTENT)

    render_put = render_post


class Patch(aiocoap.resource.Resource):
    rt = "carob.patch"

    def __init__(self):
        super().__init__()
        self.payload = b""

    async def render_get(self, request):
        return aiocoap.Message(code=CONTENT, payload=self.payload, content_format=BYTES)

    async def render_patch(self, request):
        self.payload += request.payload
        return aiocoap.Message(code=CHANGED)

    async def render_ipatch(self, request):
        self.payload = request.payload
        return aiocoap.Message(code=CHANGED)


class Negotiate(aiocoap.resource.Resource):
    rt, ct = "carob.text", "0 50"

    async def render_get(self, request):
        match request.opt.accept:
            case None | 0:
                payload, content_format = b"as text", TEXT
            case 50:
                payload, content_format = b'{"as":"json"}', JSON
            case _:
                return aiocoap.Message(code=NOT_ACCEPTABLE)
        return aiocoap.Message(
            code=CONTENT, payload=payload, content_format=content_format
        )


class Counter(aiocoap.resource.Resource):
    """Counts how often a POST was carried out, whatever its payload."""

    rt, ct = "carob.number", "0"

    def __init__(self):
        super().__init__()
        self.count = 0

    def answer(self, code):
        payload = str(self.count).encode()
        return aiocoap.Message(code=code, payload=payload, content_format=TEXT)

    async def render_get(self, request):
        return self.answer(CONTENT)

    async def render_post(self, request):
        self.count += 1
        return self.answer(CHANGED)


class Count(Counter, aiocoap.resource.ObservableResource):
    """Observable; its notifications are confirmable."""

    if_ = "carob.s"

    async def render_post(self, request):
        response = await super().render_post(request)
        self.updated_state()
        return response


class Ticks(Count):
    """Changes by itself; its notifications are not confirmable."""

    async def run(self):
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.count += 1
            self.updated_state()

    async def render_get(self, request):
        response = self.answer(CONTENT)
        response.transport_tuning = aiocoap.Unreliable
        response.opt.max_age = TICK_MAX_AGE
        return response


class Bulk(Counter):
    """Not observable: aiocoap would send a notification in one datagram whatever its length."""

    async def render_get(self, request):
        body = bytes(97 + (i + self.count) % 26 for i in range(BULK_BYTES))
        return aiocoap.Message(code=CONTENT, payload=body, content_format=TEXT)


class Reverse(aiocoap.resource.Resource):
    """Requests a resource of its client over the same connection and returns the response."""

    rt = "carob.reverse"

    def __init__(self):
        super().__init__()
        self.context = None

    async def render_post(self, request):
        question = aiocoap.Message(code=aiocoap.GET, uri_path=["hello"])
        question.remote = request.remote
        answer = await self.context.request(question).response
        return aiocoap.Message(
            code=CHANGED, payload=answer.payload, content_format=TEXT
        )


# Transport names in the library by scheme, and port offsets.
TRANSPORTS = {
    "coap": (None, 0),
    "coap+tcp": (["tcpserver"], 0),
    "coaps+tcp": (["tlsserver"], 1),
    "coap+ws": (["ws"], 3000),
    # It listens without TLS on the port before.
    "coaps+ws": (["ws"], 3001),
}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--scheme", choices=TRANSPORTS, default="coap")
    parser.add_argument("--cert")
    parser.add_argument("--key")
    return parser.parse_args()


def security(arguments):
    if not arguments.cert:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(arguments.cert, arguments.key)
    if arguments.scheme == "coaps+tcp":
        # RFC 8323 8.2; the library names the protocol in its client only.
        context.set_alpn_protocols(["coap"])
    return context


async def main(arguments):
    site = aiocoap.resource.Site()
    reverse = Reverse()
    ticks = Ticks()
    for name, resource in {
        "hello": Hello(),
        "store": Store(),
        "echo": Echo(),
        "counter": Counter(),
        "slow": Slow(),
        "large": Large(),
        "patch": Patch(),
        "negotiate": Negotiate(),
        "count": Count(),
        "ticks": ticks,
        "bulk": Bulk(),
        "reverse": reverse,
    }.items():
        site.add_resource([name], resource)
    discovery = aiocoap.resource.WKCResource(
        site.get_resources_as_linkheader, impl_info=None
    )
    site.add_resource([".well-known", "core"], discovery)
    transports, distance = TRANSPORTS[arguments.scheme]
    reverse.context = await aiocoap.Context.create_server_context(
        site,
        bind=(arguments.bind, arguments.port - distance),
        transports=transports,
        _ssl_context=security(arguments),
    )
    await ticks.run()


asyncio.run(main(parse()))
