"""Promises about workspaces: whose they are, how long they are, what they hold. No command is started."""

import asyncio
import os

from openskills.testing.executor_staging import staged
from openskills.testing.promises import expect
from openskills.testing.trial import Promise, Trial, content, listed


async def _same_key(trial: Trial) -> None:
    """One key has one workspace, who asks for it at the same moment, too."""
    asked = await asyncio.gather(*(trial.executor.open(trial.key) for _ in range(5)))
    ids = {workspace.id for workspace in (trial.workspace, *asked)}
    expect(len(ids) == 1, f"one key has the workspaces {sorted(ids)}")
    await asked[0].write("work/file", b"x")
    expect(await content(asked[1], "work/file") == b"x", "two who have the same key do not see the same files")


async def _keys_are_apart(trial: Trial) -> None:
    """Two keys have two workspaces, however the keys are spelt."""
    await trial.workspace.write("work/secret", b"x")
    others = [f"{trial.key}{more}" for more in ("-2", "/x", "/../y", "\n", " ", "é")] + [trial.key.upper()]
    try:
        for other in others:
            workspace = await trial.executor.open(other)
            expect(workspace.id != trial.workspace.id, f"the key {other!r} has the workspace of {trial.key!r}")
            expect(not await listed(workspace, "**"), f"the workspace of {other!r} is not empty")
            await workspace.write("work/secret", other.encode())
    finally:
        removed = [await trial.executor.remove(other) for other in others]
    expect(all(removed), f"remove() of the keys says {removed}")
    expect(await content(trial.workspace, "work/secret") == b"x", "another key wrote over the file")


async def _closed_and_opened(trial: Trial) -> None:
    """The files of a workspace stay when it is closed, which may be done twice; its key finds them again."""
    await trial.workspace.write("work/kept", b"x")
    await staged(trial)
    await trial.workspace.close()
    await trial.workspace.close()
    again = await trial.executor.open(trial.key)
    expect(again.id == trial.workspace.id, "it is another workspace")
    expect(await content(again, "work/kept") == b"x", "the content is another one")
    expect(len(await listed(again, "skills/*/SKILL.md")) == 1, "the staged skill is gone")
    await again.write("out/new", b"y")
    expect(await listed(again, "out/**") == ["out/new"], "nothing can be put there any more")


async def _removed(trial: Trial) -> None:
    """remove() forgets a workspace with everything in it; false when there is none."""
    await trial.workspace.write("work/secret", b"x")
    answers = [await trial.executor.remove(key) for key in (trial.key, trial.key, f"{trial.key}-never")]
    expect(answers == [True, False, False], f"it says {answers}")
    again = await trial.executor.open(trial.key)
    expect(not await listed(again, "**"), "the files are back when the key is used again")


async def _usage(trial: Trial) -> None:
    """usage() counts what is put there, in bytes and files, and not the staged skills."""
    before = await trial.workspace.usage()
    await staged(trial)
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


async def _says_what_it_is(trial: Trial) -> None:
    """An executor and its workspaces say what they are: a name, an isolation, an id, a root."""
    expect(bool(trial.executor.name), "the executor has no name")
    isolation = trial.workspace.isolation
    expect(isolation is trial.isolation, f"check() says {trial.isolation!r}, the workspace {isolation!r}")
    expect(bool(trial.workspace.id), "the workspace has no id")
    root = trial.workspace.root
    expect(root.startswith("/") and not root.endswith("/"), f"the workspace's root is {root!r}, no absolute path")


async def _closing_twice(trial: Trial) -> None:
    """An executor may be closed twice."""
    other = trial.make()
    await other.close()
    await other.close()


WORKSPACES: tuple[Promise, ...] = (
    _same_key,
    _keys_are_apart,
    _closed_and_opened,
    _removed,
    _usage,
    _says_what_it_is,
    _closing_twice,
)
