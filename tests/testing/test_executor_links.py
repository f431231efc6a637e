"""Each promise about what commands leave can be broken, and then it is said which."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.artifacts.store import Content
from openskills.executors.protocol import FileReading
from openskills.executors.spec import FileInfo, Listing
from openskills.testing.executor_links import LINKS
from tests.testing.around import (
    AroundWorkspace,
    Broken,
    Part,
    expect_broken,
    in_directory,
    promise_of,
    without_example,
)


async def one(data: bytes) -> AsyncIterator[bytes]:
    yield data


class TextOnly(AroundWorkspace):
    """Thinks that everything is text."""

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[FileReading]:
        async with super().open(path) as reading:
            data = b"".join([chunk async for chunk in reading.chunks])
            yield FileReading(reading.info, one(data.decode("utf-8", "replace").encode()))


class Plain(AroundWorkspace):
    """Knows no programs."""

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:  # noqa: ARG002
        return await super().write(path, data)


class Following(AroundWorkspace):
    """Opens a path as everybody does."""

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[FileReading]:
        data = Path(self.root, path).read_bytes()
        yield FileReading(FileInfo(path, len(data), (0, 0, 0)), one(data))


class Walking(AroundWorkspace):
    """Lists what is there, wherever it leads."""

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> Listing:
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
    async def open(self, path: str) -> AsyncGenerator[FileReading]:
        if Path(self.root, path).is_fifo():
            yield FileReading(FileInfo(path, 0, (0, 0, 0)), one(b""))
        else:
            async with super().open(path) as reading:
                yield reading


class LockedOut(AroundWorkspace):
    """Takes no for an answer."""

    async def remove(self, path: str) -> bool:
        place = Path(self.root, path)
        return (not place.is_dir() or bool(place.stat().st_mode & 0o700)) and await super().remove(path)


BROKEN: list[Broken] = [
    (TextOnly, "What a command writes the host reads", "the host reads something else in"),
    (Plain, "What the host puts a command reads", "command: cannot be started: Permission denied"),
    (Following, "No link that a command makes", r"open\(\) follows a link out; ForbiddenPath was expected"),
    (Walking, "Links are not listed", "listed are .*'work/directory/secret'"),
    (WritingThrough, "Putting a file where a link is", "a file outside of the workspace was changed"),
    (Plumbing, "A FIFO delays nobody", "a FIFO can be opened"),
    (LockedOut, "What a command has locked away", "a directory without permissions cannot be removed"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_links_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(LINKS, beginning), said, in_directory(tmp_path))


def test_every_promise_about_links_is_shown_to_be_breakable() -> None:
    assert not without_example(LINKS, BROKEN)
