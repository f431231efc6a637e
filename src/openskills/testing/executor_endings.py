"""Promises about how commands end: by themselves, in time, or by request, and with all that they started."""

import asyncio

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.spec import Command, Ended, Ending, Limits
from openskills.testing.promises import expect, expect_refusal
from openskills.testing.trial import Promise, Trial, python, read_until, shell, told

FAMILY = """
import fcntl, os, signal, sys, time
traits, path = sys.argv[1].split(), sys.argv[2]
lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
if 'deaf' in traits:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
if 'children' in traits:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
if 'quiet' not in traits:
    print('ready', flush=True)
if 'stopped' in traits:
    os.kill(os.getpid(), signal.SIGSTOP)
if 'gone' not in traits:
    time.sleep(600)
"""
"""A program that runs for ten minutes with its traits. All its processes hold the lock of a file and its pipes."""

_PATIENT = 4
_GRACE = 0.3
_CANNOT_RUN = (126, 127)


async def _codes(trial: Trial) -> None:
    """The exit code is that of the command."""
    for code in (0, 1, 3, 100, 255):
        ended = await trial.run(Command(shell(f"exit {code}")))
        said = (ended.exit_code, ended.ending)
        expect(said == (code, Ending.EXITED), f"`exit {code}` gives: {told(ended)}")


async def _signals(trial: Trial) -> None:
    """A command that is ended by signal n has the exit code 128 + n."""
    for number in (9, 15, 11, 1):
        ended = await trial.run(Command(shell(f"kill -{number} $$")))
        said = (ended.exit_code, ended.ending)
        expect(said == (128 + number, Ending.EXITED), f"`kill -{number} $$` gives: {told(ended)}")


async def _no_program(trial: Trial) -> None:
    """A program that does not exist, or is none, is told: InvalidArgument, or exit code 127 or 126 and a message."""
    await trial.workspace.write("work/no-program", b"#!/bin/sh\n", executable=False)
    root = trial.workspace.root
    for program in ("openskills-no-such-program", "/no/such/program", f"{root}/work/no-program", f"{root}/work"):
        try:
            ended = await trial.run(Command((program, "x")))
        except InvalidArgument:
            continue
        expect(ended.exit_code in _CANNOT_RUN, f"{program!r} gives: {told(ended)}")
        expect(bool(ended.stderr.total), f"{program!r} ends with {ended.exit_code}, and nothing says why")


async def _no_directory(trial: Trial) -> None:
    """A directory that does not exist is InvalidArgument, one outside is ForbiddenPath, and nothing is run."""
    await trial.workspace.write("work/file", b"")
    command = shell("echo ran > $WORK_DIR/ran")
    for cwd, kind in (
        ("work/none", InvalidArgument),
        ("work/file", InvalidArgument),
        ("..", ForbiddenPath),
        ("/tmp", ForbiddenPath),  # noqa: S108 - one that is refused
        ("work/../../..", ForbiddenPath),
    ):
        refused = trial.workspace.start(Command(command, cwd=cwd))
        await expect_refusal(refused, f"a command starts in {cwd!r}", kind)
    refused = trial.workspace.start(Command(command, run_dir="../run"))
    await expect_refusal(refused, "a command has a RUN_DIR outside", ForbiddenPath)
    ran = (await trial.workspace.list(["work/ran"])).files
    expect(not ran, "a command was refused and ran")


async def _deadline(trial: Trial) -> None:
    """A deadline ends a command with all its processes: deaf to SIGTERM, stopped, or double-forked into sessions."""
    families = ("", "deaf", "stopped", "deaf stopped", "children", "deaf children", "deaf stopped children")
    await asyncio.gather(*(_timed_out(trial, traits, f"work/{n}.lock") for n, traits in enumerate(families)))


async def _timed_out(trial: Trial, traits: str, lock: str) -> None:
    ended = await _ended_when_ready(trial, traits, lock)
    said = f"a command that is {traits or 'ordinary'} gives: {told(ended)}"
    expect(ended.ending is Ending.TIMED_OUT and ended.exit_code != 0, said)
    expect(bool(ended.detail), f"{said}; it does not say what happened")
    expect(not await trial.is_held(lock), f"processes of a command that is {traits or 'ordinary'} are still there")


async def _ended_when_ready(trial: Trial, traits: str, lock: str) -> Ended:
    """How it ended; it gets more time when the machine is so busy that it has not come to life before."""
    timeout = 1.0
    while True:
        limits = Limits(timeout=timeout, grace=_GRACE)
        ended = await trial.run(Command(python(FAMILY, traits, lock), limits=limits))
        if b"ready" in ended.stdout.bytes() or timeout > _PATIENT:
            return ended
        timeout *= 2


async def _tidy(trial: Trial) -> None:
    """Before a command is ended it hears SIGTERM, and has a grace to tidy up."""
    command = "trap 'echo tidied; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    process = await trial.workspace.start(Command(shell(command), readable=True, limits=Limits(grace=20.0)))
    await read_until(process, b"ready")
    await process.kill()
    ended = await process.wait()
    expect("tidied" in ended.stdout.text() and ended.exit_code == 3, f"it could not: {told(ended)}")
    expect(ended.ending is Ending.KILLED, f"its ending is {ended.ending}")


async def _pipes(trial: Trial) -> None:
    """A descendant that holds the pipes does not delay the result, and ends with the command."""
    ended = await trial.run(Command(python(FAMILY, "deaf children gone", "work/lock")))
    said = (ended.exit_code, ended.ending)
    expect(said == (0, Ending.EXITED), f"the command ended with 0; the result is: {told(ended)}")
    expect("ready" in ended.stdout.text(), "what it wrote is missing")
    expect(not await trial.is_held("work/lock"), "the descendant is still there")


async def _killed(trial: Trial) -> None:
    """kill() ends a command with all its processes; it may be called twice, at once, and after the end."""
    for traits in ("", "deaf children", "deaf stopped children"):
        command = Command(python(FAMILY, traits, "work/lock"), readable=True, limits=Limits(grace=_GRACE))
        process = await trial.workspace.start(command)
        await read_until(process, b"ready")
        await asyncio.gather(process.kill(), process.kill())
        ended = await process.wait()
        expect(ended.ending is Ending.KILLED, f"a command that is {traits or 'ordinary'} gives: {told(ended)}")
        await process.kill()
        expect(await process.wait() == ended, "a kill after the end changes how it ended")
        expect(not await trial.is_held("work/lock"), f"processes of one that is {traits or 'ordinary'} are still there")
    process = await trial.workspace.start(Command(shell("exit 3")))
    first = await process.wait()
    await process.kill()
    expect(await process.wait() == first, "a kill changes how a command ended that had ended by itself")


async def _cancelled(trial: Trial) -> None:
    """A cancelled wait leaves the command running; whoever waits gets the same answer."""
    process = await trial.workspace.start(Command(("cat",), input_open=True))
    waiting = [asyncio.ensure_future(process.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    await process.write(b"still there")
    await process.close_input()
    first, second = await asyncio.gather(*waiting[1:])
    expect(first == second == await process.wait(), "two who wait get two answers")
    said = (first.exit_code, first.stdout.bytes())
    expect(said == (0, b"still there"), f"after a wait was cancelled: {told(first)}")


async def _duration(trial: Trial) -> None:
    """The duration is that of the command."""
    ended = await trial.run(Command(python("import time; time.sleep(0.4)")))
    expect(ended.duration_ms >= 390, f"a command of 400 ms took {ended.duration_ms} ms")


ENDINGS: tuple[Promise, ...] = (
    _codes,
    _signals,
    _no_program,
    _no_directory,
    _deadline,
    _tidy,
    _pipes,
    _killed,
    _cancelled,
    _duration,
)
