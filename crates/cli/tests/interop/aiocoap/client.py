"""One request by aiocoap.

Usage: client.py METHOD URI [--payload FILE] [--output FILE]. Prints the response code, as in `2.05`; the
exit code is 0 whatever the server answered, and 1 when there was no answer.
"""

import argparse
import asyncio
import pathlib
import sys

import aiocoap


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("method")
    parser.add_argument("uri")
    parser.add_argument("--payload", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()

    context = await aiocoap.Context.create_client_context()
    request = aiocoap.Message(
        code=getattr(aiocoap, arguments.method.upper()),
        uri=arguments.uri,
        payload=arguments.payload.read_bytes() if arguments.payload else b"",
    )
    try:
        response = await context.request(request).response
    except aiocoap.error.Error as error:
        print(f"no response: {error!r}", file=sys.stderr)
        return 1
    finally:
        await context.shutdown()
    if arguments.output:
        arguments.output.write_bytes(response.payload)
    print(response.code.dotted)
    return 0


sys.exit(asyncio.run(main()))
