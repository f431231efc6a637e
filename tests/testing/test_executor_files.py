"""Each promise about files can be broken, and then it is said which.

Each promise about what commands leave can be broken, and then it is said which.

Each promise about paths can be broken, and then it is said which.

Each promise about staged skills can be broken, and then it is said which.

Each promise about staging can be broken, and then it is said which.

Each promise about workspaces can be broken, and then it is said which.
"""

import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from openskills.artifacts.store import Content
from openskills.errors import InvalidArgument
from openskills.executors.protocol import Executor, Workspace, WorkspaceFileReader
from openskills.executors.spec import FileInfo, Isolation, SkillSnapshot, WorkspaceListing, WorkspaceUsage
from openskills.testing.executor import check_promises
from openskills.testing.executor_files import FILES, LINK_CHECKS, PATHS, WORKSPACES
from openskills.testing.executor_skills import HOME, SKILLS, STAGING
from tests.testing.around import (
    AroundExecutor,
    AroundWorkspace,
    Broken,
    Part,
    expect_broken,
    in_directory,
    in_memory,
    promise_of,
    without_example,
)


class TextOnly(AroundWorkspace):
    """Thinks that everything is text, as the systems do in which a PNG arrives empty."""

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        text = data.decode("utf-8", "replace").encode() if isinstance(data, bytes) else data
        return await super().write(path, text, executable=executable)


class AllAtOnce(AroundWorkspace):
    """Reads a file whole before it gives anything."""

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[WorkspaceFileReader]:
        async with super().open(path) as reading:
            yield WorkspaceFileReader(reading.info, one(b"".join([chunk async for chunk in reading.chunks])))


async def one(data: bytes) -> AsyncIterator[bytes]:
    yield data


class Cleaning(AroundWorkspace):
    """Makes names that it likes better."""

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        return await super().write(path.replace(" ", "_"), data, executable=executable)


class PieceByPiece(AroundWorkspace):
    """Lets everybody see a file that is on its way."""

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        if isinstance(data, bytes):
            return await super().write(path, data, executable=executable)
        seen = b""
        async for chunk in data:
            seen += chunk
            await super().write(path, seen, executable=executable)
        return await super().write(path, seen, executable=executable)


class SizeOnly(AroundWorkspace):
    """Takes the size for all there is to know."""

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        info = await super().write(path, data, executable=executable)
        return replace(info, stamp=(0, 0, info.size))


class Silent(AroundWorkspace):
    """Does not say that a directory could not be made."""

    async def make_directory(self, path: str) -> None:
        with suppress(InvalidArgument):
            await super().make_directory(path)


class AlwaysThere(AroundWorkspace):
    """Says that it removed what was not there."""

    async def remove(self, path: str) -> bool:
        await super().remove(path)
        return True


class Copying(AroundWorkspace):
    """Copies instead of linking."""

    async def link(self, path: str, target: str) -> None:
        with suppress(InvalidArgument):
            async with super().open(target) as reading:
                await super().write(path, reading.chunks)
                return
        await super().link(path, target)


class EmptyWhereMissing(AroundWorkspace):
    """Reads nothing where nothing is."""

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[WorkspaceFileReader]:
        try:
            async with super().open(path) as reading:
                yield reading
        except InvalidArgument:
            yield WorkspaceFileReader(FileInfo(path, 0, (0, 0, 0)), one(b""))


class Unsorted(AroundWorkspace):
    """Lists in whatever order."""

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
        listing = await super().list(globs, since=since, limit=limit)
        return replace(listing, files=tuple(reversed(listing.files)))


class Everything(AroundWorkspace):
    """Does not care about marks."""

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:  # noqa: ARG002
        return await super().list(globs, limit=limit)


BROKEN: list[Broken] = [
    (TextOnly, "Files are bytes", "256 bytes were put, and it says"),
    (AllAtOnce, "A large file is written and read completely,", "they came back in one piece"),
    (Cleaning, "A file may have any name", "not the same as was put: .*two words"),
    (PieceByPiece, "A file is written atomically: if its", "half of the new content is there"),
    (SizeOnly, "Writing a file again replaces it: an open file", "the stamp of another content is the same"),
    (
        Silent,
        "A directory is created with its parents,",
        "a directory is made below a file; InvalidArgument was expected",
    ),
    (AlwaysThere, "remove() deletes a file,", "it says .True, True, True, True."),
    (Copying, "A link points to another path", "links are listed as files"),
    (EmptyWhereMissing, "A missing path", "'work/none' can be opened"),
    (Unsorted, "list() returns every matching file", "gives .'out/b.txt', 'out/a.txt'"),
    (Everything, "Files changed after a mark are", "only out/after-0 was put after the mark; listed are"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_files_is_told_which(
    part: type[AroundWorkspace], beginning: str, said: str
) -> None:
    expect_broken(part, promise_of(FILES, beginning), said, in_memory)


def test_every_promise_about_files_is_shown_to_be_breakable() -> None:
    assert not without_example(FILES, BROKEN)


class ExecutorLinksTextOnly(AroundWorkspace):
    """Thinks that everything is text."""

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[WorkspaceFileReader]:
        async with super().open(path) as reading:
            data = b"".join([chunk async for chunk in reading.chunks])
            yield WorkspaceFileReader(reading.info, one(data.decode("utf-8", "replace").encode()))


class Plain(AroundWorkspace):
    """Knows no programs."""

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:  # noqa: ARG002
        return await super().write(path, data)


class Following(AroundWorkspace):
    """Opens a path as everybody does."""

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[WorkspaceFileReader]:
        data = Path(self.root, path).read_bytes()
        yield WorkspaceFileReader(FileInfo(path, len(data), (0, 0, 0)), one(data))


class Walking(AroundWorkspace):
    """Lists what is there, wherever it leads."""

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
        listing = await super().list(globs, since=since, limit=limit)
        followed = [path for path in Path(self.root, "work").glob("*/*") if path.is_file()]
        found = (FileInfo(str(path.relative_to(self.root)), 0, (0, 0, 0)) for path in followed)
        return replace(listing, files=(*listing.files, *found))


class WritingThrough(AroundWorkspace):
    """Writes to a path as everybody does."""

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        if not isinstance(data, bytes):
            return await super().write(path, data, executable=executable)
        Path(self.root, path).write_bytes(data)
        return FileInfo(path, len(data), (0, 0, 0))


class Plumbing(AroundWorkspace):
    """Reads nothing from a FIFO."""

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[WorkspaceFileReader]:
        if Path(self.root, path).is_fifo():
            yield WorkspaceFileReader(FileInfo(path, 0, (0, 0, 0)), one(b""))
        else:
            async with super().open(path) as reading:
                yield reading


class LockedOut(AroundWorkspace):
    """Takes no for an answer."""

    async def remove(self, path: str) -> bool:
        place = Path(self.root, path)
        return (not place.is_dir() or bool(place.stat().st_mode & 0o700)) and await super().remove(path)


EXECUTOR_LINKS_BROKEN: list[Broken] = [
    (ExecutorLinksTextOnly, "The host reads what a command writes:", "the host reads something else in"),
    (Plain, "A command can read, change and run", "command: cannot be started: Permission denied"),
    (Following, "The host follows no link of", r"open\(\) follows a link out; ForbiddenPath was expected"),
    (Walking, "Links are not listed", "listed are .*'work/directory/secret'"),
    (WritingThrough, "Writing a file over a link replaces", "a file outside of the workspace was changed"),
    (Plumbing, "A FIFO does not block", "a FIFO can be opened"),
    (LockedOut, "Files that a command made inaccessible", "a directory without permissions cannot be removed"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), EXECUTOR_LINKS_BROKEN)
def test_an_executor_that_breaks_a_promise_about_links_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(LINK_CHECKS, beginning), said, in_directory(tmp_path))


def test_every_promise_about_links_is_shown_to_be_breakable() -> None:
    assert not without_example(LINK_CHECKS, EXECUTOR_LINKS_BROKEN)


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


EXECUTOR_PATHS_BROKEN: list[Broken] = [
    (
        Redirecting,
        "A path that is absolute or leaves the",
        r"write\(\) takes '/etc/passwd'; ForbiddenPath was expected",
    ),
    (Repairing, "An invalid path", r"make_directory\(\) takes ''; InvalidArgument was expected"),
    (Obedient, "Nothing can be written into `skills`,", "skills is removed; ForbiddenPath was expected"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), EXECUTOR_PATHS_BROKEN)
def test_an_executor_that_breaks_a_promise_about_paths_is_told_which(part: Part, beginning: str, said: str) -> None:
    expect_broken(part, promise_of(PATHS, beginning), said, in_memory)


def test_every_promise_about_paths_is_shown_to_be_breakable() -> None:
    assert not without_example(PATHS, EXECUTOR_PATHS_BROKEN)


class Damaging(AroundWorkspace):
    """Loses a file of the skill."""

    async def stage(self, snapshot: SkillSnapshot) -> int:
        mark = await super().stage(snapshot)
        Path(self.root, HOME, "assets/picture.png").write_bytes(b"")
        return mark


class Partial(AroundWorkspace):
    """Stages no directories, which cannot be copied then."""

    async def stage(self, snapshot: SkillSnapshot) -> int:
        mark = await super().stage(snapshot)
        shutil.rmtree(Path(self.root, HOME, "assets"))
        return mark


class Fresh(AroundWorkspace):
    """Removes what commands added to a skill."""

    async def stage(self, snapshot: SkillSnapshot) -> int:
        shutil.rmtree(Path(self.root, HOME, "unpacked"), ignore_errors=True)
        return await super().stage(snapshot)


class Shared(AroundExecutor):
    """Gives commands the author's own files."""

    def __init__(self, inner: Executor) -> None:
        super().__init__(inner)
        self.folder = Path()

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        self.folder = directory
        return await super().snapshot(name, directory)

    class workspace(AroundWorkspace):  # noqa: N801 - it takes the place of an attribute
        async def stage(self, snapshot: SkillSnapshot) -> int:
            assert isinstance(self.executor, Shared)
            mark = await super().stage(snapshot)
            staged = Path(self.root, HOME)
            (staged / "SKILL.md").unlink()
            os.link(self.executor.folder / "SKILL.md", staged / "SKILL.md")
            return mark


class Forgetful(AroundWorkspace):
    """Forgets what was installed."""

    async def stage(self, snapshot: SkillSnapshot) -> int:
        shutil.rmtree(Path(self.root, HOME, ".venv"), ignore_errors=True)
        return await super().stage(snapshot)


class Apart(AroundWorkspace):
    """Gives a skill an `out` of its own."""

    async def stage(self, snapshot: SkillSnapshot) -> int:
        mark = await super().stage(snapshot)
        home = Path(self.root, HOME)
        (home / "out").unlink()
        (home / "out").mkdir()
        return mark


class Eager(AroundWorkspace):
    """Copies a skill whenever it is asked for."""

    async def stage(self, snapshot: SkillSnapshot) -> int:
        mark = await super().stage(snapshot)
        home = Path(self.root, HOME)
        shutil.copy2(home / "SKILL.md", home / "SKILL.new")
        os.replace(home / "SKILL.new", home / "SKILL.md")
        return mark


EXECUTOR_SKILLS_BROKEN: list[Broken] = [
    (Damaging, "Commands find a skill as it was taken", "a picture of the skill reads as other bytes"),
    (Partial, "Copies of a skill's files", "a command of the check failed"),
    (Fresh, "Commands can add files to their skill's folder", "a command of the check failed"),
    (Shared, "Whatever a command does to its skill", "the folder that the skill was taken from was changed"),
    (Forgetful, "`.venv` is kept", "a command of the check failed: .*kept|there is 'newer"),
    (Apart, "`out`, `work` and `inputs` under a skill", "'out/made' does not exist"),
    (Eager, "Staging what is staged already does nothing", "they are other files"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), EXECUTOR_SKILLS_BROKEN)
def test_an_executor_that_breaks_a_promise_about_skills_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(SKILLS, beginning), said, in_directory(tmp_path))


def test_every_promise_about_skills_is_shown_to_be_breakable() -> None:
    assert not without_example(SKILLS, EXECUTOR_SKILLS_BROKEN)


class AlwaysNew(AroundExecutor):
    """Names snapshots by chance."""

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        return replace(await super().snapshot(name, directory), digest=uuid4().hex)


class NeverAgain(AroundExecutor):
    """Looks at a folder once."""

    def __init__(self, inner: Executor) -> None:
        super().__init__(inner)
        self._taken: dict[Path, SkillSnapshot] = {}

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        if directory not in self._taken:
            self._taken[directory] = await super().snapshot(name, directory)
        return self._taken[directory]


class Lazy(AroundExecutor):
    """Reads a folder when it is staged, and not when it is taken."""

    folder: Path

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        self.folder = directory
        return await super().snapshot(name, directory)

    class workspace(AroundWorkspace):  # noqa: N801 - it takes the place of an attribute
        async def stage(self, snapshot: SkillSnapshot) -> int:
            assert isinstance(self.executor, Lazy)
            return await super().stage(await self.executor.inner.snapshot(snapshot.name, self.executor.folder))


class FirstOnly(AroundWorkspace):
    """Stages a skill once."""

    staged = False

    async def stage(self, snapshot: SkillSnapshot) -> int:
        is_first, self.staged = not self.staged, True
        return await super().stage(snapshot) if is_first else 0


class ExecutorStagingSilent(AroundExecutor):
    """Leaves things out, and does not say so."""

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        return replace(await super().snapshot(name, directory), warnings=())


class Careless(AroundWorkspace):
    """Does not mind when there is nothing to stage."""

    async def stage(self, snapshot: SkillSnapshot) -> int:
        with suppress(InvalidArgument):
            return await super().stage(snapshot)
        return 0


class OnePlace(AroundWorkspace):
    """Has room for one skill."""

    async def stage(self, snapshot: SkillSnapshot) -> int:
        return await super().stage(replace(snapshot, name="one"))


EXECUTOR_STAGING_BROKEN: list[Broken] = [
    (AlwaysNew, "A digest names what is in a skill", "nothing has changed, and SkillSnapshot"),
    (NeverAgain, "The digest changes with every change", "change number 1 gives a digest that was there before"),
    (Lazy, "A staged skill is", "there are .*SKILL.md"),
    (FirstOnly, "A newer snapshot takes the place", "the old content is still there"),
    (ExecutorStagingSilent, "Links that leave the skill", "leaves is not named in"),
    (Careless, "An invalid directory name", "a snapshot with the digest '0000.* can be staged"),
    (OnePlace, "Several skills are in a workspace side by side", "one is another one"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), EXECUTOR_STAGING_BROKEN)
def test_an_executor_that_breaks_a_promise_about_staging_is_told_which(part: Part, beginning: str, said: str) -> None:
    expect_broken(part, promise_of(STAGING, beginning), said, in_memory)


def test_every_promise_about_staging_is_shown_to_be_breakable() -> None:
    assert not without_example(STAGING, EXECUTOR_STAGING_BROKEN)


class ExecutorWorkspacesAlwaysNew(AroundExecutor):
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

    async def usage(self) -> WorkspaceUsage:
        return WorkspaceUsage(4096, 1)


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


EXECUTOR_WORKSPACES_BROKEN: list[Broken] = [
    (ExecutorWorkspacesAlwaysNew, "One key has one workspace", "one key has the workspaces"),
    (Tidying, "Two keys have two workspaces", "/x' has the workspace of"),
    (Discarding, "The files of a workspace stay when it is closed", "'work/kept' does not exist"),
    (Undying, "remove() deletes a workspace", "the files are back when the key is used again"),
    (Uncounted, "usage() counts bytes and files, without", "it has grown by 0 bytes"),
    (Boasting, "An executor and its workspaces have a name, an", "check.. says .*none.*, the workspace .*container"),
    (ClosedOnce, "An executor may be closed twice", "it was closed already"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), EXECUTOR_WORKSPACES_BROKEN)
def test_an_executor_that_breaks_a_promise_about_workspaces_is_told_which(
    part: Part, beginning: str, said: str
) -> None:
    expect_broken(part, promise_of(WORKSPACES, beginning), said, in_memory)


async def test_an_error_of_the_executor_itself_says_what_was_being_checked() -> None:
    promise = promise_of(WORKSPACES, "The files of a workspace stay when it is closed")

    def make() -> Executor:
        return type("_", (AroundExecutor,), {"workspace": Discarding})(in_memory())

    with pytest.raises(Exception, match="work/kept") as raised:
        await check_promises(make, [promise], timeout=60.0)
    (note,) = raised.value.__notes__
    assert note.startswith("while checking the promise: The files of a workspace stay when it is closed")


def test_every_promise_about_workspaces_is_shown_to_be_breakable() -> None:
    assert not without_example(WORKSPACES, EXECUTOR_WORKSPACES_BROKEN)
