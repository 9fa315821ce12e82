"""Command `carob` of the wheel."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import carob
from carob import aio

COMMAND = Path(sys.executable).with_name("carob")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=60)


def test_the_command_is_installed_with_everything():
    for words in (["--version"], ["-m", "carob", "--version"]):
        program = COMMAND if words == ["--version"] else Path(sys.executable)
        told = subprocess.run([program, *words], capture_output=True, text=True, check=True)
        assert told.stdout == f"carob {carob.__version__}\n"
    shown = run("--help").stdout
    for command in ("analyze", "bench", "proxy", "lab"):
        assert f"  {command} " in shown
    assert "Not in this build" not in shown
    assert "--dtls" in run("serve", "--help").stdout


def test_the_command_of_studies_is_installed():
    studies = [COMMAND.with_name("carob-studies"), "claims", "retrycount"]
    told = subprocess.run(studies, capture_output=True, text=True, check=True)
    assert told.stdout.startswith("Lee et al. 2016, kept results")


def test_exit_codes_and_errors_are_those_of_the_program():
    wrong = run("get")
    assert wrong.returncode == 2
    assert "carob get" in wrong.stderr
    assert run("lab", "run", "thesis/exchange-udp", "--seeds", "1").returncode == 0


def test_a_request_reaches_a_server():
    async def exchange() -> bytes:
        server = aio.Server("127.0.0.1:0")

        @server.resource("/hello")
        async def hello(request):
            return "hello"

        async with server:
            uri = server.addresses[0] + "/hello"
            get = await asyncio.create_subprocess_exec(COMMAND, "get", uri, stdout=subprocess.PIPE)
            out, _ = await asyncio.wait_for(get.communicate(), 30)
            assert get.returncode == 0
            return out

    assert asyncio.run(exchange()).strip() == b"hello"


def test_an_interrupt_ends_a_server_and_a_run():
    with subprocess.Popen([COMMAND, "serve", "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert b"listening on" in server.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0
    long = ["lab", "run", "thesis/exchange-udp", "--seeds", "1000000", "--each", "--csv"]
    with subprocess.Popen([COMMAND, *long], stdout=subprocess.PIPE) as runs:
        assert runs.stdout is not None
        assert b"trace_hash" in runs.stdout.readline()
        runs.send_signal(signal.SIGINT)
        runs.stdout.close()
        assert runs.wait(10) == -signal.SIGINT
