"""The shipped check of executors: what it is asked, and what it says."""

import asyncio

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.protocol import Executor, Workspace
from openskills.executors.spec import Isolation
from openskills.testing.checks import ExecutorTrial
from openskills.testing.executor import GROUPS, WITHOUT_COMMANDS, check_executor, check_promises
from openskills.testing.fake_executor import FakeExecutor
from tests.testing.around import AroundExecutor, in_memory


class Counted(AroundExecutor):
    """Knows which keys are open, and whether it was closed."""

    def __init__(self, inner: Executor) -> None:
        super().__init__(inner)
        self.keys: set[str] = set()
        self.closed = False

    async def open(self, key: str) -> Workspace:
        self.keys.add(key)
        return await super().open(key)

    async def remove(self, key: str) -> bool:
        self.keys.discard(key)
        return await super().remove(key)

    async def close(self) -> None:
        self.closed = True
        await super().close()


class Absent(AroundExecutor):
    """Does not work on this machine."""

    async def check(self) -> Isolation:
        raise ExecutorUnavailable("bubblewrap is missing; install it")


async def _never(_: ExecutorTrial) -> None:
    """Something comes."""
    await asyncio.Event().wait()


async def _late(_: ExecutorTrial) -> None:
    """Something is quick."""
    raise TimeoutError("of its own")


async def test_a_good_executor_passes() -> None:
    await check_executor(FakeExecutor, groups=WITHOUT_COMMANDS)


async def test_every_executor_is_closed_and_no_workspace_is_left() -> None:
    made: list[Counted] = []

    def make() -> Executor:
        made.append(Counted(in_memory()))
        return made[-1]

    await check_executor(make, groups=WITHOUT_COMMANDS)
    assert len(made) >= len(WITHOUT_COMMANDS)
    assert all(executor.closed and not executor.keys for executor in made)


async def test_an_executor_that_says_that_it_does_not_work_here_is_believed() -> None:
    with pytest.raises(ExecutorUnavailable, match="bubblewrap is missing"):
        await check_executor(lambda: Absent(in_memory()), groups=["files"])


async def test_a_group_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(InvalidArgument, match=r"groups: unknown group 'file'; use files, paths, .*isolation"):
        await check_executor(FakeExecutor, groups=["file"])


def test_groups_without_commands_are_groups() -> None:
    assert set(WITHOUT_COMMANDS) < set(GROUPS)


async def test_what_never_answers_is_broken_after_a_while() -> None:
    with pytest.raises(AssertionError, match=r"broken promise: Something comes\. it was not kept within 0\.1 seconds"):
        await check_promises(FakeExecutor, [_never], timeout=0.1)


async def test_a_timeout_of_the_executor_itself_is_not_ours() -> None:
    with pytest.raises(TimeoutError, match="of its own"):
        await check_promises(FakeExecutor, [_late], timeout=60.0)
