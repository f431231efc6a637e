"""Each promise about several commands can be broken, and then it is said which."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.executors.protocol import Process
from openskills.executors.spec import Command, Ended, Ending
from openskills.testing.executor_processes import PROCESSES
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

    def ended(self, ended: Ended) -> Ended:
        return replace(ended, ending=Ending.EXITED)


BROKEN: list[Broken] = [
    (OneRoom, "Twenty commands run at once", "20 commands put a file each, and there are 1"),
    (OneAtATime, "Commands of one workspace share its files", "has ended, and reads no more input"),
    (Nameless, "Every command has an id of its own", "two commands have the same id"),
    (Determined, "A start that is cancelled", "there are processes of a command that nobody has"),
    (Late, "What is being started while its workspace is closed", "it was not kept within 3 seconds"),
    (LeftOpen, "Closing a workspace ends what runs in it", "it was not kept within 3 seconds"),
    (Keeping, "Removing a workspace ends what runs in it", "its files are still there"),
    (Smooth, "Closing an executor ends everything", "it ended by itself"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_several_commands_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    patience = 3.0 if "within 3 seconds" in said else 60.0
    expect_broken(part, promise_of(PROCESSES, beginning), said, in_directory(tmp_path), patience=patience)


def test_every_promise_about_several_commands_is_shown_to_be_breakable() -> None:
    assert not without_example(PROCESSES, BROKEN)
