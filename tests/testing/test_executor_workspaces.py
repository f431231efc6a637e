"""Each promise about workspaces can be broken, and then it is said which."""

from uuid import uuid4

import pytest

from openskills.executors.protocol import Executor, Workspace
from openskills.executors.spec import Isolation, Usage
from openskills.sync import run
from openskills.testing.executor import check_promises
from openskills.testing.executor_workspaces import WORKSPACES
from tests.testing.around import (
    AroundExecutor,
    AroundWorkspace,
    Broken,
    Part,
    expect_broken,
    in_memory,
    promise_of,
    without_example,
)


class AlwaysNew(AroundExecutor):
    """Forgets whose workspace it was."""

    async def open(self, key: str) -> Workspace:
        return await super().open(f"{key}-{uuid4()}")


class Tidying(AroundExecutor):
    """Makes keys that it likes better."""

    async def open(self, key: str) -> Workspace:
        return await super().open(key.partition("/")[0])


class Discarding(AroundWorkspace):
    """Takes closing for removing."""

    async def close(self) -> None:
        await self.executor.inner.remove(self.key)


class Undying(AroundExecutor):
    """Says that it removed a workspace, and has not."""

    removed: set[str] = set()  # noqa: RUF012 - one for all, as in a store

    async def remove(self, key: str) -> bool:
        first = not key.endswith("-never") and key not in self.removed
        self.removed.add(key)
        return first


class Uncounted(AroundWorkspace):
    """Has counted once."""

    async def usage(self) -> Usage:
        return Usage(4096, 1)


class Boasting(AroundWorkspace):
    """Says that it is more than it is."""

    @property
    def isolation(self) -> Isolation:
        return Isolation.CONTAINER


class ClosedOnce(AroundExecutor):
    """Cannot be closed twice."""

    closed = False

    async def close(self) -> None:
        assert not self.closed, "it was closed already"
        self.closed = True
        await super().close()


BROKEN: list[Broken] = [
    (AlwaysNew, "One key has one workspace", "one key has the workspaces"),
    (Tidying, "Two keys have two workspaces", "/x' has the workspace of"),
    (Discarding, "The files of a workspace stay when it is closed", "'work/kept' does not exist"),
    (Undying, "remove() forgets a workspace", "the files are back when the key is used again"),
    (Uncounted, "usage() counts what is put there", "it has grown by 0 bytes"),
    (Boasting, "An executor and its workspaces say what they are", "check.. says .*none.*, the workspace .*container"),
    (ClosedOnce, "An executor may be closed twice", "it was closed already"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_workspaces_is_told_which(
    part: Part, beginning: str, said: str
) -> None:
    expect_broken(part, promise_of(WORKSPACES, beginning), said, in_memory)


def test_an_error_of_the_executor_itself_says_what_was_being_checked() -> None:
    promise = promise_of(WORKSPACES, "The files of a workspace stay when it is closed")

    def make() -> Executor:
        return type("_", (AroundExecutor,), {"workspace": Discarding})(in_memory())

    with pytest.raises(Exception, match="work/kept") as raised:
        run(check_promises(make, [promise], patience=60.0))
    (note,) = raised.value.__notes__
    assert note.startswith("while checking the promise: The files of a workspace stay when it is closed")


def test_every_promise_about_workspaces_is_shown_to_be_breakable() -> None:
    assert not without_example(WORKSPACES, BROKEN)
