#!/usr/bin/env python3
"""Reference pages made from files of the repository: `reference.py PAGE` prints metrics, requirements, event-log or
event-log-schema."""

import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EVENTS = "crates/proto/src/trace/mod.rs"
TYPES = {"Duration": "integer", "u8": "integer", "u16": "integer", "u32": "integer", "u64": "integer", "MessageId": "integer",
         "Type": "string", "Kind": "string", "Code": "string"}
#: Members of every event.
COMMON = [
    ("at_us", "integer", "Time in microseconds since the start of the endpoint's clock."),
    ("peer", "string", "Address and port of the peer."),
    ("event", "string", "The kind of event."),
]
#: The event that the command adds (crates/cli/src/monitor/handshakes.rs).
HANDSHAKE_FAILED = ("handshake_failed", "A handshake of a client over DTLS, TLS or WebSocket failed (`carob serve`, `carob proxy`).", [
    ("scheme", "URI scheme of the transport.", "string", False),
    ("identity", "Pre-shared key identity that the client named, not authenticated, with escapes.", "string", True),
    ("reason", "The reason, as on stderr.", "string", False),
])


def metrics():
    names = (ROOT / "crates/carob/src/metrics/names.md").read_text()
    return f"""# Metrics

For operators with Prometheus. Prerequisite: [metrics and alerts](../operate/metrics.md).
Generated from the names in the library; `cargo xtask generate` rewrites it.

`scheme` is the scheme of the endpoint (`coap`, `coaps`, `coap+tcp`, ...). Histograms are in seconds. Names that end in
`_total` are counters, all others gauges or histograms.

{names}
Next: [other reference pages](../introduction.md#reference-pages).
"""


def requirements():
    entries = tomllib.loads((ROOT / "vectors/requirements.toml").read_text())["requirement"]
    title = lambda entry: entry["id"].split("-")[0].replace("rfc", "RFC ")
    statuses = ["met", "departed", "not-applicable"]
    unknown = [entry["id"] for entry in entries if entry["status"] not in statuses]
    assert not unknown, f"no column for the status of {unknown}"
    lines = []
    for rfc in sorted({title(entry) for entry in entries}):
        counts = [sum(title(entry) == rfc and entry["status"] == status for entry in entries) for status in statuses]
        lines.append(f"| {rfc} | {counts[0]} | {counts[1]} | {counts[2]} |\n")
    departures = []
    for entry in entries:
        if entry["status"] == "departed":
            cells = [title(entry), *(entry[key] for key in ("section", "level", "about", "reason"))]
            row = " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
            departures.append(f"| {row} |\n")
    return f"""# Requirements of the RFCs

For reviewers of conformance. Prerequisite: RFC 2119. Generated from `vectors/requirements.toml`;
`cargo xtask generate` rewrites it.

The ledger has an entry for each key word MUST, SHOULD and their negations. An entry is met if the tests that it names
show it. `cargo xtask tidy requirements` checks that these tests exist.

| RFC | met | departed | not applicable |
|---|---:|---:|---:|
{"".join(lines)}
## Departures

| RFC | section | level | requirement | reason |
|---|---|---|---|---|
{"".join(departures)}
Next: [interoperability](../evidence/interoperability.md).
"""


def events():
    """Names, descriptions and members of the variants of `enum TraceEvent`."""
    source = (ROOT / EVENTS).read_text().split("enum TraceEvent", 1)[1].split("\n}\n", 1)[0]
    found, about = [], []
    for line in map(str.strip, source.splitlines()[1:]):
        text = re.sub(r"\[`([^`]*)`\](\([^)]*\))?", r"`\1`", " ".join(about))
        if line.startswith("///"):
            about.append(line[3:].strip())
            continue
        if match := re.fullmatch(r"(\w+): (?:Option<(\w+)>|(\w+)),", line):
            name, optional, plain = match.groups()
            kind = optional or plain
            key = f"{name}_us" if kind == "Duration" else "type" if kind == "Type" else name
            found[-1][2].append((key, text, TYPES[kind], optional is not None))
        elif line[:1].isupper():
            found.append((re.sub(r"(?<!^)(?=[A-Z])", "_", line.rstrip(" {,")).lower(), text, []))
        elif ": " in line:
            raise ValueError(f"{EVENTS}: {line}")
        else:
            continue
        about = []
    assert found, f"{EVENTS} has no events"
    return [*found, HANDSHAKE_FAILED]


def event_log():
    common = "".join(f"| `{key}` | {kind} | {about} |\n" for key, kind, about in COMMON)
    rows = members = ""
    for name, about, parts in events():
        rows += f"| `{name}` | {about} | {', '.join(f'`{part[0]}`' for part in parts)} |\n"
        for key, text, kind, optional in parts:
            members += f"| `{name}` | `{key}` | {kind}{', optional' if optional else ''} | {text} |\n"
    return f"""# Event log

For programs that read `--log` of `carob get`, `serve`, `proxy` or `carob lab run`. Prerequisite: JSON lines.
Generated from the events of the engine, and `handshake_failed` of the command; `cargo xtask generate` rewrites it.

Each line is an object. Sockets and simulator write the same form. Numbers are integers, times are in microseconds, and
unknown values are omitted. The [JSON Schema](event-log.schema.json) describes a line.

Members of every event:

| member | type | meaning |
|---|---|---|
{common}
| event | meaning | further members |
|---|---|---|
{rows}
## Members of single events

| event | member | type | meaning |
|---|---|---|---|
{members}
Next: [analysis of a capture](../analyze.md).
"""


def event_log_schema():
    variants = []
    for name, about, members in events():
        properties = {key: {"type": kind, "description": text} for key, kind, text in COMMON}
        properties["event"] = {"const": name}
        properties |= {key: {"type": kind, "description": text} for key, text, kind, _ in members}
        required = [key for key, *_ in COMMON] + [key for key, _, _, optional in members if not optional]
        variants.append({"type": "object", "description": about, "properties": properties, "required": required,
                         "additionalProperties": False})
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A line of Carob's event log", "oneOf": variants}
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


sys.stdout.write(globals()[sys.argv[1].replace("-", "_")]())
