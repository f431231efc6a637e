"""Conformance checks of workspaces and their files: reading, writing, untrusted paths, links and special files."""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.protocol import Workspace
from openskills.executors.spec import TOP_DIRECTORIES, Command
from openskills.testing.checks import (
    EVERY_BYTE,
    PNG,
    ContentError,
    EndlessContent,
    ExecutorTrial,
    Promise,
    broken_content,
    expect,
    expect_refusal,
    list_paths,
    open_and_close,
    python_argv,
    read_content,
    shell_argv,
    stream_content,
)
from openskills.testing.executor_skills import stage_skill

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
"""Unusual but valid names."""
LARGE = 20 * 1024 * 1024
_PIECE = 1_000_003


async def _check_bytes(trial: ExecutorTrial) -> None:
    """Files are bytes: text, every byte, an image and an empty file are read unchanged."""
    for data in (b"text\r\n", EVERY_BYTE, PNG, b""):
        info = await trial.workspace.write("work/data", data)
        expect((info.path, info.size) == ("work/data", len(data)), f"{len(data)} bytes were put, and it says {info}")
        back = await read_content(trial.workspace, "work/data")
        expect(back == data, f"put {data[:20]!r} ({len(data)} bytes), read {back[:20]!r} ({len(back)} bytes)")


async def _check_pieces(trial: ExecutorTrial) -> None:
    """A large file is written and read completely, in pieces."""
    data = (EVERY_BYTE * (LARGE // len(EVERY_BYTE) + 1))[:LARGE]
    pieces = [data[start : start + _PIECE] for start in range(0, LARGE, _PIECE)]
    info = await trial.workspace.write("out/large", stream_content([b"", *pieces]))
    expect(info.size == LARGE, f"{LARGE} bytes were put, and it says {info.size}")
    digest, chunks = hashlib.sha256(), 0
    async with trial.workspace.open("out/large") as reading:
        expect(reading.info == info, f"write() says {info}, open() says {reading.info}")
        async for chunk in reading.chunks:
            digest.update(chunk)
            chunks += 1
    expect(digest.digest() == hashlib.sha256(data).digest(), f"{LARGE} bytes came back as other ones")
    expect(chunks > 1, "they came back in one piece")


async def _check_any_name(trial: ExecutorTrial) -> None:
    """A file may have any name, including characters that are special in a shell."""
    for name in NONSENSE:
        await trial.workspace.write(name, name.encode())
    found = await list_paths(trial.workspace, "work/**", "out/**", "runs/**")
    expect(set(found) == set(NONSENSE), f"not the same as was put: {sorted(set(found) ^ set(NONSENSE))}")
    for name in NONSENSE:
        expect(await read_content(trial.workspace, name) == name.encode(), f"{name!r} reads as another file")
        expect(await trial.workspace.remove(name), f"{name!r} cannot be removed")
    expect(not await list_paths(trial.workspace, "work/**", "out/**"), "something is there after all was removed")


async def _check_atomic_write(trial: ExecutorTrial) -> None:
    """A file is written atomically: if its content fails or is cancelled, the old file stays and nothing else."""
    await trial.workspace.write("work/file", b"old")
    refused = trial.workspace.write("work/file", broken_content())
    await expect_refusal(refused, "an error of the content is hidden", ContentError)
    waiting = EndlessContent()
    cancelled = asyncio.ensure_future(trial.workspace.write("work/file", waiting))
    await asyncio.wait([cancelled, asyncio.ensure_future(waiting.begun.wait())], return_when=asyncio.FIRST_COMPLETED)
    found = await list_paths(trial.workspace, "work/**")
    expect(found == ["work/file"], f"while a file is on its way there are {found}")
    cancelled.cancel()
    await asyncio.wait([cancelled])
    expect(cancelled.cancelled(), "a write that is cancelled while its content arrives is not cancelled")
    expect(await read_content(trial.workspace, "work/file") == b"old", "half of the new content is there")
    found = await list_paths(trial.workspace, "**")
    expect(found == ["work/file"], f"a write that failed left {found}")


async def _check_replacement(trial: ExecutorTrial) -> None:
    """Writing a file again replaces it: an open file stays unchanged, and at least the stamp of the new one differs."""
    first = await trial.workspace.write("work/file", b"one")
    async with trial.workspace.open("work/file") as reading:
        second = await trial.workspace.write("work/file", b"two")
        before = b"".join([chunk async for chunk in reading.chunks])
    expect(before == b"one", f"what was open reads {before!r} after it was replaced")
    expect(await read_content(trial.workspace, "work/file") == b"two", "the old content is still there")
    expect(first.stamp != second.stamp, "the stamp of another content is the same")
    again = [(await trial.workspace.list(["work/file"])).files for _ in range(2)]
    expect(again == [(second,), (second,)], f"nothing changes, and it is listed as {again}")


async def _check_directories(trial: ExecutorTrial) -> None:
    """A directory is created with its parents, once; a file in its place is an error."""
    for _ in range(2):
        await trial.workspace.make_directory("work/a/b/c")
    await trial.workspace.write("work/a/b/c/file", b"")
    await trial.workspace.write("work/a/new/file", b"")
    expect(await list_paths(trial.workspace, "work/**") == ["work/a/b/c/file", "work/a/new/file"], "a file is missing")
    in_the_way = "work/a/b/c/file/x"
    await expect_refusal(trial.workspace.make_directory(in_the_way), "a directory is made below a file")
    await expect_refusal(trial.workspace.write(in_the_way, b""), "a file is put below a file")
    await expect_refusal(trial.workspace.write("work/a/b", b""), "a file is put where a directory is")


async def _check_remove(trial: ExecutorTrial) -> None:
    """remove() deletes a file, or a directory with its contents, and returns false if there is none."""
    for name in ("work/file", "work/tree/one", "work/tree/two/three"):
        await trial.workspace.write(name, b"x")
    answers = [await trial.workspace.remove(name) for name in ("work/file", "work/file", "work/tree", "work/none/x")]
    expect(answers == [True, False, True, False], f"it says {answers}")
    left = await list_paths(trial.workspace, "**")
    expect(not left, f"there is {left} left")


async def _check_links(trial: ExecutorTrial) -> None:
    """A link points to another path in the workspace; removing it keeps the target."""
    await trial.workspace.write("work/real/file", b"content")
    await trial.workspace.link("work/inputs/file", "work/real/file")
    await trial.workspace.link("work/inputs/directory", "work/real")
    for name in ("work/inputs/file", "work/inputs/directory/file"):
        expect(await read_content(trial.workspace, name) == b"content", f"{name} does not lead there")
    listing = await trial.workspace.list(["work/inputs/**"])
    expect(not listing.files, f"links are listed as files: {listing.files}")
    named = [any(path in skipped for skipped in listing.skipped) for path in ("inputs/file", "inputs/directory")]
    expect(all(named), f"skipped links are not named: {listing.skipped}")
    for name in ("work/inputs/file", "work/inputs/directory"):
        expect(await trial.workspace.remove(name), f"{name} cannot be removed")
    expect(await read_content(trial.workspace, "work/real/file") == b"content", "what a link leads to is gone with it")
    await trial.workspace.link("work/inputs/nowhere", "work/none")
    await expect_refusal(
        open_and_close(trial.workspace, "work/inputs/nowhere"), "a link that leads nowhere can be opened"
    )


async def _check_missing(trial: ExecutorTrial) -> None:
    """A missing path, or one that is not a file, cannot be opened: InvalidArgument."""
    await trial.workspace.make_directory("work/directory")
    for name in ("work/none", "work/directory", "work", "work/none/x"):
        await expect_refusal(open_and_close(trial.workspace, name), f"{name!r} can be opened")


async def _check_globs(trial: ExecutorTrial) -> None:
    """list() returns every matching file once, sorted, at any depth if the pattern says so."""
    names = ("out/a.txt", "out/b.txt", "out/c.md", "out/sub/d.txt", "out/sub/deep/e.txt", "work/f.txt", "out/.g.txt")
    for name in names:
        await trial.workspace.write(name, b"")
    for globs, found in _EXPECTED.items():
        seen = await list_paths(trial.workspace, *globs)
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


async def _check_marks(trial: ExecutorTrial) -> None:
    """Files changed after a mark are distinguished from older ones, however quickly one follows the other."""
    workspace = trial.workspace
    marks: list[int] = []
    for number in range(10):
        await workspace.write(f"out/before-{number}", b"x")
        marks.append(await workspace.mark())
        await workspace.write(f"out/after-{number}", b"x")
        found = await list_paths(workspace, "out/**", since=marks[-1])
        expect(found == [f"out/after-{number}"], f"only out/after-{number} was put after the mark; listed are {found}")
    expect(marks == sorted(marks), f"later marks are not later: {marks}")
    await workspace.write("out/before-3", b"x")
    found = set(await list_paths(workspace, "out/**", since=marks[-1]))
    expect(
        found == {"out/after-9", "out/before-3"},
        f"writing the same content again is not a change, but {found} are listed",
    )


FILES: tuple[Promise, ...] = (
    _check_bytes,
    _check_pieces,
    _check_any_name,
    _check_atomic_write,
    _check_replacement,
    _check_directories,
    _check_remove,
    _check_links,
    _check_missing,
    _check_globs,
    _check_marks,
)


_SECRET = b"nothing of this may be read or changed"
_PLANT = """
import os, sys
outside = sys.argv[1]
os.makedirs('work/tree/deep')
for place in ('work', 'work/tree/deep'):
    os.symlink(outside, f'{place}/directory')
    os.symlink(f'{outside}/secret', f'{place}/file')
    os.symlink('../' * 40 + outside.lstrip('/') + '/secret', f'{place}/relative')
    os.symlink('/proc/self/root' + outside, f'{place}/magic')
os.symlink('loop', 'work/loop')
"""
_WRITE = "import os, sys; os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True); open(sys.argv[1], 'wb').write("


async def _check_host_reads(trial: ExecutorTrial) -> None:
    """The host reads what a command writes: every byte, any name, changes since a mark."""
    old = await trial.workspace.write("out/old", b"")
    mark = await trial.workspace.mark()
    for name in NONSENSE:
        await trial.read_output(Command(python_argv(f"{_WRITE}bytes(range(256)))", name)))
    for name in NONSENSE:
        expect(await read_content(trial.workspace, name) == EVERY_BYTE, f"the host reads something else in {name!r}")
    found = set(await list_paths(trial.workspace, "work/**", "out/**", "runs/**", since=mark))
    expect(found == set(NONSENSE), f"not the same as was written since the mark: {sorted(found ^ set(NONSENSE))}")
    await trial.read_output(Command(shell_argv("echo more >> out/old")))
    listing = await trial.workspace.list(["out/old"], since=mark)
    expect(len(listing.files) == 1 and listing.files[0].stamp != old.stamp, "a changed file counts as unchanged")


async def _check_command_reads(trial: ExecutorTrial) -> None:
    """A command can read, change and run files that the host writes."""
    await trial.workspace.write("work/inputs/picture.png", PNG)
    await trial.workspace.write("work/program", b"#!/bin/sh\necho started $1\n", executable=True)
    await trial.workspace.link("work/inputs/link", "work/inputs/picture.png")
    text = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    for name in ("work/inputs/picture.png", "work/inputs/link"):
        ended = await trial.run(Command(python_argv(text, name)))
        expect(ended.stdout.bytes() == PNG, f"a command reads something else in {name}")
    said = await trial.read_output(Command((f"{trial.workspace.root}/work/program", "it")))
    expect(said == "started it\n", f"an executable file says {said!r}")
    await trial.read_output(
        Command(shell_argv("echo more >> work/inputs/picture.png; mkdir work/made; mv work/program work/made"))
    )
    changed = await read_content(trial.workspace, "work/inputs/picture.png")
    expect(changed == PNG + b"more\n", "a command cannot change what the host put there")
    expect(await trial.workspace.remove("work/made"), "the host cannot remove what a command made")


async def _check_links_stay_inside(trial: ExecutorTrial) -> None:
    """The host follows no link of a command out of the workspace: every use is ForbiddenPath."""
    outside = await _plant_links(trial)
    for call, what in _iter_escapes(trial.workspace):
        await expect_refusal(call, f"{what} follows a link out", ForbiddenPath)
    for link in ("work/loop", "work/loop/x"):
        await expect_refusal(
            open_and_close(trial.workspace, link), f"{link} can be opened", (ForbiddenPath, InvalidArgument)
        )
    _expect_untouched(outside)


def _iter_escapes(workspace: Workspace) -> Iterator[tuple[Awaitable[object], str]]:
    for place in ("work", "work/tree/deep"):
        for name in ("file", "relative", "directory/secret", "magic/secret"):
            yield open_and_close(workspace, f"{place}/{name}"), "open()"
        for directory in (f"{place}/directory", f"{place}/magic"):
            yield workspace.write(f"{directory}/new", b"x"), "write()"
            yield workspace.write(f"{directory}/secret", b"x"), "write()"
            yield workspace.make_directory(f"{directory}/new"), "make_directory()"
            yield workspace.link(f"{directory}/new", "work/tree"), "link()"
            yield workspace.remove(f"{directory}/secret"), "remove()"
            yield workspace.start(Command(("true",), cwd=directory)), "start()"
            yield workspace.start(Command(("true",), run_dir=f"{directory}/run")), "start(), for its RUN_DIR,"


async def _check_links_not_listed(trial: ExecutorTrial) -> None:
    """Links are not listed, counted or followed, but reported."""
    outside = await _plant_links(trial)
    await trial.workspace.write("work/tree/real", b"")
    listing = await trial.workspace.list(["work/**", "work/directory/*", "work/magic/**", "work/file"])
    found = [info.path for info in listing.files]
    expect(found == ["work/tree/real"], f"listed are {found}")
    named = " ".join(listing.skipped)
    expect("work/directory" in named and "work/tree/deep/file" in named, f"skipped links are not named: {named!r}")
    usage = await trial.workspace.usage()
    (outside / "large").write_bytes(bytes(1_000_000))
    again = await trial.workspace.usage()
    expect(again.bytes - usage.bytes < 500_000, f"what lies outside is counted: {usage} became {again}")


async def _check_links_not_followed(trial: ExecutorTrial) -> None:
    """Writing a file over a link replaces the link; removing links, or the workspace, keeps their targets."""
    outside = await _plant_links(trial)
    await trial.workspace.write("work/file", b"mine")
    _expect_untouched(outside)
    expect(await read_content(trial.workspace, "work/file") == b"mine", "what was put there is not there")
    for name in ("work/directory", "work/magic", "work/relative", "work/tree"):
        expect(await trial.workspace.remove(name), f"{name} cannot be removed")
    _expect_untouched(outside)
    await trial.read_output(
        Command(python_argv(_PLANT.replace("work/", "out/").replace("'work'", "'out'"), str(outside)))
    )
    await trial.executor.remove(trial.key)
    _expect_untouched(outside)


async def _check_special_files(trial: ExecutorTrial) -> None:
    """A FIFO does not block: it cannot be opened, is not listed, and can be replaced and removed."""
    await trial.read_output(Command(shell_argv("mkfifo work/fifo work/other; mkdir work/d; mkfifo work/d/inside")))
    await expect_refusal(open_and_close(trial.workspace, "work/fifo"), "a FIFO can be opened")
    listing = await trial.workspace.list(["work/**"])
    expect(not listing.files and "work/fifo" in " ".join(listing.skipped), f"a FIFO is listed, or not named: {listing}")
    await expect_refusal(trial.workspace.start(Command(("true",), cwd="work/fifo")), "a command starts in a FIFO")
    await trial.workspace.write("work/other", b"x")
    expect(
        await read_content(trial.workspace, "work/other") == b"x", "what was put in the place of a FIFO is not there"
    )
    for name in ("work/fifo", "work/d"):
        expect(await trial.workspace.remove(name), f"{name} cannot be removed")


async def _check_locked_files(trial: ExecutorTrial) -> None:
    """Files that a command made inaccessible can be removed, and do not prevent others from being listed."""
    await trial.read_output(
        Command(shell_argv("mkdir -p work/a/b; : > work/a/b/f; chmod 0 work/a/b/f work/a/b work/a; : > out/f"))
    )
    found = await list_paths(trial.workspace, "out/**", "work/**")
    expect("out/f" in found, f"listed are {found}")
    expect(await trial.workspace.remove("work/a"), "a directory without permissions cannot be removed")
    expect(not await list_paths(trial.workspace, "work/**"), "it is still there")


async def _plant_links(trial: ExecutorTrial) -> Path:
    outside = trial.directory / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(_SECRET)
    await trial.read_output(Command(python_argv(_PLANT, str(outside))))
    return outside


def _expect_untouched(outside: Path) -> None:
    names = sorted(path.name for path in outside.iterdir())
    expect(names == ["secret"], f"outside of the workspace there are now {names}")
    expect((outside / "secret").read_bytes() == _SECRET, "a file outside of the workspace was changed")


LINK_CHECKS: tuple[Promise, ...] = (
    _check_host_reads,
    _check_command_reads,
    _check_links_stay_inside,
    _check_links_not_listed,
    _check_links_not_followed,
    _check_special_files,
    _check_locked_files,
)


ESCAPING = ("/etc/passwd", "..", "../x", "work/../../x", "work/../../../../../../../etc/passwd", "work/a/../../../x")
NO_NAMES = ("", "work/a\0b", "work/half \ud800", "work/" + "x" * 300)


async def _check_forbidden_paths(trial: ExecutorTrial) -> None:
    """A path that is absolute or leaves the workspace is ForbiddenPath for every method, and has no effect."""
    await trial.workspace.write("work/there", b"x")
    for path in ESCAPING:
        for method, call in _iter_calls(trial.workspace, path):
            await expect_refusal(call, f"{method} takes {path!r}", ForbiddenPath)
        await expect_refusal(trial.workspace.list([path]), f"list() takes {path!r}", ForbiddenPath)
    await _expect_unchanged(trial)


async def _check_invalid_paths(trial: ExecutorTrial) -> None:
    """An invalid path is InvalidArgument for every method, and has no effect."""
    await trial.workspace.write("work/there", b"x")
    for path in NO_NAMES:
        for method, call in _iter_calls(trial.workspace, path):
            await expect_refusal(call, f"{method} takes {path[:40]!r}", InvalidArgument)
    for pattern in ("", "work/\0", "work/[a"):
        await expect_refusal(trial.workspace.list([pattern]), f"list() takes {pattern!r}", InvalidArgument)
    await _expect_unchanged(trial)


async def _check_layout_stays(trial: ExecutorTrial) -> None:
    """Nothing can be written into `skills`, and the workspace's own directories cannot be removed or replaced."""
    await trial.workspace.write("work/there", b"x")
    for what, call in _iter_layout_calls(trial.workspace):
        await expect_refusal(call, what, ForbiddenPath)
    await _expect_unchanged(trial)


def _iter_calls(workspace: Workspace, path: str) -> Iterator[tuple[str, Awaitable[object]]]:
    yield "write()", workspace.write(path, b"x")
    yield "open()", open_and_close(workspace, path)
    yield "make_directory()", workspace.make_directory(path)
    yield "remove()", workspace.remove(path)
    yield "link()", workspace.link(path, "work/there")
    yield "link(), as its target,", workspace.link("work/link", path)


def _iter_layout_calls(workspace: Workspace) -> Iterator[tuple[str, Awaitable[object]]]:
    yield "a file is put among the skills", workspace.write("skills/x/SKILL.md", b"")
    yield "a directory is made among the skills", workspace.make_directory("skills/x")
    yield "a link is put among the skills", workspace.link("skills/x", "work/there")
    yield "something is removed from the skills", workspace.remove("skills/x")
    for top in TOP_DIRECTORIES:
        yield f"{top} is removed", workspace.remove(top)
        yield f"{top} is replaced by a file", workspace.write(top, b"")


async def _expect_unchanged(trial: ExecutorTrial) -> None:
    found = await list_paths(trial.workspace, "**")
    expect(found == ["work/there"], f"after what was refused there are {found}")
    expect(await read_content(trial.workspace, "work/there") == b"x", "after what was refused a file has changed")


PATHS: tuple[Promise, ...] = (_check_forbidden_paths, _check_invalid_paths, _check_layout_stays)


async def _check_same_key(trial: ExecutorTrial) -> None:
    """One key has one workspace, also if it is opened twice at the same time."""
    asked = await asyncio.gather(*(trial.executor.open(trial.key) for _ in range(5)))
    ids = {workspace.id for workspace in (trial.workspace, *asked)}
    expect(len(ids) == 1, f"one key has the workspaces {sorted(ids)}")
    await asked[0].write("work/file", b"x")
    expect(await read_content(asked[1], "work/file") == b"x", "two who have the same key do not see the same files")


async def _check_separate_keys(trial: ExecutorTrial) -> None:
    """Two keys have two workspaces, however similar they are."""
    await trial.workspace.write("work/secret", b"x")
    others = [f"{trial.key}{more}" for more in ("-2", "/x", "/../y", "\n", " ", "é")] + [trial.key.upper()]
    try:
        for other in others:
            workspace = await trial.executor.open(other)
            expect(workspace.id != trial.workspace.id, f"the key {other!r} has the workspace of {trial.key!r}")
            expect(not await list_paths(workspace, "**"), f"the workspace of {other!r} is not empty")
            await workspace.write("work/secret", other.encode())
    finally:
        removed = [await trial.executor.remove(other) for other in others]
    expect(all(removed), f"remove() of the keys says {removed}")
    expect(await read_content(trial.workspace, "work/secret") == b"x", "another key wrote over the file")


async def _check_reopen(trial: ExecutorTrial) -> None:
    """The files of a workspace stay when it is closed, which may be done twice; its key finds them again."""
    await trial.workspace.write("work/kept", b"x")
    await stage_skill(trial)
    await trial.workspace.close()
    await trial.workspace.close()
    again = await trial.executor.open(trial.key)
    expect(again.id == trial.workspace.id, "it is another workspace")
    expect(await read_content(again, "work/kept") == b"x", "the content is another one")
    expect(len(await list_paths(again, "skills/*/SKILL.md")) == 1, "the staged skill is gone")
    await again.write("out/new", b"y")
    expect(await list_paths(again, "out/**") == ["out/new"], "nothing can be put there any more")


async def _check_workspace_remove(trial: ExecutorTrial) -> None:
    """remove() deletes a workspace with its contents; it returns false if there is none."""
    await trial.workspace.write("work/secret", b"x")
    answers = [await trial.executor.remove(key) for key in (trial.key, trial.key, f"{trial.key}-never")]
    expect(answers == [True, False, False], f"it says {answers}")
    again = await trial.executor.open(trial.key)
    expect(not await list_paths(again, "**"), "the files are back when the key is used again")


async def _check_usage(trial: ExecutorTrial) -> None:
    """usage() counts bytes and files, without the staged skills."""
    before = await trial.workspace.usage()
    await stage_skill(trial)
    with_skill = await trial.workspace.usage()
    expect(with_skill == before, f"staging a skill makes {before} to {with_skill}")
    for number in range(3):
        await trial.workspace.write(f"work/{number}", os.urandom(100_000))
    after = await trial.workspace.usage()
    grown = (after.bytes - before.bytes, after.files - before.files)
    expect(300_000 <= grown[0] <= 600_000, f"after three files of 100,000 bytes it has grown by {grown[0]} bytes")
    expect(grown[1] == 3, f"after three files it has grown by {grown[1]} files")
    await trial.workspace.remove("work/1")
    less = await trial.workspace.usage()
    expect(less.bytes <= after.bytes - 100_000, f"without one of them {after} became {less}")


async def _check_identity(trial: ExecutorTrial) -> None:
    """An executor and its workspaces have a name, an isolation, an id and a root."""
    expect(bool(trial.executor.name), "the executor has no name")
    isolation = trial.workspace.isolation
    expect(isolation is trial.isolation, f"check() says {trial.isolation!r}, the workspace {isolation!r}")
    expect(bool(trial.workspace.id), "the workspace has no id")
    root = trial.workspace.root
    expect(root.startswith("/") and not root.endswith("/"), f"the workspace's root is {root!r}, no absolute path")


async def _check_close_twice(trial: ExecutorTrial) -> None:
    """An executor may be closed twice."""
    other = trial.make()
    await other.close()
    await other.close()


WORKSPACES: tuple[Promise, ...] = (
    _check_same_key,
    _check_separate_keys,
    _check_reopen,
    _check_workspace_remove,
    _check_usage,
    _check_identity,
    _check_close_twice,
)
