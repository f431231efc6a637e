"""Promises about paths that somebody else wrote: none leads out of the workspace. No command is started."""

from collections.abc import Awaitable, Iterator

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.layout import TOP
from openskills.executors.protocol import Workspace
from openskills.testing.promises import expect, expect_refusal
from openskills.testing.trial import Promise, Trial, content, listed, opened

ESCAPING = ("/etc/passwd", "..", "../x", "work/../../x", "work/../../../../../../../etc/passwd", "work/a/../../../x")
NO_NAMES = ("", "work/a\0b", "work/half \ud800", "work/" + "x" * 300)


async def _escaping(trial: Trial) -> None:
    """A path that is absolute or climbs out is ForbiddenPath for every method, and does nothing."""
    await trial.workspace.write("work/there", b"x")
    for path in ESCAPING:
        for method, call in _every_call(trial.workspace, path):
            await expect_refusal(call, f"{method} takes {path!r}", ForbiddenPath)
        await expect_refusal(trial.workspace.list([path]), f"list() takes {path!r}", ForbiddenPath)
    await _unchanged(trial)


async def _no_names(trial: Trial) -> None:
    """What is no path at all is InvalidArgument for every method, and does nothing."""
    await trial.workspace.write("work/there", b"x")
    for path in NO_NAMES:
        for method, call in _every_call(trial.workspace, path):
            await expect_refusal(call, f"{method} takes {path[:40]!r}", InvalidArgument)
    for pattern in ("", "work/\0", "work/[a"):
        await expect_refusal(trial.workspace.list([pattern]), f"list() takes {pattern!r}", InvalidArgument)
    await _unchanged(trial)


async def _layout_stays(trial: Trial) -> None:
    """Nothing is put among the skills, and the workspace's own directories cannot be removed or replaced."""
    await trial.workspace.write("work/there", b"x")
    for what, call in _calls_on_the_layout(trial.workspace):
        await expect_refusal(call, what, ForbiddenPath)
    await _unchanged(trial)


def _every_call(workspace: Workspace, path: str) -> Iterator[tuple[str, Awaitable[object]]]:
    yield "write()", workspace.write(path, b"x")
    yield "open()", opened(workspace, path)
    yield "make_directory()", workspace.make_directory(path)
    yield "remove()", workspace.remove(path)
    yield "link()", workspace.link(path, "work/there")
    yield "link(), as its target,", workspace.link("work/link", path)


def _calls_on_the_layout(workspace: Workspace) -> Iterator[tuple[str, Awaitable[object]]]:
    yield "a file is put among the skills", workspace.write("skills/x/SKILL.md", b"")
    yield "a directory is made among the skills", workspace.make_directory("skills/x")
    yield "a link is put among the skills", workspace.link("skills/x", "work/there")
    yield "something is removed from the skills", workspace.remove("skills/x")
    for top in TOP:
        yield f"{top} is removed", workspace.remove(top)
        yield f"{top} is replaced by a file", workspace.write(top, b"")


async def _unchanged(trial: Trial) -> None:
    found = await listed(trial.workspace, "**")
    expect(found == ["work/there"], f"after what was refused there are {found}")
    expect(await content(trial.workspace, "work/there") == b"x", "after what was refused a file has changed")


PATHS: tuple[Promise, ...] = (_escaping, _no_names, _layout_stays)
