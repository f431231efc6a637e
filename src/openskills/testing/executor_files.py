"""Promises about the files of a workspace, as the host puts and gets them. No command is started."""

import asyncio
import hashlib
from collections.abc import Sequence

from openskills.executors.protocol import Workspace
from openskills.testing.contents import ContentFailed, Waiting, failing, stream
from openskills.testing.promises import EVERY_BYTE, PNG, expect, expect_refusal
from openskills.testing.trial import Promise, Trial, content, listed, opened

NONSENSE = (
    "work/-rf",
    "work/--help",
    "work/two words",
    "work/line\nbreak",
    "work/escape\x1b[31m",
    "work/图 é 🎉.txt",
    "work/*?[a]{b}\\",
    "work/'\"$(x)`y`;&|",
    "work/ a ",
    "work/.hidden",
    "work/...",
    "out/deep/er/and/deeper/x",
    "out/" + "n" * 255,
    "runs/one/file",
)
"""Names that are unusual, and good."""
LARGE = 20 * 1024 * 1024
_PIECE = 1_000_003


async def _bytes_come_back(trial: Trial) -> None:
    """Files are bytes: text, every byte, an image and nothing at all come back unchanged."""
    for data in (b"text\r\n", EVERY_BYTE, PNG, b""):
        info = await trial.workspace.write("work/data", data)
        expect((info.path, info.size) == ("work/data", len(data)), f"{len(data)} bytes were put, and it says {info}")
        back = await content(trial.workspace, "work/data")
        expect(back == data, f"put {data[:20]!r} ({len(data)} bytes), read {back[:20]!r} ({len(back)} bytes)")


async def _pieces_come_back(trial: Trial) -> None:
    """A large file comes and goes in pieces, whole."""
    data = (EVERY_BYTE * (LARGE // len(EVERY_BYTE) + 1))[:LARGE]
    pieces = [data[start : start + _PIECE] for start in range(0, LARGE, _PIECE)]
    info = await trial.workspace.write("out/large", stream([b"", *pieces]))
    expect(info.size == LARGE, f"{LARGE} bytes were put, and it says {info.size}")
    digest, chunks = hashlib.sha256(), 0
    async with trial.workspace.open("out/large") as reading:
        expect(reading.info == info, f"write() says {info}, open() says {reading.info}")
        async for chunk in reading.chunks:
            digest.update(chunk)
            chunks += 1
    expect(digest.digest() == hashlib.sha256(data).digest(), f"{LARGE} bytes came back as other ones")
    expect(chunks > 1, "they came back in one piece")


async def _any_name(trial: Trial) -> None:
    """A file may have any name, whatever a shell would make of it."""
    for name in NONSENSE:
        await trial.workspace.write(name, name.encode())
    found = await listed(trial.workspace, "work/**", "out/**", "runs/**")
    expect(set(found) == set(NONSENSE), f"not the same as was put: {sorted(set(found) ^ set(NONSENSE))}")
    for name in NONSENSE:
        expect(await content(trial.workspace, name) == name.encode(), f"{name!r} reads as another file")
        expect(await trial.workspace.remove(name), f"{name!r} cannot be removed")
    expect(not await listed(trial.workspace, "work/**", "out/**"), "something is there after all was removed")


async def _one_step(trial: Trial) -> None:
    """A file is put in one step: content that fails, or is cancelled, leaves the old one and nothing else."""
    await trial.workspace.write("work/file", b"old")
    refused = trial.workspace.write("work/file", failing())
    await expect_refusal(refused, "an error of the content is hidden", ContentFailed)
    waiting = Waiting()
    cancelled = asyncio.ensure_future(trial.workspace.write("work/file", waiting))
    await asyncio.wait([cancelled, asyncio.ensure_future(waiting.begun.wait())], return_when=asyncio.FIRST_COMPLETED)
    found = await listed(trial.workspace, "work/**")
    expect(found == ["work/file"], f"while a file is on its way there are {found}")
    cancelled.cancel()
    await asyncio.wait([cancelled])
    expect(cancelled.cancelled(), "a write that is cancelled while its content arrives is not cancelled")
    expect(await content(trial.workspace, "work/file") == b"old", "half of the new content is there")
    found = await listed(trial.workspace, "**")
    expect(found == ["work/file"], f"a write that failed left {found}")


async def _replaced(trial: Trial) -> None:
    """A file that is put again is another one: what is open stays as it was, and its stamp changes, if nothing else."""
    first = await trial.workspace.write("work/file", b"one")
    async with trial.workspace.open("work/file") as reading:
        second = await trial.workspace.write("work/file", b"two")
        before = b"".join([chunk async for chunk in reading.chunks])
    expect(before == b"one", f"what was open reads {before!r} after it was replaced")
    expect(await content(trial.workspace, "work/file") == b"two", "the old content is still there")
    expect(first.stamp != second.stamp, "the stamp of another content is the same")
    again = [(await trial.workspace.list(["work/file"])).files for _ in range(2)]
    expect(again == [(second,), (second,)], f"nothing changes, and it is listed as {again}")


async def _directories(trial: Trial) -> None:
    """A directory is made with its parents, once; where a file is in the way that is said."""
    for _ in range(2):
        await trial.workspace.make_directory("work/a/b/c")
    await trial.workspace.write("work/a/b/c/file", b"")
    await trial.workspace.write("work/a/new/file", b"")
    expect(await listed(trial.workspace, "work/**") == ["work/a/b/c/file", "work/a/new/file"], "a file is missing")
    in_the_way = "work/a/b/c/file/x"
    await expect_refusal(trial.workspace.make_directory(in_the_way), "a directory is made below a file")
    await expect_refusal(trial.workspace.write(in_the_way, b""), "a file is put below a file")
    await expect_refusal(trial.workspace.write("work/a/b", b""), "a file is put where a directory is")


async def _removing(trial: Trial) -> None:
    """remove() takes a file, or a directory with all it holds, and says false when there is none."""
    for name in ("work/file", "work/tree/one", "work/tree/two/three"):
        await trial.workspace.write(name, b"x")
    answers = [await trial.workspace.remove(name) for name in ("work/file", "work/file", "work/tree", "work/none/x")]
    expect(answers == [True, False, True, False], f"it says {answers}")
    left = await listed(trial.workspace, "**")
    expect(not left, f"there is {left} left")


async def _links(trial: Trial) -> None:
    """A link leads to another place in the workspace; removing it leaves what it leads to."""
    await trial.workspace.write("work/real/file", b"content")
    await trial.workspace.link("work/inputs/file", "work/real/file")
    await trial.workspace.link("work/inputs/directory", "work/real")
    for name in ("work/inputs/file", "work/inputs/directory/file"):
        expect(await content(trial.workspace, name) == b"content", f"{name} does not lead there")
    listing = await trial.workspace.list(["work/inputs/**"])
    expect(not listing.files, f"links are listed as files: {listing.files}")
    named = [any(path in skipped for skipped in listing.skipped) for path in ("inputs/file", "inputs/directory")]
    expect(all(named), f"skipped links are not named: {listing.skipped}")
    for name in ("work/inputs/file", "work/inputs/directory"):
        expect(await trial.workspace.remove(name), f"{name} cannot be removed")
    expect(await content(trial.workspace, "work/real/file") == b"content", "what a link leads to is gone with it")
    await trial.workspace.link("work/inputs/nowhere", "work/none")
    await expect_refusal(opened(trial.workspace, "work/inputs/nowhere"), "a link that leads nowhere can be opened")


async def _missing(trial: Trial) -> None:
    """What is not there, or is no file, cannot be opened: InvalidArgument."""
    await trial.workspace.make_directory("work/directory")
    for name in ("work/none", "work/directory", "work", "work/none/x"):
        await expect_refusal(opened(trial.workspace, name), f"{name!r} can be opened")


async def _globs(trial: Trial) -> None:
    """list() gives every file once that matches a pattern, sorted, at any depth where the pattern says so."""
    names = ("out/a.txt", "out/b.txt", "out/c.md", "out/sub/d.txt", "out/sub/deep/e.txt", "work/f.txt", "out/.g.txt")
    for name in names:
        await trial.workspace.write(name, b"")
    for globs, found in _EXPECTED.items():
        seen = await listed(trial.workspace, *globs)
        expect(seen == [f"{name}" for name in found], f"{', '.join(globs)} gives {seen}")
    short = await trial.workspace.list(["out/**"], limit=2)
    expect(len(short.files) == 2 and not short.complete, f"with a limit of two it gives {short}")
    whole = await trial.workspace.list(["out/*.md"], limit=1)
    expect(whole.complete, "one file, with a limit of one, is said to be incomplete")


_EXPECTED: dict[tuple[str, ...], Sequence[str]] = {
    ("out/*.txt",): ("out/.g.txt", "out/a.txt", "out/b.txt"),
    ("out/?.txt",): ("out/a.txt", "out/b.txt"),
    ("out/[b-c].*",): ("out/b.txt", "out/c.md"),
    ("out/**/*.txt",): ("out/.g.txt", "out/a.txt", "out/b.txt", "out/sub/d.txt", "out/sub/deep/e.txt"),
    ("out/sub/**",): ("out/sub/d.txt", "out/sub/deep/e.txt"),
    ("**/f.txt", "work/*", "work/f.txt"): ("work/f.txt",),
    ("out/none/*", "out/A.txt"): (),
    ("out/c.md", "**/e.txt"): ("out/c.md", "out/sub/deep/e.txt"),
}


async def _marks(trial: Trial) -> None:
    """What was changed after a mark is told from what was there before, however quickly one follows the other."""
    workspace = trial.workspace
    marks: list[int] = []
    for number in range(10):
        await workspace.write(f"out/before-{number}", b"x")
        marks.append(await workspace.mark())
        await workspace.write(f"out/after-{number}", b"x")
        found = await listed(workspace, "out/**", since=marks[-1])
        expect(found == [f"out/after-{number}"], f"only out/after-{number} was put after the mark; listed are {found}")
    expect(marks == sorted(marks), f"later marks are not later: {marks}")
    await workspace.write("out/before-3", b"x")
    found = await _since(workspace, marks[-1])
    expect(found == {"out/after-9", "out/before-3"}, f"the same content put again is no change: listed are {found}")


async def _since(workspace: Workspace, mark: int) -> set[str]:
    return set(await listed(workspace, "out/**", since=mark))


FILES: tuple[Promise, ...] = (
    _bytes_come_back,
    _pieces_come_back,
    _any_name,
    _one_step,
    _replaced,
    _directories,
    _removing,
    _links,
    _missing,
    _globs,
    _marks,
)
