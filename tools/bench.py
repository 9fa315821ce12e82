#!/usr/bin/env python3
"""Benchmarks: Carob and other implementations in turns, server and generator on a core each. They print medians;
nothing is asserted about time, because machines differ."""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TOOLS = TARGET / "bench-tools"
CALIFORNIUM = Path(os.environ.get("CAROB_PEERS_DIR", ROOT / "target/peers")) / "californium"
# The static library: the shared one does not export the encoding of a header.
LIBCOAP = "-l:libcoap-3-notls.a"
FULL = ["--package", "carob-cli", "--features", "full"]
HELP = """\
budgets      all budgets of the stack, beside libcoap and Californium; 3 rounds, some 10 minutes
server       confirmable GET (14 bytes) with a piggybacked response of 32 bytes, closed loop: CPU time of the
             server; `handler` is `carob serve` with a response of a handler
observe      notification of a group of observers, and memory of an observer
block        a body of 1 MiB in blocks of 1,024 bytes, by one client and by sixteen at once
codec        decoding and encoding beside libcoap
generator    CPU time of `carob bench` and tools/coapload
controllers  state, flash on a Cortex-M4 and time of a step: crates/cc/results/costs.md
"""

# A confirmable GET of `/hello` (14 bytes); the paths of small resources have five letters.
GET_HELLO = b"\x44\x01\x00\x01prob\xb5hello"
PUT_HELLO = b"\x44\x03\x00\x02make\xb5hello\xff" + b"h" * 32
# An empty confirmable message: any answer shows that a server runs.
PING = b"\x40\x00\x00\x01"
PATHS = {
    "small": {"handler": "count", "": "hello"},
    "observed": {"carob": "count", "libcoap": "example_data", "": "told"},
    "body": {"californium": "pattern", "": "large"},
}
# Ratio of the numbers of observers between which memory is a slope: resident memory grows in steps.
LARGER = 8
BUDGETS = {
    "GET, x bare": 1.2,
    "10,000 known peers, x none": 1.1,
    "decode ns": 40,
    "encode ns": 40,
    "1,000 observers notified ms": 4,
    "an observer B": 300,
    "1 MiB by Block2 ms": 30,
}


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def cargo(*words, **options):
    return output("cargo", *words, cwd=ROOT, **options)


def compile_c(source, *libraries):
    """Compiles one C file; the program."""
    TOOLS.mkdir(parents=True, exist_ok=True)
    program = TOOLS / source.stem
    subprocess.run(["cc", "-O2", "-Wall", "-o", program, source, *libraries], check=True)
    return program


class Server:
    """A running server on core 0, and the source port at which its generator continues: a Message ID must not recur
    on a port."""

    def __init__(self, programs, name, resource, controller=None):
        self.name = name
        self.path = PATHS[resource].get(name, PATHS[resource][""])
        self.next_source_port = 10_000
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            for self.port in range(5700, 9999):
                try:
                    free.bind(("127.0.0.1", self.port))
                    break
                except OSError:
                    pass
        command = programs.server(name, resource, self.port)
        if controller and name in ("carob", "handler"):
            command += ["--cc", controller]
        self.process = subprocess.Popen(
            ["taskset", "-c", "0", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if name != "bare":
            self.answer(PING)
        if name == "libcoap" and resource == "small":
            self.answer(PUT_HELLO)
        elif name == "libcoap" and resource == "body":
            output(programs.carob, "put", f"coap://127.0.0.1:{self.port}/large", "--file", programs.body)
        if resource == "small" and name != "handler":
            answer = self.answer(GET_HELLO)
            right = answer[1] == 0x45 and answer[-33] == 0xFF
            assert right, f"{name}: GET /hello is not answered by 2.05 with 32 bytes"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def answer(self, message):
        """Sends a message until it is answered."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.2)
            probe.connect(("127.0.0.1", self.port))
            end = time.monotonic() + 20
            while time.monotonic() < end:
                assert self.process.poll() is None, f"{self.name} has ended"
                try:
                    probe.send(message)
                    return probe.recv(2_048)
                except OSError:
                    time.sleep(0.05)
        raise TimeoutError(f"{self.name} does not answer")


class Programs:
    """Servers and generators."""

    def __init__(self, carob):
        assert shutil.which("taskset") and os.cpu_count() > 1, "two cores and `taskset` (util-linux) are needed"
        if not carob:
            cargo("build", "--release", "--quiet", *FULL)
        self.carob = carob or TARGET / "release/carob"
        self.generator = compile_c(ROOT / "tools/coapload/coapload.c")
        self.bare = compile_c(ROOT / "tools/coapload/udplimit.c")
        # A MiB in which each byte is the low byte of its offset; the generator checks it.
        self.body = TOOLS / "body"
        self.body.write_bytes(bytes(range(256)) * 4_096)

    def installed(self, *names):
        """Return the installed servers."""
        there = {
            "libcoap": shutil.which("coap-server-notls"),
            "californium": (CALIFORNIUM / "stamp").is_file(),
        }
        for name in names:
            if there.get(name, True):
                yield name
            else:
                print(f"skipped: {name} (install: cargo xtask peers)")

    def server(self, name, resource, port):
        """The command of a server."""
        if name == "bare":
            return [self.bare, "rs", str(port)]
        if name == "libcoap":
            # `-N`: notifications are NON, except each fifth. `-d`: a PUT may create a resource.
            observed = ["-N"] if resource == "observed" else ["-d", "2"]
            return ["coap-server-notls", "-A", "127.0.0.1", "-p", str(port), *observed]
        if name == "californium":
            path = f"{CALIFORNIUM}/classes:{CALIFORNIUM}/lib/*"
            return ["java", "-cp", path, "interop.Server", str(port), "--bench", "yes"]
        return [self.carob, "serve", "--bind", f"127.0.0.1:{port}"]

    def load(self, server, *mode):
        """Runs coapload once against a server, on core 1."""
        words = ["-u", server.path, "-p", server.port, "-P", server.process.pid, "-b", server.next_source_port, *mode]
        text = output("taskset", "-c", "1", self.generator, *map(str, words))
        slice = json.loads(text)
        server.next_source_port = slice.get("nextport", 10_000)
        for key in ("bad", "badcode"):
            assert not slice.get(key), f"{server.name}: {slice[key]} wrong answers (`{key}`)"
        return slice

    def load_fresh(self, name, resource, *mode):
        """The same against a fresh server."""
        with Server(self, name, resource) as server:
            return self.load(server, *mode)

    def carob_bench(self, name, seconds):
        """Runs `carob bench` once against a fresh server."""
        with Server(self, name, "small") as server:
            words = ["bench", f"coap://127.0.0.1:{server.port}/hello", "--outstanding", "64", "--ports", "16"]
            words += ["--duration", f"{seconds}s", "--warm-up", "500ms", "--json", "--server-pid", server.process.pid]
            report = json.loads(output("taskset", "-c", "1", self.carob, *map(str, words)))
        wrong = report["errors"]["total"] + report["messages"]["wrong"]["total"]
        assert wrong == 0, f"{name}: {report}"
        return report


class Results:
    """Values by program and metric, one a round."""

    def __init__(self):
        self.values = {}

    def add(self, program, **metrics):
        for metric, value in metrics.items():
            self.values.setdefault((program, metric), []).append(value)

    def add_round(self, number, program, metrics):
        self.add(program, **metrics)
        cells = ", ".join(f"{digits(value)} {metric}" for metric, value in metrics.items())
        print(f"round {number}  {program:<12} {cells}", flush=True)

    def median(self, program, metric):
        values = self.values.get((program, metric))
        return statistics.median(values) if values else None

    def table(self):
        """Medians: a line for each program, a column for each metric; more columns than lines are transposed."""
        programs, metrics = (list(dict.fromkeys(key[place] for key in self.values)) for place in (0, 1))
        transposed = len(metrics) > len(programs) + 2
        lines, columns = (metrics, programs) if transposed else (programs, metrics)
        width = max(map(len, lines))
        text = " " * width + "".join(f"  {column:>9}" for column in columns) + "\n"
        for line in lines:
            cells = (self.median(column, line) if transposed else self.median(line, column) for column in columns)
            shown = ("-" if cell is None else digits(cell) for cell in cells)
            padded = "".join(f"  {cell:>{max(len(column), 9)}}" for cell, column in zip(shown, columns))
            text += f"{line:<{width}}{padded}\n"
        return text


def digits(value):
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def server(programs, options):
    """CPU time per request, which does not depend on the speed of the generator."""
    results = Results()
    names = programs.installed("bare", "libcoap", "californium", "carob", "handler")
    servers = [Server(programs, name, "small", options.cc) for name in names]
    try:
        for one in servers if options.known_peers else []:
            slice = programs.load(one, "-m", "peers", "-n", options.known_peers, "-w", 64, "-s", 64)
            grown = (slice["rss1_kb"] - slice["rss0_kb"]) * 1024
            results.add(one.name, **{"bytes a peer": grown / slice["ok"]})
        mode = ["-m", "con", "-w", options.outstanding, "-s", options.ports, "-d", options.seconds]
        for number in range(1, options.rounds + 1):
            bare = None
            for one in servers:
                slice = programs.load(one, *mode)
                cpu = slice["us_per_req"]
                bare = bare or cpu
                metrics = {"CPU us": cpu, "x bare": cpu / bare, "p50 us": slice["p50us"], "p99 us": slice["p99us"]}
                results.add_round(number, one.name, metrics | {"requests/s": slice["rate"]})
    finally:
        for one in servers:
            one.__exit__()
    return results


def observe(programs, options):
    """Time until all observers are notified, and memory of an observer beyond the message that registered it. Every
    slice has a fresh server."""
    results = Results()
    for number in range(1, options.rounds + 1):
        for name in programs.installed("carob", "libcoap", "californium"):
            slice, few = observers(programs, name, options.observers, options.changes)
            _, many = observers(programs, name, options.observers * LARGER, 1)
            more = options.observers * (LARGER - 1)
            metrics = {
                "all notified ms": slice["ms_med"],
                "CPU us": slice["srv_cpu_us_per_notif"],
                "bytes an observer": (many - few) * 1024 / more,
                "missing": slice["missing"],
            }
            results.add_round(number, name, metrics)
    return results


def observers(programs, name, count, changes):
    """A slice of observers, and the KiB that they take beyond as many clients without observation."""
    plain = programs.load_fresh(name, "observed", "-m", "peers", "-n", count, "-w", 64, "-s", 64)
    path = PATHS["observed"].get(name, PATHS["observed"][""])
    # The resource of libcoap changes by PUT.
    put = ["-X"] if name == "libcoap" else []
    slice = programs.load_fresh(name, "observed", "-m", "observe", "-s", count, "-n", changes, "-x", path, *put)
    assert slice["registered"] == count, f"{name}: {slice['registered']} of {count} observers were registered"
    grown = slice["rss_reg_kb"] - slice["rss_before_kb"]
    return slice, grown - (plain["rss1_kb"] - plain["rss0_kb"])


def block(programs, options):
    """Time and throughput of block-wise bodies."""
    results = Results()
    servers = [Server(programs, name, "body") for name in programs.installed("carob", "libcoap", "californium")]
    try:
        for number in range(1, options.rounds + 1):
            for one in servers:
                alone = programs.load(one, "-m", "block", "-s", 1, "-n", options.bodies)
                parallel = programs.load(one, "-m", "block", "-s", 16, "-n", options.bodies)
                metrics = {"ms alone": alone["ms_med"], "CPU us a block": alone["srv_cpu_us_per_block"]}
                results.add_round(number, one.name, metrics | {"MB/s by 16": parallel["MBps"]})
    finally:
        for one in servers:
            one.__exit__()
    return results


def generator(programs, options):
    """CPU time of the generators. Every slice has a fresh server, because the cost of libcoap grows with the source
    ports that it knows."""
    results = Results()
    # `-k`: it sleeps while nothing arrives, as `carob bench` does.
    mode = ["-k", "-m", "con", "-w", 64, "-s", 16, "-d", options.seconds]
    for number in range(1, options.rounds + 1):
        for name in programs.installed("carob", "libcoap"):
            slice = programs.load_fresh(name, "small", *mode)
            base = slice["gen_cpu"] * slice["secs"] * 1e6 / slice["ok"]
            metrics = {"generator us": base, "x coapload": 1, "server us": slice["us_per_req"]}
            results.add_round(number, f"coapload, {name}", metrics | {"requests/s": slice["rate"]})
            report = programs.carob_bench(name, options.seconds)
            own = report["generator"]["cpu_us_each"]
            metrics = {"generator us": own, "x coapload": own / base, "server us": report["server"]["cpu_us_each"]}
            results.add_round(number, f"carob bench, {name}", metrics | {"requests/s": report["rate_per_s"]})
    return results


def times(text):
    """Names and nanoseconds of lines `NAME NUMBER ns`."""
    for line in text.splitlines():
        words = line.split()
        if "ns" in words[2:]:
            unit = words.index("ns")
            yield " ".join(words[: unit - 1]).removesuffix(":"), float(words[unit - 1])


def codec(_, options):
    """Times of the benchmark of `carob-codec` and of tools/codecbench."""
    results = Results()
    bases = {"decode": "carob decode (parse, token, every option)", "encode": "carob encode"}
    try:
        libcoap = [compile_c(ROOT / "tools/codecbench/libcoap_codec.c", LIBCOAP)]
    except subprocess.CalledProcessError:
        libcoap = []
        print("skipped: libcoap (install: cargo xtask peers)")
    for number in range(1, options.rounds + 1):
        print(f"round {number} of {options.rounds}", flush=True)
        text = cargo("bench", "--quiet", "--package", "carob-codec", "--bench", "codec")
        text += "".join(map(output, libcoap))
        all = dict(times(text))
        for name, ns in all.items():
            base = all.get(bases.get(name.split()[1]), float("nan"))
            results.add(name, **{"ns": ns, "x carob": ns / base})
    return results


def budgets(programs, options):
    """All budgets (docs/performance.md) with the values of the other benchmarks."""
    fresh = server(programs, options)
    options.known_peers = 10_000
    crowd = server(programs, options)
    parts = {"codec": codec, "observe": observe, "block": block}
    parts = {name: part(programs, options) for name, part in parts.items()}
    codecs, observed, blocks = parts["codec"], parts["observe"], parts["block"]

    def operation(program, kind):
        # Decoding counts with every option read.
        text = "every option" if kind == "decode" else ""
        names = {name for name, _ in codecs.values if name.startswith(f"{program} {kind}") and text in name}
        return min((codecs.median(name, "ns") for name in names), default=None)

    results = Results()
    results.add("budget", **BUDGETS)
    for name in ("carob", "libcoap", "californium"):
        known, none = crowd.median(name, "x bare"), fresh.median(name, "x bare")
        values = [
            none,
            known and known / none,
            operation(name, "decode"),
            operation(name, "encode"),
            observed.median(name, "all notified ms"),
            observed.median(name, "bytes an observer"),
            blocks.median(name, "ms alone"),
        ]
        results.add(name, **{metric: value for metric, value in zip(BUDGETS, values) if value is not None})
    return results


# Cost of each controller: size of its state here and on a Cortex-M4, flash of a program that calls it (tools/flash) less
# the flash of the program without it, and time of a step (crates/cc/benches/step.rs).

BARE_METAL = "thumbv7em-none-eabi"
COSTS = """\
# Memory, code size and time of controllers

Written by `tools/bench.py controllers`.

State is kept per destination: on a Cortex-M4, and on a 64-bit host. Flash is what one controller alone adds to a
program for a Cortex-M4 (`tools/flash`; `opt-level = "s"`, one code unit). It includes its constants and the
64-bit division that some need. Time is the median of nine rounds, a step being one call of the engine
(`crates/cc/benches/step.rs`). The machine is that of [performance.md](../../../docs/performance.md);
at some hours it is half as fast as at others, so compare rows of this table alone.

| controller | state, Cortex-M4 | state, 64 bit | flash, Cortex-M4 | time a step |
|---|---|---|---|---|
"""


def sizes(path, name):
    """Flash and state of the program with one controller, in bytes."""
    folder = TARGET / "flash"
    folder.mkdir(parents=True, exist_ok=True)
    subject = folder / "subject.rs"
    subject.write_text(f'use {path} as Subject;\nconst NAME: &str = "{name}";\n')
    # A compiler that ships the standard library's source (Debian: rustc-web, rust-web-src, lld-16).
    environment = {
        "RUSTC": "/usr/bin/rustc",
        "RUSTC_BOOTSTRAP": "1",
        "CARGO_TARGET_DIR": str(folder),
        "FLASH_SUBJECT": str(subject),
        "RUSTFLAGS": "-C linker=ld.lld-16 -C linker-flavor=ld.lld",
    }
    build = ["cargo", "build", "--quiet", "--release", "-Z", "build-std=core", "--target", BARE_METAL]
    build += ["-Z", "build-std-features=compiler-builtins-mem"]
    subprocess.run(build, check=True, cwd=ROOT / "tools/flash", env=os.environ | environment)
    lines = (line.split() for line in output("size", "-A", folder / BARE_METAL / "release/flash").splitlines())
    section = {words[0]: int(words[1]) for words in lines if len(words) == 3 and words[1].isdigit()}
    flash = sum(section.get(name, 0) for name in (".text", ".rodata", ".data"))
    return flash, section.get(".bss", 0)


def controllers():
    """Writes crates/cc/results/costs.md."""
    listed = cargo("run", "--quiet", "--release", "--package", "carob-cli", "--", "cc", "list", "--json")
    steps = dict(times(cargo("bench", "--quiet", "--package", "carob-cc", "--bench", "step")))
    nothing, _ = sizes("crate::Nothing", "nothing")
    text = COSTS
    for one in json.loads(listed):
        name = one["name"]
        print(f"{name} for {BARE_METAL}", flush=True)
        flash, state = sizes(f"carob_cc::algorithms::{one['path']}", name)
        mark = " \\*" if one["project_choice"] else ""
        text += f"| `{name}`{mark} | {state} B | {one['state_bytes']} B | {flash - nothing} B | {steps[name]:.1f} ns |\n"
    text += "\n\\* Some of it is this project's choice: `carob cc show NAME`.\n"
    (ROOT / "crates/cc/results/costs.md").write_text(text)


BENCHMARKS = [budgets, server, observe, block, codec, generator]


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=HELP, formatter_class=form)
    names = [one.__name__ for one in BENCHMARKS]
    parser.add_argument("name", choices=[*names, "controllers"], metavar="NAME", help="benchmark")
    parser.add_argument("--rounds", type=int, help="rounds of all programs in turn (5; 3 of budgets)")
    parser.add_argument("--seconds", type=float, default=3, help="length of a slice of server and generator (3)")
    parser.add_argument("--outstanding", type=int, default=64, help="outstanding requests of server (64)")
    parser.add_argument("--ports", type=int, default=16, help="source ports of server (16)")
    parser.add_argument("--known-peers", type=int, default=0, help="peers that each server knows before (0)")
    parser.add_argument("--cc", help="controller of `carob serve` (its default)")
    parser.add_argument("--observers", type=int, default=1_000, help="observers (1000)")
    parser.add_argument("--changes", type=int, default=20, help="changes of the resource in a slice of observe (20)")
    parser.add_argument("--bodies", type=int, default=10, help="bodies of a client in a slice of block (10)")
    parser.add_argument("--carob", type=Path, help="program `carob` (built in release)")
    parser.add_argument("--out", type=Path, help="file for all values as JSON")
    options = parser.parse_args()
    if options.name == "controllers":
        return controllers()
    options.rounds = options.rounds or (3 if options.name == "budgets" else 5)
    programs = None if options.name == "codec" else Programs(options.carob)
    results = BENCHMARKS[names.index(options.name)](programs, options)
    print(f"\n{results.table()}(medians of {options.rounds} rounds; ratios within a round)")
    if options.out:
        rows = [{"program": one, "metric": metric, "values": all} for (one, metric), all in results.values.items()]
        options.out.write_text(json.dumps(rows, indent=2) + "\n")
    return None


if __name__ == "__main__":
    sys.exit(main())
