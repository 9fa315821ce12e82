"""Adaptive RTO inside aiocoap, compared with its fixed RTO, over a loopback with delay and loss.

aiocoap retransmits after 2 to 3 s, whatever the round trip. This program gives each message its timer
from `carob.Controller` instead. A relay on the loopback delays datagrams and drops some; both clients
meet the same losses.

    pip install aiocoap
    python adaptive_timer.py --requests 100 --delay 0.1 --loss 0.1

aiocoap reads a message's parameters from `transport_tuning`, so the timer of the first transmission is
set there; aiocoap doubles it for retransmissions (RFC 7252 4.2).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import time
from typing import cast

import aiocoap
import aiocoap.resource as resource
import carob
from aiocoap.numbers.constants import TransportTuning


class Relay(asyncio.DatagramProtocol):
    """Link between one client and a server that delays each datagram or drops it."""

    def __init__(self, server: tuple[str, int], delay: float, loss: float, seed: int) -> None:
        self.server, self.delay, self.loss = server, delay, loss
        self.random = random.Random(seed)
        self.client: tuple[str, int] | None = None
        self.lost = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Before Python 3.12 the transport of the event loop is no subclass of DatagramTransport.
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, source: tuple[str, int]) -> None:
        if source[1] == self.server[1]:
            target = self.client
        else:
            self.client, target = source, self.server
        if self.random.random() < self.loss:
            self.lost += 1
            return
        loop = asyncio.get_running_loop()
        loop.call_later(self.delay / 2, self.transport.sendto, data, target)


class Timer(TransportTuning):
    """Transmission parameters of one message, with the controller's timeout."""

    ACK_RANDOM_FACTOR = 1.0  # the controller's timeout is dithered already

    def __init__(self, timeout: float) -> None:
        self.ACK_TIMEOUT = timeout


class Hello(resource.Resource):
    async def render_get(self, request: aiocoap.Message) -> aiocoap.Message:
        return aiocoap.Message(payload=b"hello")


async def measure(port: int, requests: int, cc: carob.Controller | None) -> list[float]:
    """Return the duration of each request in seconds."""
    context = await aiocoap.Context.create_client_context(transports=["simple6"])
    took = []
    for _ in range(requests):
        began = time.monotonic()
        message = aiocoap.Message(code=aiocoap.GET, uri=f"coap://127.0.0.1:{port}/hello")
        if cc is not None:
            exchange = cc.begin(began)
            message.transport_tuning = Timer(exchange.timeout)
        with contextlib.suppress(aiocoap.error.TimeoutError):
            # If every transmission is lost, the time until aiocoap gives up counts.
            await context.request(message).response
        ended = time.monotonic()
        if cc is not None:
            # Timers that expired meanwhile: aiocoap retransmitted and doubled the timeout each time.
            at, timeout = began + exchange.timeout, exchange.timeout
            while at < ended and cc.expired(exchange, at) is not None:
                timeout *= 2
                at += timeout
            if not exchange.ended:
                cc.answered(exchange, ended)
        took.append(ended - began)
    await context.shutdown()
    return took


async def main(requests: int, delay: float, loss: float, controller: str) -> None:
    site = resource.Site()
    site.add_resource(["hello"], Hello())
    server = await aiocoap.Context.create_server_context(
        site, bind=("127.0.0.1", 56830), transports=["simplesocketserver"]
    )
    loop = asyncio.get_running_loop()
    print(f"{requests} requests, RTT {delay} s, {loss:.0%} of datagrams lost")
    print("timer        median    mean     p95  all requests")
    for name in ("aiocoap", controller):
        transport, _ = await loop.create_datagram_endpoint(
            lambda: Relay(("127.0.0.1", 56830), delay, loss, seed=1), local_addr=("127.0.0.1", 0)
        )
        port = transport.get_extra_info("sockname")[1]
        cc = None if name == "aiocoap" else carob.Controller(name)
        took = await measure(port, requests, cc)
        p95 = statistics.quantiles(took, n=20)[-1]
        print(
            f"{name:<10} {statistics.median(took):6.3f} s {statistics.mean(took):6.3f} s "
            f"{p95:6.3f} s {sum(took):8.1f} s"
        )
        transport.close()
    await server.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100, help="Number of requests [default: 100]")
    parser.add_argument("--delay", type=float, default=0.1, help="Round-trip time in seconds [default: 0.1]")
    parser.add_argument("--loss", type=float, default=0.1, help="Share of lost datagrams [default: 0.1]")
    parser.add_argument("--controller", default="cocoa-03", help="Controller [default: cocoa-03]")
    given = parser.parse_args()
    asyncio.run(main(given.requests, given.delay, given.loss, given.controller))
