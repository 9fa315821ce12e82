#!/usr/bin/env python3
"""All fuzz targets one after the other, `--seconds N` each (600), or `--target NAME` alone. Afterwards the corpora of
`vectors/corpus` are the smallest inputs that together reach all code that was reached. It needs a nightly toolchain and
`cargo install cargo-fuzz`."""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Bytes of a corpus, which ordinary tests replay, and of an input; inputs that people write as files are longer.
CORPUS_BYTES, INPUT_BYTES, FILE_BYTES = 40 << 10, 512, 4096
FILES = ["capture", "decrypt", "scenario", "trace"]
#: An input that takes longer is a fault, in seconds.
SLOW = 20


def pack(inputs):
    """Inputs as one file, the shortest first: each is a little-endian length of two bytes and its bytes."""
    packed = b""
    for data in sorted(inputs, key=lambda data: (len(data), data)):
        if len(data) < 1 << 16:
            if len(packed) + 2 + len(data) > CORPUS_BYTES:
                break
            packed += len(data).to_bytes(2, "little") + data
    return packed


def unpack(packed):
    inputs = []
    while len(packed) >= 2:
        length, packed = int.from_bytes(packed[:2], "little"), packed[2:]
        inputs.append(packed[:length])
        packed = packed[length:]
    return inputs


assert unpack(pack([b"\1" * 300, b"", b"\2" * 5])) == [b"", b"\2" * 5, b"\1" * 300]
assert len(unpack(pack([b"\7" * 1000] * 100))) == CORPUS_BYTES // 1002


def libfuzzer(name, folders, *options):
    # Not the compiler of xtask: fuzzing needs a nightly.
    environment = {key: value for key, value in os.environ.items() if key not in ("CARGO", "RUSTUP_TOOLCHAIN")}
    command = ["cargo", "+nightly", "fuzz", "run", name, *folders, "--", *options]
    text = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False).stderr
    text = text.decode(errors="replace")
    if "INFO: Running with entropic power schedule" not in text and "MERGE-OUTER" not in text:
        sys.exit(f"{command} did not run:\n{text}")
    return text


def last_number(text, word):
    numbers = re.findall(re.escape(word) + r"\s*(\d+)", text)
    return numbers[-1] if numbers else "0"


def files(folder):
    return sorted(folder.iterdir()) if folder.is_dir() else []


def fuzz(name, seconds):
    """A row of the results; the last cell names faults."""
    packed, work = ROOT / f"vectors/corpus/{name}.bin", ROOT / "fuzz/corpus" / name
    artifacts = ROOT / "fuzz/artifacts" / name
    work.mkdir(parents=True, exist_ok=True)
    if packed.is_file():
        for number, data in enumerate(unpack(packed.read_bytes())):
            (work / f"kept-{number}").write_bytes(data)
    before = files(artifacts)
    length = FILE_BYTES if name in FILES else INPUT_BYTES
    text = libfuzzer(name, [work], f"-max_total_time={seconds}", f"-max_len={length}", f"-timeout={SLOW}", "-print_final_stats=1")
    faults = [str(path.relative_to(ROOT)) for path in files(artifacts) if path not in before]
    corpus = "of its own"
    if packed.is_file():
        least = work.with_suffix(".least")
        shutil.rmtree(least, ignore_errors=True)
        least.mkdir()
        libfuzzer(name, [least, work], "-merge=1")
        data = pack([path.read_bytes() for path in files(least)])
        if data:
            packed.write_bytes(data)
        corpus = f"{len(unpack(data))} inputs, {len(data)} bytes"
    counts = [last_number(text, word) for word in ("stat::number_of_executed_units:", " cov: ")]
    return f"| `{name}` | {counts[0]} | {counts[1]} | {corpus} | {', '.join(faults) or 'none'} |"


parser = argparse.ArgumentParser(description=__doc__)
targets = sorted(path.stem for path in (ROOT / "fuzz/fuzz_targets").glob("*.rs"))
parser.add_argument("--seconds", type=int, default=600)
parser.add_argument("--target", choices=targets)
options = parser.parse_args()
lines = [
    f"# Fuzz targets, {options.seconds} s each\n",
    f"Written by `cargo xtask long fuzz --seconds {options.seconds}`. What each feeds and checks is in [README.md](README.md).\n",
    "| target | inputs tried | places reached | corpus | faults |",
    "|---|---|---|---|---|",
]
for target in [options.target] if options.target else targets:
    lines.append(fuzz(target, options.seconds))
    print(lines[-1], flush=True)
    if not options.target:
        (ROOT / "fuzz/results.md").write_text("\n".join(lines) + "\n")
sys.exit(not all(line.endswith("| none |") for line in lines[4:]))
