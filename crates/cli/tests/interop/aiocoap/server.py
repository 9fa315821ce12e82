"""An aiocoap server with the resources the interop tests need.

Usage: server.py PORT. Resources: /hello, /store (GET, PUT, DELETE), /echo (POST, PUT), /counter (GET;
POST and PUT count), /slow (separate response), /large (1 MiB).
"""

import asyncio
import sys

import aiocoap
import aiocoap.resource
from aiocoap.numbers.codes import CHANGED, CONTENT, CREATED, DELETED, NOT_FOUND

HELLO = b"hello from aiocoap, 32 bytes ..."
# Longer than aiocoap waits before it sends an empty acknowledgement (EMPTY_ACK_DELAY, 0.1 s).
SLOW_SECONDS = 1.5
LARGE = bytes((i * 31 + (i >> 8) * 17) & 0xFF for i in range(1 << 20))


class Fixed(aiocoap.resource.Resource):
    def __init__(self, payload, delay=0.0):
        super().__init__()
        self.payload = payload
        self.delay = delay

    async def render_get(self, request):
        await asyncio.sleep(self.delay)
        return aiocoap.Message(code=CONTENT, payload=self.payload)


class Store(aiocoap.resource.Resource):
    def __init__(self):
        super().__init__()
        self.payload = None

    async def render_get(self, request):
        if self.payload is None:
            return aiocoap.Message(code=NOT_FOUND)
        return aiocoap.Message(code=CONTENT, payload=self.payload)

    async def render_put(self, request):
        code = CREATED if self.payload is None else CHANGED
        self.payload = request.payload
        return aiocoap.Message(code=code)

    async def render_delete(self, request):
        self.payload = None
        return aiocoap.Message(code=DELETED)


class Echo(aiocoap.resource.Resource):
    async def render_post(self, request):
        return aiocoap.Message(code=CHANGED, payload=request.payload)

    render_put = render_post


class Counter(aiocoap.resource.Resource):
    """Counts how often a request was carried out, whatever its payload."""

    def __init__(self):
        super().__init__()
        self.count = 0

    async def render_get(self, request):
        return aiocoap.Message(code=CONTENT, payload=str(self.count).encode())

    async def render_post(self, request):
        self.count += 1
        return aiocoap.Message(code=CHANGED, payload=str(self.count).encode())

    render_put = render_post


async def main(port):
    site = aiocoap.resource.Site()
    site.add_resource(["hello"], Fixed(HELLO))
    site.add_resource(["store"], Store())
    site.add_resource(["echo"], Echo())
    site.add_resource(["counter"], Counter())
    site.add_resource(["slow"], Fixed(b"sorry for the delay", SLOW_SECONDS))
    site.add_resource(["large"], Fixed(LARGE))
    await aiocoap.Context.create_server_context(site, bind=("127.0.0.1", port))
    await asyncio.get_running_loop().create_future()


asyncio.run(main(int(sys.argv[1])))
