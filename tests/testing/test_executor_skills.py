"""Each promise about staged skills can be broken, and then it is said which."""

import os
import shutil
from pathlib import Path

import pytest

from openskills.executors.protocol import Executor
from openskills.executors.spec import Snapshot
from openskills.testing.executor_skills import HOME, SKILLS
from tests.testing.around import (
    AroundExecutor,
    AroundWorkspace,
    Broken,
    Part,
    expect_broken,
    in_directory,
    promise_of,
    without_example,
)


class Writable(AroundWorkspace):
    """Lets everybody write to skills."""

    async def stage(self, snapshot: Snapshot) -> None:
        await super().stage(snapshot)
        Path(self.root, HOME, "SKILL.md").chmod(0o666)


class Shared(AroundExecutor):
    """Gives commands the author's own files."""

    def __init__(self, inner: Executor) -> None:
        super().__init__(inner)
        self.folder = Path()

    async def snapshot(self, name: str, directory: Path) -> Snapshot:
        self.folder = directory
        return await super().snapshot(name, directory)

    class workspace(AroundWorkspace):  # noqa: N801 - it takes the place of an attribute
        async def stage(self, snapshot: Snapshot) -> None:
            assert isinstance(self.executor, Shared)
            await super().stage(snapshot)
            staged = Path(self.root, HOME)
            staged.chmod(0o700)
            (staged / "SKILL.md").unlink()
            os.link(self.executor.folder / "SKILL.md", staged / "SKILL.md")


class Forgetful(AroundWorkspace):
    """Forgets what was installed."""

    async def stage(self, snapshot: Snapshot) -> None:
        shutil.rmtree(Path(self.root, HOME, ".venv"), ignore_errors=True)
        await super().stage(snapshot)


class Apart(AroundWorkspace):
    """Gives a skill an `out` of its own."""

    async def stage(self, snapshot: Snapshot) -> None:
        await super().stage(snapshot)
        home = Path(self.root, HOME)
        home.chmod(0o700)
        (home / "out").unlink()
        (home / "out").mkdir()


class Eager(AroundWorkspace):
    """Copies a skill whenever it is asked for."""

    async def stage(self, snapshot: Snapshot) -> None:
        await super().stage(snapshot)
        home = Path(self.root, HOME)
        home.chmod(0o700)
        shutil.copy2(home / "SKILL.md", home / "SKILL.new")
        os.replace(home / "SKILL.new", home / "SKILL.md")


BROKEN: list[Broken] = [
    (Writable, "Commands find a skill as it was taken", "nothing may be writable by its permissions, .*SKILL.md"),
    (Shared, "Whatever a command does to its skill", "the folder that the skill was taken from was changed"),
    (Forgetful, "`.venv` is the one place", "a command of the check failed: .*kept|there is 'newer"),
    (Apart, "`out`, `work` and `inputs` under a skill", "'out/made' does not exist"),
    (Eager, "Staging what is staged already does nothing", "they are other files"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_skills_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(SKILLS, beginning), said, in_directory(tmp_path))


def test_every_promise_about_skills_is_shown_to_be_breakable() -> None:
    assert not without_example(SKILLS, BROKEN)
