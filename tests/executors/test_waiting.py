"""A poll returns as soon as a command waits for input, in every executor."""

import os
import subprocess
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.container.backend import ContainerBackend
from openskills.executors.container.spec import ContainerOptions
from openskills.executors.interactive import OwnedProcesses, ProcessOwner, ProcessPollResult, ProcessTable
from openskills.executors.landlock import LandlockBackend
from openskills.executors.local import LocalBackend
from openskills.executors.protocol import Backend, Workspace
from openskills.executors.spec import Command, TerminalSize
from openskills.executors.workspace import DirectoryExecutor
from tests.conftest import RequireProgram
from tests.container_engine import TestEngine
from tests.executors.running import TIMEOUT
from tests.hostile.harness import nobody

ME = ProcessOwner("app", "ann", "session", "agent")
BACKENDS: dict[str, Callable[[], Backend]] = {
    "local": LocalBackend,
    "sandbox": SandboxBackend,
    "landlock": LandlockBackend,
}
LONG = 50 * TIMEOUT
"""A poll that waits this long, and returns, has seen that the command waits."""

PYTHON = "import sys\nwhile (line := input()) != 'end': print(line.upper(), flush=True)"
COMPUTES = (
    "line = input()\nprint('began', flush=True)\nfor _ in range(3_000_000): pass\nprint('done', flush=True)\ninput()"
)
PROGRAMS: dict[str, tuple[str, ...]] = {
    "python": ("python3", "-u", "-c", PYTHON),
    "cat": ("cat",),
    "bash": ("bash", "-c", "while read line; do echo $line; done"),
    "a child": ("bash", "-c", "cat; true"),
    "a pipeline": ("bash", "-c", "cat | sed -u s/x/y/"),
    "a thread": ("python3", "-c", "import threading\nthreading.Thread(target=lambda: print(input())).start()"),
}


class Talk:
    """One command, with everything that it printed."""

    def __init__(self, table: ProcessTable, identity: str) -> None:
        self.processes, self.identity = OwnedProcesses(table, ME), identity
        self.seen = ""

    async def poll(self, wait: float = LONG) -> ProcessPollResult:
        poll = await self.processes.poll(self.identity, wait=wait)
        self.seen += poll.output
        return poll

    async def say(self, line: str, wait: float = LONG) -> ProcessPollResult:
        poll = (await self.processes.write(self.identity, line.encode(), submit=True, wait=wait)).poll
        self.seen += poll.output
        return poll


@asynccontextmanager
async def workspace(directory: Path, backend: Backend) -> AsyncGenerator[Workspace]:
    directory.chmod(0o755)
    async with DirectoryExecutor(backend, directory / "state") as executor:
        opened = await executor.open("key")
        try:
            yield opened
        finally:
            await opened.close()


@asynccontextmanager
async def talk(where: Workspace, argv: tuple[str, ...], *, terminal: bool = False) -> AsyncGenerator[Talk]:
    table = ProcessTable()
    size = TerminalSize() if terminal else None
    command = Command(argv, terminal=size, input_open=True, readable=True)
    try:
        yield Talk(table, await table.start(lambda: where.start(command), ME, size))
    finally:
        await table.close()


async def check(where: Workspace) -> None:
    """Polls that would wait far too long return, with everything that the command has printed."""
    for name, argv in PROGRAMS.items():
        for terminal in (False, True):
            async with talk(where, argv, terminal=terminal) as here:
                await here.poll()
                first = await here.say("first x")
                if name == "a thread":
                    continue
                assert "first" in here.seen.replace("FIRST", "first"), (name, terminal, here.seen)
                assert first.status == "running"
                for number in range(5):
                    poll = await here.say(f"line {number}")
                    lines = poll.output.lower().splitlines()
                    # A terminal echoes the input.
                    assert lines == [f"line {number}"] * (2 if terminal else 1), (name, terminal, poll)


@pytest.mark.parametrize("name", BACKENDS)
async def test_a_poll_returns_when_the_command_waits_for_input(
    name: str, tmp_path: Path, require_program: RequireProgram
) -> None:
    if name == "sandbox":
        require_program("bwrap")
    async with workspace(tmp_path, BACKENDS[name]()) as where:
        await check(where)


async def test_a_poll_returns_when_a_command_in_a_container_waits_for_input(
    tmp_path: Path, container_engine: TestEngine
) -> None:
    options = ContainerOptions(container_engine.image, container_engine.address)
    async with workspace(tmp_path, ContainerBackend(options)) as where:
        await check(where)


_PROGRAM = """
import asyncio, sys
from openskills.executors import Command, TerminalSize, open_executor
from openskills.executors.interactive import OwnedProcesses, ProcessOwner, ProcessTable
from openskills.settings import Settings
async def main(me=ProcessOwner("app", "ann", "session", "agent")):
    settings = Settings.from_env({"OPENSKILL_STATE_DIR": sys.argv[2], "PATH": "/usr/bin:/bin"})
    async with open_executor(sys.argv[1], settings) as executor:
        workspace, table = await executor.open("key"), ProcessTable()
        for terminal in (None, TerminalSize()):
            command = Command(("cat",), terminal=terminal, input_open=True, readable=True)
            identity = await table.start(lambda: workspace.start(command), me, terminal)
            await OwnedProcesses(table, me).poll(identity, wait=1000)
            for line in ("one", "two"):
                poll = (await OwnedProcesses(table, me).write(identity, line.encode(), submit=True, wait=1000)).poll
                assert poll.output == (line + "\\n") * (2 if terminal else 1), poll
        await table.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("name", BACKENDS)
def test_it_also_returns_for_an_ordinary_user(name: str, require_program: RequireProgram) -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests above were run by one")
    if name == "sandbox":
        require_program("bwrap")
    with nobody() as user:
        checking = subprocess.run(
            [*user.prefix, user.python, "-c", _PROGRAM, name, user.place()],
            cwd=user.project,
            env=user.environment({}),
            capture_output=True,
            text=True,
            timeout=10 * TIMEOUT,
            check=False,
        )
    assert checking.returncode == 0, checking.stderr[-3000:]


async def test_a_warm_command_is_seen_to_wait_as_well(tmp_path: Path) -> None:
    async with workspace(tmp_path, LocalBackend()) as where:
        await where.write("work/loop.py", PYTHON.encode())
        command = Command(("python3", "-u", "work/loop.py"), warm=("json",), input_open=True, readable=True)
        table = ProcessTable()
        try:
            here = Talk(table, await table.start(lambda: where.start(command), ME))
            await here.poll()
            assert [(await here.say(f"line {number}")).output for number in range(3)] == [
                f"LINE {number}\n" for number in range(3)
            ]
        finally:
            await table.close()


async def test_a_command_that_computes_before_it_reads_again_is_waited_for(tmp_path: Path) -> None:
    async with workspace(tmp_path, LocalBackend()) as where, talk(where, ("python3", "-c", COMPUTES)) as here:
        assert (await here.poll()).output == ""
        assert (await here.say("go")).output == "began\ndone\n"


async def test_output_of_a_background_job_is_waited_for_although_another_program_reads(tmp_path: Path) -> None:
    async with (
        workspace(tmp_path, LocalBackend()) as where,
        talk(where, ("bash", "-c", "(sleep 0.3; echo late) & cat")) as here,
    ):
        assert (await here.poll()).output == "late\n"


async def test_input_that_the_command_cannot_read_yet_is_waited_for_until_the_timeout(tmp_path: Path) -> None:
    async with workspace(tmp_path, LocalBackend()) as where, talk(where, ("cat",), terminal=True) as here:
        await here.poll()
        begun = time.monotonic()
        # Without Enter, a terminal in line mode passes nothing on.
        poll = (await here.processes.write(here.identity, b"half", wait=0.5)).poll
        assert (poll.status, time.monotonic() - begun >= 0.5) == ("running", True)
