"""Client and server for asyncio."""

import asyncio
import contextlib

import pytest
from carob import aio

BODY = bytes(range(256)) * 40


def resources(server, state):
    notifier = aio.Notifier(confirmable=True)

    @server.resource("/hello")
    async def hello(request):
        return "hello"

    @server.resource("/body")
    def body(request):
        return BODY

    @server.resource("/count", notifier=notifier)
    async def count(request):
        return str(state["count"])

    @server.resource("/count", "POST")
    async def add(request):
        state["count"] += int(request.text or 1)
        notifier.changed()

    @server.resource("/size", "PUT")
    async def size(request):
        return aio.Reply(str(len(request.payload)), code="2.04")

    @server.resource("/sensors/{id}")
    async def sensor(request):
        return f"{request.parameter('id')} in {request.query('unit')}"

    @server.resource("/broken")
    async def broken(request):
        raise RuntimeError("a bug")


@pytest.fixture(scope="module")
def authority():
    """Test certificate authority: its certificate, and a chain and key for a host name."""
    authority = pytest.importorskip("trustme").CA()

    def issue(name):
        issued = authority.issue_cert(name)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        return chain, issued.private_key_pem.bytes()

    return authority.cert_pem.bytes(), issue


@contextlib.asynccontextmanager
async def pair(scheme="udp", identity=None, **client):
    state = {"count": 0}
    addresses = {
        "udp": {"bind": "127.0.0.1:0"},
        "tcp": {"bind": None, "tcp": "127.0.0.1:0"},
        "ws": {"bind": None, "ws": "127.0.0.1:0"},
        "dtls": {"bind": None, "dtls": "127.0.0.1:0", "psk": {"device": "secret"}},
        "dtls-certificate": {"bind": None, "dtls": "127.0.0.1:0"},
        "tls": {"bind": None, "tls": "127.0.0.1:0"},
    }[scheme]
    server = aio.Server(**addresses, identity=identity)
    resources(server, state)
    async with server, aio.Client(**client) as opened:
        yield server.addresses[0], opened


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


@pytest.mark.parametrize(
    ("scheme", "client"),
    [("udp", {}), ("tcp", {}), ("ws", {}), ("dtls", {"psk": ("device", "secret")})],
)
def test_requests_over_every_transport(scheme, client):
    async def main():
        async with pair(scheme, **client) as (base, opened):
            response = await opened.get(f"{base}/hello")
            assert (response.code, response.text, response.content_format) == ("2.05", "hello", 0)
            assert response.ok and response.elapsed > 0
            assert (await opened.get(f"{base}/body")).payload == BODY
            assert (await opened.put(f"{base}/size", BODY)).text == str(len(BODY))

    run(main())


def test_web_pages_of_other_hosts_open_no_websocket_unless_named():
    async def status(server, origin):
        host, port = server.addresses[0].removeprefix("coap+ws://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = [
            "GET /.well-known/coap HTTP/1.1",
            f"Host: {host}:{port}",
            f"Origin: {origin}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Protocol: coap",
        ]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = await reader.readline()
        writer.close()
        return int(answer.split()[1])

    async def main():
        async with aio.Server(None, ws="127.0.0.1:0") as closed:
            assert await status(closed, "http://pages.example") == 403
        async with aio.Server(None, ws="127.0.0.1:0", ws_origin=["pages.example"]) as opened:
            assert await status(opened, "http://pages.example") == 101
            assert await status(opened, "http://other.example") == 403

    run(main())


@pytest.mark.parametrize(("scheme", "uri"), [("tls", "coaps+tcp"), ("dtls-certificate", "coaps")])
def test_certificates_are_checked(scheme, uri, authority):
    trust, issue = authority

    async def main():
        async with pair(scheme, issue("127.0.0.1"), trust=trust) as (base, opened):
            assert base.startswith(f"{uri}://127.0.0.1:")
            assert (await opened.get(f"{base}/hello")).text == "hello"
            assert (await opened.put(f"{base}/size", BODY)).text == str(len(BODY))
            async with aio.Client() as stranger:
                with pytest.raises(aio.CoapError, match="certificate"):
                    await stranger.get(f"{base}/hello", timeout=10)
        async with pair(scheme, issue("other.example"), trust=trust) as (base, opened):
            with pytest.raises(aio.CoapError, match="certificate"):
                await opened.get(f"{base}/hello", timeout=10)

    run(main())


def test_a_wrong_key_is_refused():
    async def main():
        async with pair("dtls", psk=("device", "other")) as (base, opened):
            with pytest.raises(aio.CoapError):
                await opened.get(f"{base}/hello", timeout=5)

    run(main())


def test_observations_and_streams_over_tls(authority):
    trust, issue = authority

    async def main():
        async with pair("tls", issue("127.0.0.1"), trust=trust) as (base, opened):
            async with contextlib.aclosing(opened.observe(f"{base}/count")) as states:
                seen = []
                async for state in states:
                    seen.append(int(state.text))
                    if seen[-1] >= 2:
                        break
                    assert (await opened.post(f"{base}/count")).code == "2.04"
            assert seen == [0, 1, 2]
            assert b"".join([block async for block in opened.stream(f"{base}/body")]) == BODY

    run(main())


def test_parameters_queries_and_errors_of_handlers(caplog):
    async def main():
        async with pair(controller="fasor") as (base, opened):
            assert (await opened.get(f"{base}/sensors/7?unit=C")).text == "7 in C"
            assert (await opened.get(f"{base}/nowhere")).code == "4.04"
            assert (await opened.get(f"{base}/broken")).code == "5.00"
            assert (await opened.post(f"{base}/hello")).code == "4.05"
            peer = base.removeprefix("coap://")
            assert (await opened.gauges(peer))["rto"] > 0

    run(main())
    assert "handler of /broken failed" in caplog.text


def test_an_observation_has_every_state():
    async def main():
        async with pair() as (base, opened):
            seen = []
            async with contextlib.aclosing(opened.observe(f"{base}/count")) as states:
                async for state in states:
                    seen.append(int(state.text))
                    if seen[-1] >= 3:
                        break
                    assert (await opened.post(f"{base}/count")).code == "2.04"
            assert seen == [0, 1, 2, 3]

    run(main())


def test_bodies_are_read_and_sent_block_by_block():
    async def main():
        async with pair() as (base, opened):
            blocks = [block async for block in opened.stream(f"{base}/body")]
            assert len(blocks) > 1 and b"".join(blocks) == BODY

            async def pieces():
                for start in range(0, len(BODY), 1000):
                    yield BODY[start : start + 1000]

            assert (await opened.put(f"{base}/size", pieces())).text == str(len(BODY))
            with pytest.raises(aio.CoapError, match="4.04"):
                async for _ in opened.stream(f"{base}/nowhere"):
                    pass

    run(main())


def test_many_requests_at_once():
    async def main():
        async with pair() as (base, opened):
            replies = await asyncio.gather(*(opened.get(f"{base}/hello") for _ in range(50)))
            assert {reply.text for reply in replies} == {"hello"}

    run(main())


def test_failures_have_hints():
    async def main():
        async with aio.Client() as opened:
            with pytest.raises(aio.CoapError, match="coap://HOST"):
                await opened.get("not a uri")
            with pytest.raises(aio.CoapError):
                await opened.get("coap://127.0.0.1:1/", timeout=0.5)
            with pytest.raises(ValueError, match="GET"):
                await opened.request("LOOK", "coap://127.0.0.1/")
        with pytest.raises(aio.CoapError, match="carob.controllers"):
            aio.Client(controller="fasr")
        server = aio.Server("127.0.0.1:0", tls="127.0.0.1:0")
        with pytest.raises(ValueError, match="identity"):
            await server.start()
        with pytest.raises(ValueError, match="response code"):
            aio.Reply("x", code="9.99")

    run(main())


def test_a_cancelled_request_leaves_the_client_usable():
    async def main():
        async with pair() as (base, opened):
            task = asyncio.create_task(opened.get("coap://127.0.0.1:9/", timeout=30))
            await asyncio.sleep(0.05)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, aio.CoapError):
                await task
            assert (await opened.get(f"{base}/hello")).ok

    run(main())
