"""Executors for the host programs of these tests, and processes that are looked for from outside."""

import os
import secrets
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor, Process, Workspace
from openskills.executors.spec import Command, CommandResult, Limits
from openskills.settings import Settings
from tests.hostile.skill import write_battery


@asynccontextmanager
async def opened(name: str, directory: Path) -> AsyncGenerator[Executor]:
    """An executor whose state is below a directory."""
    variables = {**os.environ, "OPENSKILL_STATE_DIR": str(directory / "state"), "OPENSKILL_ALLOW_LOCAL": "1"}
    chosen = open_executor(name, Settings.from_env(variables))
    try:
        yield chosen
    finally:
        await chosen.close()


async def with_battery(chosen: Executor, key: str, directory: Path) -> Workspace:
    """A workspace in which the skill with all probes is staged."""
    skill = directory / "battery"
    if not skill.exists():
        write_battery(directory)
    workspace = await chosen.open(key)
    await workspace.stage(await chosen.snapshot("battery", skill))
    return workspace


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command line of a module of the battery, inside."""
    code = f"import runpy, sys; sys.path.insert(0, 'skills/battery'); sys.argv[0] = {module!r}; "
    return ("python3", "-c", f"{code}runpy.run_module({module!r}, run_name='__main__')", *arguments)


async def started(workspace: Workspace, *argv: str, limits: Limits | None = None) -> Process:
    """Start a command with the workspace as its directory; its output can be read while it runs."""
    chosen = limits or Limits(timeout=60)
    return await workspace.start(replace(_command(argv, chosen), readable=True))


async def run(workspace: Workspace, *argv: str, limits: Limits | None = None) -> CommandResult:
    """Run a command to its end."""
    chosen = limits or Limits(timeout=60)
    return await (await workspace.start(_command(argv, chosen))).wait()


def _command(argv: tuple[str, ...], limits: Limits) -> Command:
    run_dir = f"runs/{secrets.token_hex(6)}"
    return Command(argv, skill="battery", cwd=".", limits=limits, run_dir=run_dir)


async def said(process: Process, wanted: bytes, seconds: float = 30.0) -> bytes:
    """What a process has written until `wanted` is in it; raises `AssertionError` when it never is."""
    seen, offset = b"", 0
    deadline = time.monotonic() + seconds
    while wanted not in seen:
        output = await process.read(offset, wait=0.5)
        seen, offset = seen + output.data, output.next_offset
        if output.ended or time.monotonic() > deadline:
            raise AssertionError(f"{wanted!r} was never said: {seen[-2000:]!r}")
    return seen


def marked(marker: str) -> dict[int, str]:
    """The processes that run and have a marker of ours among their arguments, this one excepted."""
    found: dict[int, str] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            line = Path("/proc", name, "cmdline").read_bytes()
            if marker.encode() in line and int(name) != os.getpid() and _runs(name):
                found[int(name)] = line.replace(b"\0", b" ").decode("utf-8", "replace")[-200:]
    return found


def _runs(pid: str) -> bool:
    return Path("/proc", pid, "stat").read_text("ascii", "replace").rpartition(")")[2].split()[0] not in "ZX"


def gone(marker: str, seconds: float) -> dict[int, str]:
    """Wait until no marked process runs; what is left in the end."""
    deadline = time.monotonic() + seconds
    while (left := marked(marker)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def end_marked(marker: str) -> None:
    """End marked processes of our own: all are stopped first, so that none can start another."""
    while found := marked(marker):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
