"""One request, or one observation, by aiocoap; see README.md one folder up."""

import argparse
import asyncio
import pathlib
import sys
import zlib

import aiocoap
import aiocoap.credentials
import aiocoap.optiontypes
import aiocoap.resource

TEXT_MAX = 64
# aiocoap writes this one with a small letter.
METHODS = {
    "observe": aiocoap.GET,
    "many": aiocoap.GET,
    "ipatch": aiocoap.iPATCH,
}


def numbered(text):
    """An option by its number, as in 65001=0aff."""
    number, digits = text.split("=")
    value = bytes.fromhex(digits)
    return aiocoap.optiontypes.OpaqueOption(int(number), value)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("method")
    parser.add_argument("uri")
    parser.add_argument("--payload", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--non", action="store_true")
    parser.add_argument("--accept", type=int)
    parser.add_argument("--content-format", type=int)
    parser.add_argument("--if-match", type=bytes.fromhex, action="append", default=[])
    parser.add_argument("--if-none-match", action="store_true")
    parser.add_argument("--etag", type=bytes.fromhex, action="append", default=[])
    parser.add_argument("--block-size", type=int, default=1024)
    parser.add_argument("--timeout", type=float, default=90)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--cancel", choices=["get", "rst", "none"], default="rst")
    parser.add_argument("--linger", type=float, default=0)
    parser.add_argument("--option", type=numbered, action="append", default=[])
    parser.add_argument("--ca")
    parser.add_argument("--then")
    arguments = parser.parse_args()
    if arguments.method == "observe" and arguments.cancel == "get":
        # Tokens are its own business, and this GET would have to repeat the registration's.
        parser.error("aiocoap cannot cancel an observation by a GET")
    return arguments


def build(arguments):
    method = arguments.method
    request = aiocoap.Message(
        code=METHODS.get(method) or getattr(aiocoap, method.upper()),
        uri=arguments.uri,
        payload=arguments.payload.read_bytes() if arguments.payload else b"",
        transport_tuning=aiocoap.Unreliable if arguments.non else aiocoap.Reliable,
    )
    request.opt.accept = arguments.accept
    request.opt.content_format = arguments.content_format
    request.opt.if_match = arguments.if_match
    request.opt.if_none_match = arguments.if_none_match
    request.opt.etags = arguments.etag
    for option in arguments.option:
        request.opt.add_option(option)
    if method == "observe":
        request.opt.observe = 0
    return request


def line(payload):
    if len(payload) <= TEXT_MAX:
        return payload.decode()
    return f"{len(payload)} bytes crc32 {zlib.crc32(payload):08x}"


async def ask(request, arguments):
    response = await request.response
    if arguments.output:
        arguments.output.write_bytes(response.payload)
    print(response.code.dotted)
    if response.opt.etag is not None:
        print(f"etag {response.opt.etag.hex()}")
    if response.opt.content_format is not None:
        print(f"content-format {int(response.opt.content_format)}")


async def observe(request, arguments):
    # Created before the response is awaited: the iterator yields later notifications only.
    notifications = aiter(request.observation)
    response = await request.response
    print(line(response.payload), flush=True)
    for _ in range(arguments.count - 1):
        notification = await anext(notifications)
        print(line(notification.payload), flush=True)


async def many(context, first, arguments):
    """Asks for one thing and then, without waiting, several times for another; prints the codes in
    the order in which the answers come."""

    async def one(name, message):
        response = await context.request(message).response
        print(name, response.code.dotted, flush=True)

    # Requests that find no connection make one each.
    await context.find_remote_and_interface(first)
    answers = [asyncio.create_task(one("first", first))]
    # The first has to be the first on the wire.
    await asyncio.sleep(0.1)
    base = first.get_request_uri().rsplit("/", 1)[0]
    for _ in range(arguments.count):
        message = aiocoap.Message(code=aiocoap.GET, uri=f"{base}/{arguments.then}")
        answers.append(asyncio.create_task(one("then", message)))
    await asyncio.gather(*answers)


class Hello(aiocoap.resource.Resource):
    """Resource that the server requests (`/reverse`)."""

    async def render_get(self, request):
        return aiocoap.Message(payload=b"hello from the client", content_format=0)


async def open_context(arguments):
    context = await aiocoap.Context.create_client_context()
    context.serversite = aiocoap.resource.Site()
    context.serversite.add_resource(["hello"], Hello())
    if arguments.ca:
        # Only found under the whole of scheme, host and port, in spite of the documentation.
        origin = "/".join(arguments.uri.split("/")[:3])
        trusted = aiocoap.credentials.TLSCert(arguments.ca)
        context.client_credentials[f"{origin}/*"] = trusted
    return context


async def main():
    arguments = parse()
    message = build(arguments)
    context = await open_context(arguments)
    exponent = (arguments.block_size // 16).bit_length() - 1
    if arguments.block_size < 1024 and message.code == aiocoap.GET:
        message.opt.block2 = (0, False, exponent)
    request = None
    try:
        if arguments.method == "many":
            does = many(context, message, arguments)
        else:
            await context.find_remote_and_interface(message)
            if arguments.uri.startswith("coap:"):
                # Over connections the block size follows from the server's CSM.
                message.remote.maximum_block_size_exp = exponent
            request = context.request(message)
            does = (observe if arguments.method == "observe" else ask)(request, arguments)
        await asyncio.wait_for(does, arguments.timeout)
        if arguments.method == "observe" and arguments.cancel == "rst":
            # The next notification is answered by a Reset, if it is confirmable.
            request.observation.cancel()
        await asyncio.sleep(arguments.linger)
    except (aiocoap.error.Error, OSError, TimeoutError) as error:
        print(f"no response: {error!r}", file=sys.stderr)
        return 1
    finally:
        await context.shutdown()
    return 0


sys.exit(asyncio.run(main()))
