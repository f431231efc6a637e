"""Each promise about what a command finds can be broken, and then it is said which.

Each promise about limits can be broken, and then it is said which.

Each promise about several commands can be broken, and then it is said which.

Each promise about streams can be broken, and then it is said which.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.executors.protocol import Executor, Process
from openskills.executors.spec import CapturedOutput, Command, CommandResult, EndReason, Isolation, Limits
from openskills.testing.executor import check_promises
from openskills.testing.executor_commands import ENVIRONMENT, LIMITS, PROCESSES, STREAMS
from tests.testing.around import (
    AroundExecutor,
    AroundProcess,
    AroundWorkspace,
    Broken,
    Part,
    expect_broken,
    in_directory,
    promise_of,
    without_example,
)


class Leaking(AroundWorkspace):
    """Gives a command what is its own."""

    def changed(self, command: Command) -> Command:
        return replace(command, env={**command.env, "HOST_TOKEN": "x"})


class Elsewhere(AroundWorkspace):
    """Has one directory for all runs."""

    def changed(self, command: Command) -> Command:
        return replace(command, run_dir="runs/all")


class AtHome(AroundWorkspace):
    """Starts everything in the workspace itself."""

    def changed(self, command: Command) -> Command:
        return replace(command, cwd=".")


class Secretive(AroundWorkspace):
    """Keeps secrets to itself."""

    def changed(self, command: Command) -> Command:
        return replace(command, secrets={})


class Overruled(AroundWorkspace):
    """Lets the caller say where everything is."""

    def changed(self, command: Command) -> Command:
        given = (f"{name}={value}" for name, value in command.env.items() if name != "PATH")
        return replace(command, argv=("env", *given, *command.argv))


class Debian(AroundWorkspace):
    """Has the interpreter under one name only."""

    def changed(self, command: Command) -> Command:
        return replace(command, argv=("sh", "-c", "exit 127")) if command.argv[0] == "python" else command


class Stripping(AroundWorkspace):
    """Drops arguments that are empty."""

    def changed(self, command: Command) -> Command:
        return replace(command, argv=tuple(argument for argument in command.argv if argument))


BROKEN: list[Broken] = [
    (Leaking, "A command sees the documented variables only, and none", "it sees HOST_TOKEN"),
    (
        Elsewhere,
        "The documented variables name the directories of",
        "RUN_DIR is '.*/runs/all' and not '.*/runs/check-None'",
    ),
    (AtHome, "A command starts in its directory,", "the directory 'work/sub dir' begins in another one"),
    (Secretive, "Variables and secrets of the caller", "API_TOKEN is 'None' and not 's3cret"),
    (Overruled, "Variables of the caller never override those of", "the caller's value is that of WORKSPACE_DIR"),
    (Debian, "`python` and `python3` are the same interpreter", "python does not run: .*exit code 127"),
    (Stripping, "Arguments arrive unchanged, without a", "other arguments arrived"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_the_environment_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(ENVIRONMENT, beginning), said, in_directory(tmp_path))


def test_every_promise_about_the_environment_is_shown_to_be_breakable() -> None:
    assert not without_example(ENVIRONMENT, BROKEN)


async def test_a_variable_of_this_process_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSKILL_CHECK_PLANTED", "x")
    promise = promise_of(ENVIRONMENT, "A command sees the documented variables only, and none")
    await check_promises(in_directory(tmp_path), [promise], timeout=60.0)


class Generous(AroundWorkspace):
    """Knows no limit but a short deadline."""

    def changed(self, command: Command) -> Command:
        return replace(command, limits=Limits(timeout=3.0, memory_bytes=None))


class Same(AroundWorkspace):
    """Keeps to the first limits that it hears of."""

    limits: Limits | None = None

    def changed(self, command: Command) -> Command:
        self.limits = self.limits or command.limits
        return replace(command, limits=self.limits)


class Boasting(AroundExecutor):
    """Says that it is a sandbox."""

    isolation = Isolation.BUBBLEWRAP

    def __init__(self, inner: Executor) -> None:
        super().__init__(inner)


EXECUTOR_LIMITS_BROKEN: list[Broken] = [
    (Generous, "A process has at most `open_files`", "with a limit of 40 it opened '1000'"),
    (Generous, "No file becomes larger", "a command wrote 4 MiB with a limit of 1 MiB"),
    (Generous, "A process has at most `memory_bytes`", "300 MiB, with a limit of 128 MiB"),
    (Generous, "A process that has used `cpu_seconds`", "a limit of 1 second: timed_out"),
    (Boasting, "Where commands have a user of their own", "with a limit of 20 it started '100'"),
    (Same, "The limits of one command", "with a limit of 200, after a command with 40, it opened 3"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), EXECUTOR_LIMITS_BROKEN)
def test_an_executor_that_breaks_a_promise_about_limits_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(LIMITS, beginning), said, in_directory(tmp_path))


def test_every_promise_about_limits_is_shown_to_be_breakable() -> None:
    assert not without_example(LIMITS, EXECUTOR_LIMITS_BROKEN)


class OneRoom(AroundWorkspace):
    """Has one directory for all runs."""

    def changed(self, command: Command) -> Command:
        return replace(command, run_dir="runs/all")


class OneAtATime(AroundWorkspace):
    """Ends what runs when something else is to run."""

    before: Process | None = None

    async def start(self, command: Command) -> Process:
        if self.before is not None:
            await self.before.kill()
        self.before = await super().start(command)
        return self.before


class Nameless(AroundProcess):
    """Calls every command the same."""

    @property
    def id(self) -> str:
        return "process"


class Determined(AroundWorkspace):
    """Starts what it was told to start."""

    async def start(self, command: Command) -> Process:
        return await asyncio.shield(asyncio.ensure_future(super().start(command)))


class Late(AroundWorkspace):
    """Opens what was closed to start something in it."""

    async def start(self, command: Command) -> Process:
        await asyncio.sleep(0.05)
        return await (await self.executor.inner.open(self.key)).start(command)


class LeftOpen(AroundWorkspace):
    """Lets everything run when it is closed."""

    async def close(self) -> None:
        pass


class Keeping(AroundExecutor):
    """Closes what it is to remove."""

    async def remove(self, key: str) -> bool:
        await (await self.inner.open(key)).close()
        return True


class Smooth(AroundProcess):
    """Does not say that a command was ended."""

    def ended(self, ended: CommandResult) -> CommandResult:
        return replace(ended, ending=EndReason.EXITED)


EXECUTOR_PROCESSES_BROKEN: list[Broken] = [
    (OneRoom, "Twenty commands run at once", "20 commands put a file each, and there are 1"),
    (OneAtATime, "Commands of one workspace share its files", "has ended and takes no more input"),
    (Nameless, "Every command has its own id.", "two commands have the same id"),
    (Determined, "A start that is cancelled", "processes of an abandoned command are still running"),
    (Late, "A command that is being started while its workspace", "it was not kept within 3 seconds"),
    (LeftOpen, "Closing a workspace ends its commands.", "it was not kept within 3 seconds"),
    (Keeping, "Removing a workspace ends its commands.", "its files are still there"),
    (Smooth, "Closing an executor ends all", "it ended by itself"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), EXECUTOR_PROCESSES_BROKEN)
def test_an_executor_that_breaks_a_promise_about_several_commands_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    timeout = 3.0 if "within 3 seconds" in said else 60.0
    expect_broken(part, promise_of(PROCESSES, beginning), said, in_directory(tmp_path), timeout=timeout)


def test_every_promise_about_several_commands_is_shown_to_be_breakable() -> None:
    assert not without_example(PROCESSES, EXECUTOR_PROCESSES_BROKEN)


class Deaf(AroundProcess):
    """Drops stderr."""

    def ended(self, ended: CommandResult) -> CommandResult:
        return replace(ended, stderr=CapturedOutput())


class StreamNames(AroundWorkspace):
    """Runs shells in which the names of the streams lead nowhere."""

    def changed(self, command: Command) -> Command:
        return replace(command, argv=tuple(word.replace("/dev/std", "/dev/none/std") for word in command.argv))


class TextOnly(AroundProcess):
    """Thinks that everything is text."""

    def ended(self, ended: CommandResult) -> CommandResult:
        return replace(ended, stdout=CapturedOutput(ended.stdout.text().encode()))


class Impatient(AroundWorkspace):
    """Gives a command the first megabyte of its input."""

    def changed(self, command: Command) -> Command:
        return replace(command, stdin=command.stdin[: 1024 * 1024])


class HeadOnly(AroundProcess):
    """Keeps the beginning."""

    def ended(self, ended: CommandResult) -> CommandResult:
        return replace(ended, stdout=CapturedOutput(ended.stdout.head, b"", ended.stdout.cut + len(ended.stdout.tail)))


class Hoarding(AroundWorkspace):
    """Keeps as much as it likes."""

    def changed(self, command: Command) -> Command:
        return replace(command, limits=replace(command.limits, output_bytes=1_000_000))


class Hasty(AroundProcess):
    """Does not wait for the last words."""

    def ended(self, ended: CommandResult) -> CommandResult:
        return replace(ended, stdout=CapturedOutput(ended.stdout.bytes()[:-5]))


EXECUTOR_STREAMS_BROKEN: list[Broken] = [
    (Deaf, "Both streams are captured", "captured are .b'out.nout again.n', b''"),
    (StreamNames, "A command can open its streams by name", "opened by name, they have .b'', b'.*none"),
    (TextOnly, "Input and output are bytes and stay", "256 bytes, .* came back as 512"),
    (Impatient, "Megabytes of input arrive completely;", "3145728 bytes arrived as other ones"),
    (HeadOnly, "If there is too much output, its head and tail are", "their tail is …b''"),
    (Hoarding, "Endless output is bounded and counted, and", "bytes 1000000 were kept"),
    (Hasty, "Output that a command writes", "stdout lacks it"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), EXECUTOR_STREAMS_BROKEN)
def test_an_executor_that_breaks_a_promise_about_streams_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(STREAMS, beginning), said, in_directory(tmp_path))


def test_every_promise_about_streams_is_shown_to_be_breakable() -> None:
    assert not without_example(STREAMS, EXECUTOR_STREAMS_BROKEN)
