"""aiocoap's clients and servers, as many as the tests ask for; see README.md one folder up."""

import asyncio
import sys
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

# As the plugtests suggest, so that large resources take several blocks.
SERVER_BLOCK_BYTES = 64
SEPARATE_SECONDS = 0.6
LARGE_BYTES = 1280
LINE_BYTES = 64
TEXT, LINKS, XML = 0, 40, 41

clients, servers, observations = {}, {}, {}
# Held as long as they run; the loop alone would let them be collected.
running = set()


def say(tag, text):
    print(tag, text, flush=True)


def exponent(block_bytes):
    return (block_bytes // 16).bit_length() - 1


def tuning(ack_millis, retransmissions, reliable=None):
    class Tuning(aiocoap.TransportTuning):
        ACK_TIMEOUT = ack_millis / 1000
        MAX_RETRANSMIT = retransmissions
        reliability = reliable

    return Tuning()


def lines():
    numbers = range(LARGE_BYTES // LINE_BYTES)
    return "".join(f"{f'line {i}':<{LINE_BYTES - 1}}\n" for i in numbers)


class Resource(aiocoap.resource.Resource):
    """Answers with the server's timers."""

    tuning = None

    async def render(self, request):
        response = await super().render(request)
        response.transport_tuning = self.tuning
        return response


class Text(Resource):
    def __init__(self, text, **attributes):
        super().__init__()
        self.text = text
        for name, value in attributes.items():
            setattr(self, name, value)

    async def render_get(self, request):
        return content(self.text)

    def get_link_description(self):
        link = super().get_link_description()
        if hasattr(self, "sz"):
            link["sz"] = self.sz
        return link


def content(text, content_format=TEXT, code=CONTENT):
    return aiocoap.Message(
        code=code, payload=text.encode(), content_format=content_format
    )


class Stored(Resource):
    """Stores a representation; DELETE restores the initial one."""

    def __init__(self, initial):
        super().__init__()
        self.initial = None if initial is None else initial.encode()
        self.payload = self.initial
        self.content_format = TEXT

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

    def set(self, request):
        code = CREATED if self.payload is None else CHANGED
        self.payload = request.payload
        self.content_format = int(request.opt.content_format or TEXT)
        return aiocoap.Message(code=code)

    async def render_get(self, request):
        if self.payload is None:
            return aiocoap.Message(code=NOT_FOUND)
        if self.etag in request.opt.etags:
            return aiocoap.Message(code=VALID, etag=self.etag)
        return aiocoap.Message(
            code=CONTENT,
            payload=self.payload,
            etag=self.etag,
            content_format=self.content_format,
        )

    async def render_put(self, request):
        if not self.condition_holds(request.opt):
            return aiocoap.Message(code=PRECONDITION_FAILED)
        return self.set(request)

    async def render_delete(self, request):
        self.payload = self.initial
        return aiocoap.Message(code=DELETED)


class Test(Stored):
    def __init__(self, created):
        super().__init__("a resource to be tested")
        self.created = created

    async def render_post(self, request):
        self.created.set(request)
        location = ("location1", "location2", "location3")
        return aiocoap.Message(code=CREATED, location_path=location)


class Query(Resource):
    async def render_get(self, request):
        return content("\n".join(("asked for:", *request.opt.uri_query)))


class Separate(Resource):
    async def render_get(self, request):
        await asyncio.sleep(SEPARATE_SECONDS)
        return content("sorry for the delay")


class LocationQuery(Resource):
    async def render_post(self, request):
        return aiocoap.Message(
            code=CREATED, location_query=("first=1", "second=2")
        )


class MultiFormat(Resource):
    ct = "0 41"

    async def render_get(self, request):
        match request.opt.accept:
            case None | 0:
                return content("in words")
            case 41:
                return content("<in>marks</in>", XML)
        return aiocoap.Message(code=NOT_ACCEPTABLE)


class LargeCreate(Resource):
    def __init__(self, site):
        super().__init__()
        self.site = site
        self.count = 0

    async def render_post(self, request):
        self.count += 1
        path = ("large-create", str(self.count))
        created = Stored(None)
        created.tuning = self.tuning
        created.set(request)
        self.site.add_resource(path, created)
        return aiocoap.Message(code=CREATED, location_path=path)


class LargePost(Resource):
    async def render_post(self, request):
        return content(request.payload.decode().upper(), code=CHANGED)


class Collection(Resource):
    ct = "40"

    async def render_get(self, request):
        members = (f'</path/sub{i}>;if="sub"' for i in (1, 2, 3))
        return content(",".join(members), LINKS)


class Observed(Resource, aiocoap.resource.ObservableResource):
    """Changes at every tick, and by PUT and DELETE; what these did lasts until the next tick."""

    rt = "observe"

    def __init__(self, tick_seconds, show):
        super().__init__()
        self.tick_seconds = tick_seconds
        self.show = show
        self.ticks = 0
        self.put = None
        self.timer = None
        self.schedule()

    def schedule(self):
        if self.timer:
            self.timer.cancel()
        loop = asyncio.get_running_loop()
        self.timer = loop.call_later(self.tick_seconds, self.tick)

    def tick(self):
        self.ticks += 1
        self.put = None
        self.schedule()
        self.updated_state()

    def end(self, code):
        """The last word to all observers."""
        for observation in list(self._observations):
            response = aiocoap.Message(code=code, transport_tuning=self.tuning)
            observation.trigger(response, is_last=True)

    async def render_get(self, request):
        if self.put is None:
            response = content(self.show(self.ticks))
        else:
            response = self.put.copy()
        response.opt.max_age = int(self.tick_seconds) + 2
        return response

    async def render_put(self, request):
        content_format = int(request.opt.content_format or TEXT)
        self.put = content(request.payload.decode(), content_format)
        self.schedule()
        if content_format == TEXT:
            self.updated_state()
        else:
            self.end(NOT_ACCEPTABLE)
        return aiocoap.Message(code=CHANGED)

    async def render_delete(self, request):
        self.put = aiocoap.Message(code=NOT_FOUND)
        self.schedule()
        self.end(NOT_FOUND)
        return aiocoap.Message(code=DELETED)


class Site(aiocoap.resource.Site):
    """Sends bodies in small blocks."""

    async def render_to_pipe(self, pipe):
        pipe.request.remote.maximum_block_size_exp = exponent(SERVER_BLOCK_BYTES)
        return await super().render_to_pipe(pipe)


def make_site(tick_seconds, ack_millis, retransmissions):
    site = Site()
    created = Stored(None)

    def show(ticks):
        return f"tick {ticks}"

    resources = {
        "test": Test(created),
        "location1/location2/location3": created,
        "seg1/seg2/seg3": Text("three segments down"),
        "query": Query(),
        "separate": Separate(),
        "location-query": LocationQuery(),
        "multi-format": MultiFormat(),
        "validate": Stored("at first, this"),
        "create1": Stored(None),
        "large": Text(lines(), rt="block", sz=str(LARGE_BYTES)),
        "large-update": Stored(lines()),
        "large-create": LargeCreate(site),
        "large-post": LargePost(),
        "link1": Text("a target of links", rt="Type1 Type2", if_="If1"),
        "link2": Text("a target of links", rt="Type2 Type3", if_="If2"),
        "link3": Text("a target of links", rt="Type1 Type3", if_="foo"),
        "path": Collection(),
        "path/sub1": Text("/path/sub1"),
        "path/sub2": Text("/path/sub2"),
        "path/sub3": Text("/path/sub3"),
        "obs": Observed(tick_seconds, show),
        "obs-non": Observed(tick_seconds, show),
    }
    for path, resource in resources.items():
        reliable = False if path == "obs-non" else None
        resource.tuning = tuning(ack_millis, retransmissions, reliable)
        site.add_resource(path.split("/"), resource)
    discovery = aiocoap.resource.WKCResource(
        site.get_resources_as_linkheader, impl_info=None
    )
    site.add_resource([".well-known", "core"], discovery)
    return site, [resources["obs"], resources["obs-non"]]


async def serve(tag, port, tick, ack, retransmissions):
    site, observed = make_site(int(tick) / 1000, int(ack), int(retransmissions))
    context = await aiocoap.Context.create_server_context(
        site, bind=("127.0.0.1", int(port))
    )
    servers[tag] = context, observed
    say(tag, "ready")


async def client(tag, block, ack, retransmissions):
    context = await aiocoap.Context.create_client_context()
    clients[tag] = context, int(block), (int(ack), int(retransmissions))
    say(tag, "ready")


async def close(tag):
    context, observed = servers.pop(tag, None) or (clients.pop(tag)[0], [])
    for resource in observed:
        resource.timer.cancel()
    await context.shutdown()
    say(tag, "closed")


async def build(client, kind, method, uri, *words):
    context, block, timers = clients[client]
    message = aiocoap.Message(
        code=getattr(aiocoap, method),
        uri=uri,
        transport_tuning=tuning(*timers, reliable=kind == "con"),
    )
    options = message.opt
    for word in words:
        name, value = word.split("=", 1)
        match name:
            case "format":
                options.content_format = int(value)
            case "accept":
                options.accept = int(value)
            case "etag":
                options.etags = [bytes.fromhex(value)]
            case "if-match":
                options.if_match = [bytes.fromhex(value)]
            case "if-none-match":
                options.if_none_match = True
            case "block2":
                options.block2 = (0, False, exponent(int(value)))
            case "payload":
                message.payload = bytes.fromhex(value)
            case _:
                raise ValueError(f"cannot do {word}")
    await context.find_remote_and_interface(message)
    message.remote.maximum_block_size_exp = exponent(block)
    return context, message


async def ask(tag, *words):
    context, message = await build(*words)
    response = await context.request(message).response
    say(tag, f"answer {told(response)}")


async def observe(tag, *words):
    context, message = await build(*words)
    message.opt.observe = 0
    request = context.request(message)
    observations[tag] = request
    # Created before the response is awaited: the iterator yields later notifications only.
    notifications = aiter(request.observation)
    say(tag, f"state {told(await request.response)}")
    # The iterator is none for `async for`; at its end the observation has failed or is forgotten.
    while True:
        say(tag, f"state {told(await anext(notifications))}")


async def forget(tag):
    observations.pop(tag).observation.cancel()
    say(tag, "forgotten")


def told(response):
    options = response.opt
    words = [response.code.dotted]
    if options.content_format is not None:
        words.append(f"format={int(options.content_format)}")
    if options.etag is not None:
        words.append(f"etag={options.etag.hex()}")
    words += (f"location-path={segment}" for segment in options.location_path)
    words += (f"location-query={argument}" for argument in options.location_query)
    words.append(f"payload={response.payload.hex()}")
    return " ".join(words)


VERBS = {
    verb.__name__: verb for verb in (serve, client, close, ask, observe, forget)
}


async def carry_out(line):
    tag, verb, *words = line.split(" ")
    try:
        await VERBS[verb](tag, *words)
    except Exception as error:
        say(tag, f"failed {error!r}")


async def main():
    """Carries out a command a line until its input ends."""
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(commands)
    await loop.connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await commands.readline():
        task = asyncio.create_task(carry_out(line.decode().rstrip("\n")))
        running.add(task)
        task.add_done_callback(running.discard)


asyncio.run(main())
