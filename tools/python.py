#!/usr/bin/env python3
"""Builds and tests the Python package: `python.py test TARGET CAROB` (types, source distribution, wheel) and
`python.py wheels TARGET [TRIPLE...]` (older glibc, musl). TARGET is Cargo's build directory, CAROB the command of the
same sources."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import rmtree

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "crates/python"
#: The oldest minor version of Python 3 that the package supports.
OLDEST = 10
#: Packages of tests and examples, and of type checks.
TEST_PACKAGES = [
    "check-jsonschema>=0.30,<1", "mypy>=1.15,<3", "pytest>=8,<10", "distributed>=2024.1", "pyarrow>=16", "pandas>=2", "polars>=1",
    "tqdm>=4", "nbclient>=0.10", "ipykernel>=6", "aiocoap>=0.4.17", "matplotlib>=3.8", "altair>=5.4", "optuna>=4", "SALib>=1.5",
    "trustme>=1.2",
]
#: Platform tags of PEP 600 and PEP 656. maturin rejects a library that needs more than its platform has.
TAGS = {"x86_64-unknown-linux-gnu": "manylinux_2_17", "x86_64-unknown-linux-musl": "musllinux_1_2"}
RUN = "import carob; print(carob.scenario('thesis/exchange-udp').run(seeds=1))"
#: A run of the lab, and a request to a server of the same process.
REQUEST = RUN + """
import asyncio
from carob import aio

async def hello(request):
    return 'hello'

async def request():
    server = aio.Server('127.0.0.1:0')
    server.resource('/hello')(hello)
    async with server, aio.Client(controller='carob') as client:
        return await client.get(server.addresses[0] + '/hello', timeout=10)

assert asyncio.run(request()).text == 'hello'
"""
assert f'requires-python = ">=3.{OLDEST}"' in (PACKAGE / "pyproject.toml").read_text()
assert f"abi3-py3{OLDEST}" in (PACKAGE / "Cargo.toml").read_text()


def run(*command, cwd=ROOT, **environment):
    print("$", *command, flush=True)
    subprocess.run(command, cwd=cwd, check=True, env={**os.environ, **environment})


def interpreters():
    """Interpreters with `venv` by minor version: of the path and of pyenv."""
    script = "import ensurepip, sys, venv; print(sys.version_info[1])"
    found = {}
    for path in ["python3", *sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))]:
        version = subprocess.run([path, "-c", script], capture_output=True, text=True, check=False)
        if version.returncode == 0 and int(version.stdout) >= OLDEST:
            found.setdefault(int(version.stdout), path)
    return dict(sorted(found.items()))


def environment(folder, python, packages):
    """A virtual environment; one with the same packages is used again."""
    marker = folder / "packages"
    if not marker.exists() or marker.read_text() != "\n".join(packages):
        run(python, "-m", "venv", "--clear", folder)
        run(folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages)
        marker.write_text("\n".join(packages))
    return folder / "bin"


def maturin(tools, out, *arguments, **variables):
    """The only file that maturin writes."""
    rmtree(out, ignore_errors=True)
    # maturin looks for zig beside the first interpreter of the path.
    path = f"{tools}:{os.environ['PATH']}"
    run(tools / "maturin", *arguments, "--manifest-path", PACKAGE / "Cargo.toml", "--out", out, PATH=path, **variables)
    [file] = out.iterdir()
    return file


def test(target, carob):
    folder, pythons = target / "python", interpreters()
    newest, oldest = list(pythons)[-1], list(pythons)[0]
    tools = environment(folder / "tools", pythons[newest], ["maturin>=1.9,<2"])
    bins = {minor: environment(folder / f"test-3.{minor}", pythons[minor], TEST_PACKAGES) for minor in (oldest, newest)}
    workflows = sorted((ROOT / ".github/workflows").iterdir())
    run(bins[newest] / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    run(bins[newest] / "mypy", "--cache-dir", folder / "mypy", cwd=PACKAGE)
    build = {"CARGO_TARGET_DIR": str(target)}
    archive = maturin(tools, folder / "sdist", "sdist", **build)
    unpacked, fresh = folder / "unpacked", folder / "from-source"
    for old in (unpacked, fresh):
        rmtree(old, ignore_errors=True)
    unpacked.mkdir()
    # Files of the archive have a fixed old time, with which Cargo would take crates of other sources for theirs.
    run("tar", "--extract", "--touch", "--gzip", "--strip-components=1", "--file", archive, "--directory", unpacked)
    pip = environment(fresh, pythons[newest], ["pip"])
    # A wheel of other sources with this name may be in the cache.
    run(pip / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", unpacked, **build)
    run(pip / "python", "-c", RUN, cwd=folder)
    wheel = maturin(tools, folder / "wheels", "build", "--release", "--locked", "--quiet", **build)
    for minor, selection in {oldest: "not slow", newest: "slow or not slow"}.items():
        # The version is always the same, so an installed one would count as this one.
        run(bins[minor] / "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps", wheel)
        run(bins[minor] / "python", "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-m", selection, cwd=PACKAGE,
            CAROB_COMMAND=carob, PYTHONDONTWRITEBYTECODE="1")


def wheels(target, *triples):
    folder, pythons = target / "wheels", list(interpreters().values())
    tools = environment(folder / "tools", pythons[-1], ["maturin>=1.9,<2", "ziglang>=0.14,<1"])
    for triple in triples:
        wheel = maturin(tools, folder / TAGS[triple], "build", "--release", "--locked", "--quiet", "--zig", "--compatibility",
                        TAGS[triple], "--target", triple, CARGO_TARGET_DIR=str(folder / "build"))
        if triple.endswith("gnu"):
            # Unpacked, not installed: an interpreter may have no pip.
            unpacked = folder / "unpacked"
            rmtree(unpacked, ignore_errors=True)
            run(tools / "python", "-m", "zipfile", "--extract", wheel, unpacked)
            # An interpreter that ends while a result is delivered must not crash, which depends on the time.
            for python in (pythons[0], pythons[-1]):
                for _ in range(15):
                    run(python, "-c", REQUEST, PYTHONPATH=str(unpacked))


Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
{"test": test, "wheels": wheels}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
