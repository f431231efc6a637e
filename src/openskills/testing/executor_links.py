"""Promises about what commands leave in a workspace: the host reads bytes, follows no link out, waits for no FIFO."""

from collections.abc import Awaitable, Iterator
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.protocol import Workspace
from openskills.executors.spec import Command
from openskills.testing.executor_files import NONSENSE
from openskills.testing.promises import EVERY_BYTE, PNG, expect, expect_refusal
from openskills.testing.trial import Promise, Trial, content, listed, opened, python, shell

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


async def _host_reads(trial: Trial) -> None:
    """What a command writes the host reads: every byte, any name, what was changed since a mark."""
    old = await trial.workspace.write("out/old", b"")
    mark = await trial.workspace.mark()
    for name in NONSENSE:
        await trial.said(Command(python(f"{_WRITE}bytes(range(256)))", name)))
    for name in NONSENSE:
        expect(await content(trial.workspace, name) == EVERY_BYTE, f"the host reads something else in {name!r}")
    found = set(await listed(trial.workspace, "work/**", "out/**", "runs/**", since=mark))
    expect(found == set(NONSENSE), f"not the same as was written since the mark: {sorted(found ^ set(NONSENSE))}")
    await trial.said(Command(shell("echo more >> out/old")))
    listing = await trial.workspace.list(["out/old"], since=mark)
    expect(len(listing.files) == 1 and listing.files[0].stamp != old.stamp, "a changed file counts as unchanged")


async def _command_reads(trial: Trial) -> None:
    """What the host puts a command reads, changes and runs."""
    await trial.workspace.write("work/inputs/picture.png", PNG)
    await trial.workspace.write("work/program", b"#!/bin/sh\necho started $1\n", executable=True)
    await trial.workspace.link("work/inputs/link", "work/inputs/picture.png")
    text = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    for name in ("work/inputs/picture.png", "work/inputs/link"):
        ended = await trial.run(Command(python(text, name)))
        expect(ended.stdout.bytes() == PNG, f"a command reads something else in {name}")
    said = await trial.said(Command((f"{trial.workspace.root}/work/program", "it")))
    expect(said == "started it\n", f"an executable file says {said!r}")
    await trial.said(Command(shell("echo more >> work/inputs/picture.png; mkdir work/made; mv work/program work/made")))
    changed = await content(trial.workspace, "work/inputs/picture.png")
    expect(changed == PNG + b"more\n", "a command cannot change what the host put there")
    expect(await trial.workspace.remove("work/made"), "the host cannot remove what a command made")


async def _never_out(trial: Trial) -> None:
    """No link that a command makes leads the host out of the workspace: ForbiddenPath, whatever it is used for."""
    outside = await _planted(trial)
    for call, what in _ways_out(trial.workspace):
        await expect_refusal(call, f"{what} follows a link out", ForbiddenPath)
    for link in ("work/loop", "work/loop/x"):
        await expect_refusal(opened(trial.workspace, link), f"{link} can be opened", (ForbiddenPath, InvalidArgument))
    _untouched(outside)


def _ways_out(workspace: Workspace) -> Iterator[tuple[Awaitable[object], str]]:
    for place in ("work", "work/tree/deep"):
        for name in ("file", "relative", "directory/secret", "magic/secret"):
            yield opened(workspace, f"{place}/{name}"), "open()"
        for directory in (f"{place}/directory", f"{place}/magic"):
            yield workspace.write(f"{directory}/new", b"x"), "write()"
            yield workspace.write(f"{directory}/secret", b"x"), "write()"
            yield workspace.make_directory(f"{directory}/new"), "make_directory()"
            yield workspace.link(f"{directory}/new", "work/tree"), "link()"
            yield workspace.remove(f"{directory}/secret"), "remove()"
            yield workspace.start(Command(("true",), cwd=directory)), "start()"
            yield workspace.start(Command(("true",), run_dir=f"{directory}/run")), "start(), for its RUN_DIR,"


async def _never_listed(trial: Trial) -> None:
    """Links are not listed, not counted and not entered, but named."""
    outside = await _planted(trial)
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


async def _replaced_not_followed(trial: Trial) -> None:
    """Putting a file where a link is replaces the link; removing links, and all of the workspace, leaves the rest."""
    outside = await _planted(trial)
    await trial.workspace.write("work/file", b"mine")
    _untouched(outside)
    expect(await content(trial.workspace, "work/file") == b"mine", "what was put there is not there")
    for name in ("work/directory", "work/magic", "work/relative", "work/tree"):
        expect(await trial.workspace.remove(name), f"{name} cannot be removed")
    _untouched(outside)
    await trial.said(Command(python(_PLANT.replace("work/", "out/").replace("'work'", "'out'"), str(outside))))
    await trial.executor.remove(trial.key)
    _untouched(outside)


async def _special_files(trial: Trial) -> None:
    """A FIFO delays nobody: it is no file to open, is skipped in listings, and can be replaced and removed."""
    await trial.said(Command(shell("mkfifo work/fifo work/other; mkdir work/d; mkfifo work/d/inside")))
    await expect_refusal(opened(trial.workspace, "work/fifo"), "a FIFO can be opened")
    listing = await trial.workspace.list(["work/**"])
    expect(not listing.files and "work/fifo" in " ".join(listing.skipped), f"a FIFO is listed, or not named: {listing}")
    await expect_refusal(trial.workspace.start(Command(("true",), cwd="work/fifo")), "a command starts in a FIFO")
    await trial.workspace.write("work/other", b"x")
    expect(await content(trial.workspace, "work/other") == b"x", "what was put in the place of a FIFO is not there")
    for name in ("work/fifo", "work/d"):
        expect(await trial.workspace.remove(name), f"{name} cannot be removed")


async def _locked_away(trial: Trial) -> None:
    """What a command has locked away can still be removed, and does not keep others from being listed."""
    await trial.said(Command(shell("mkdir -p work/a/b; : > work/a/b/f; chmod 0 work/a/b/f work/a/b work/a; : > out/f")))
    found = await listed(trial.workspace, "out/**", "work/**")
    expect("out/f" in found, f"listed are {found}")
    expect(await trial.workspace.remove("work/a"), "a directory without permissions cannot be removed")
    expect(not await listed(trial.workspace, "work/**"), "it is still there")


async def _planted(trial: Trial) -> Path:
    outside = trial.directory / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(_SECRET)
    await trial.said(Command(python(_PLANT, str(outside))))
    return outside


def _untouched(outside: Path) -> None:
    names = sorted(path.name for path in outside.iterdir())
    expect(names == ["secret"], f"outside of the workspace there are now {names}")
    expect((outside / "secret").read_bytes() == _SECRET, "a file outside of the workspace was changed")


LINKS: tuple[Promise, ...] = (
    _host_reads,
    _command_reads,
    _never_out,
    _never_listed,
    _replaced_not_followed,
    _special_files,
    _locked_away,
)
