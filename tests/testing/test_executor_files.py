"""Each promise about files can be broken, and then it is said which."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from openskills.artifacts.store import Content
from openskills.errors import InvalidArgument
from openskills.executors.protocol import FileReading
from openskills.executors.spec import FileInfo, Listing
from openskills.testing.executor_files import FILES
from tests.testing.around import AroundWorkspace, Broken, expect_broken, in_memory, promise_of, without_example


class TextOnly(AroundWorkspace):
    """Thinks that everything is text, as the systems do in which a PNG arrives empty."""

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        text = data.decode("utf-8", "replace").encode() if isinstance(data, bytes) else data
        return await super().write(path, text, executable=executable)


class AllAtOnce(AroundWorkspace):
    """Reads a file whole before it gives anything."""

    @asynccontextmanager
    async def open(self, path: str) -> AsyncGenerator[FileReading]:
        async with super().open(path) as reading:
            yield FileReading(reading.info, one(b"".join([chunk async for chunk in reading.chunks])))


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
    async def open(self, path: str) -> AsyncGenerator[FileReading]:
        try:
            async with super().open(path) as reading:
                yield reading
        except InvalidArgument:
            yield FileReading(FileInfo(path, 0, (0, 0, 0)), one(b""))


class Unsorted(AroundWorkspace):
    """Lists in whatever order."""

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> Listing:
        listing = await super().list(globs, since=since, limit=limit)
        return replace(listing, files=tuple(reversed(listing.files)))


class Everything(AroundWorkspace):
    """Does not care about marks."""

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> Listing:  # noqa: ARG002
        return await super().list(globs, limit=limit)


BROKEN: list[Broken] = [
    (TextOnly, "Files are bytes", "256 bytes were put, and it says"),
    (AllAtOnce, "A large file comes and goes in pieces", "they came back in one piece"),
    (Cleaning, "A file may have any name", "not the same as was put: .*two words"),
    (PieceByPiece, "A file is put in one step", "half of the new content is there"),
    (SizeOnly, "A file that is put again is another one", "the stamp of another content is the same"),
    (Silent, "A directory is made with its parents", "a directory is made below a file; InvalidArgument was expected"),
    (AlwaysThere, "remove() takes a file", "it says .True, True, True, True."),
    (Copying, "A link leads to another place", "links are listed as files"),
    (EmptyWhereMissing, "What is not there", "'work/none' can be opened"),
    (Unsorted, "list() gives every file once", "gives .'out/b.txt', 'out/a.txt'"),
    (Everything, "What was changed after a mark", "only out/after-0 was put after the mark; listed are"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_files_is_told_which(
    part: type[AroundWorkspace], beginning: str, said: str
) -> None:
    expect_broken(part, promise_of(FILES, beginning), said, in_memory)


def test_every_promise_about_files_is_shown_to_be_breakable() -> None:
    assert not without_example(FILES, BROKEN)
