"""Each promise about staging can be broken, and then it is said which."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.protocol import Executor
from openskills.executors.spec import Snapshot
from openskills.testing.executor_staging import STAGING
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
    """Names snapshots by chance."""

    async def snapshot(self, name: str, directory: Path) -> Snapshot:
        return replace(await super().snapshot(name, directory), digest=uuid4().hex)


class NeverAgain(AroundExecutor):
    """Looks at a folder once."""

    def __init__(self, inner: Executor) -> None:
        super().__init__(inner)
        self._taken: dict[Path, Snapshot] = {}

    async def snapshot(self, name: str, directory: Path) -> Snapshot:
        if directory not in self._taken:
            self._taken[directory] = await super().snapshot(name, directory)
        return self._taken[directory]


class Lazy(AroundExecutor):
    """Reads a folder when it is staged, and not when it is taken."""

    folder: Path

    async def snapshot(self, name: str, directory: Path) -> Snapshot:
        self.folder = directory
        return await super().snapshot(name, directory)

    class workspace(AroundWorkspace):  # noqa: N801 - it takes the place of an attribute
        async def stage(self, snapshot: Snapshot) -> None:
            assert isinstance(self.executor, Lazy)
            await super().stage(await self.executor.inner.snapshot(snapshot.name, self.executor.folder))


class FirstOnly(AroundWorkspace):
    """Stages a skill once."""

    staged = False

    async def stage(self, snapshot: Snapshot) -> None:
        if not self.staged:
            await super().stage(snapshot)
        self.staged = True


class Silent(AroundExecutor):
    """Leaves things out, and does not say so."""

    async def snapshot(self, name: str, directory: Path) -> Snapshot:
        return replace(await super().snapshot(name, directory), warnings=())


class Careless(AroundWorkspace):
    """Does not mind when there is nothing to stage."""

    async def stage(self, snapshot: Snapshot) -> None:
        with suppress(InvalidArgument):
            await super().stage(snapshot)


class OnePlace(AroundWorkspace):
    """Has room for one skill."""

    async def stage(self, snapshot: Snapshot) -> None:
        await super().stage(replace(snapshot, name="one"))


BROKEN: list[Broken] = [
    (AlwaysNew, "A digest names what is in a skill", "nothing has changed, and Snapshot"),
    (NeverAgain, "The digest changes with every change", "change number 1 gives a digest that was there before"),
    (Lazy, "A staged skill is", "there are .*SKILL.md"),
    (FirstOnly, "A newer snapshot takes the place", "the old content is still there"),
    (Silent, "Links that leave the skill", "leaves is not named in"),
    (Careless, "A name that is no name of a directory", "a snapshot with the digest '0000.* can be staged"),
    (OnePlace, "Several skills are in a workspace side by side", "one is another one"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_staging_is_told_which(part: Part, beginning: str, said: str) -> None:
    expect_broken(part, promise_of(STAGING, beginning), said, in_memory)


def test_every_promise_about_staging_is_shown_to_be_breakable() -> None:
    assert not without_example(STAGING, BROKEN)
