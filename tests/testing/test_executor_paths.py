"""Each promise about paths can be broken, and then it is said which."""

import pytest

from openskills.artifacts.store import Content
from openskills.executors.spec import FileInfo
from openskills.testing.executor_paths import PATHS
from tests.testing.around import AroundWorkspace, Broken, Part, expect_broken, in_memory, promise_of, without_example


class Redirecting(AroundWorkspace):
    """Puts what would leave somewhere else, silently."""

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        inside = "/".join(part for part in path.split("/") if part != "..")
        return await super().write(f"work/{inside.lstrip('/')}", data, executable=executable)


class Repairing(AroundWorkspace):
    """Makes a name out of everything."""

    async def make_directory(self, path: str) -> None:
        await super().make_directory(path.replace("\0", "") or "work/unnamed")


class Obedient(AroundWorkspace):
    """Says that it removed what cannot be removed."""

    async def remove(self, path: str) -> bool:
        return path in ("skills", "work", "runs", "out") or await super().remove(path)


BROKEN: list[Broken] = [
    (
        Redirecting,
        "A path that is absolute or climbs out",
        r"write\(\) takes '/etc/passwd'; ForbiddenPath was expected",
    ),
    (Repairing, "What is no path at all", r"make_directory\(\) takes ''; InvalidArgument was expected"),
    (Obedient, "Nothing is put among the skills", "skills is removed; ForbiddenPath was expected"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_paths_is_told_which(part: Part, beginning: str, said: str) -> None:
    expect_broken(part, promise_of(PATHS, beginning), said, in_memory)


def test_every_promise_about_paths_is_shown_to_be_breakable() -> None:
    assert not without_example(PATHS, BROKEN)
