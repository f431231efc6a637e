"""Promises about skills: how they are taken, named by their content, and staged. No command is started."""

from dataclasses import replace
from pathlib import Path

from openskills.executors.layout import LINKS, VENV
from openskills.testing.promises import PNG, expect, expect_refusal
from openskills.testing.trial import Promise, Trial, content, listed

SKILL = "demo"
_FILES = {
    "SKILL.md": b"---\nname: demo\ndescription: A skill.\n---\n",
    "scripts/run.py": b"#!/usr/bin/env python3\nprint('run')\n",
    "bin/openskills-check-hello": b"#!/bin/sh\necho hello\n",
    "assets/picture.png": PNG,
    "assets/nothing": b"",
    "deep/er/two words.txt": b"text\r\n",
}


def new_skill(directory: Path, name: str = SKILL) -> Path:
    """A skill's folder in a directory of this machine."""
    folder = directory / name
    for path, data in _FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    for program in ("scripts/run.py", "bin/openskills-check-hello"):
        (folder / program).chmod(0o755)
    return folder


async def staged(trial: Trial) -> None:
    """Take a new skill and stage it as `skills/demo`."""
    await trial.workspace.stage(await trial.executor.snapshot(SKILL, new_skill(trial.directory)))


async def _taken_once(trial: Trial) -> None:
    """A digest names what is in a skill: the same content has the same one, wherever and whenever it is taken."""
    folder = new_skill(trial.directory)
    first = await trial.executor.snapshot(SKILL, folder)
    size = sum(map(len, _FILES.values()))
    facts = (first.name, first.files, first.size, first.warnings)
    expect(facts == (SKILL, len(_FILES), size, ()), f"of {len(_FILES)} files with {size} bytes it says {first}")
    again = await trial.executor.snapshot(SKILL, folder)
    expect(again == first, f"nothing has changed, and {first} became {again}")
    elsewhere = await trial.executor.snapshot("other", new_skill(trial.directory / "elsewhere"))
    expect(elsewhere.digest == first.digest, "the same files in another folder have another digest")


async def _taken_again(trial: Trial) -> None:
    """The digest changes with every change: of content, even of the same size, of a name, of what is a program."""
    folder = new_skill(trial.directory)
    digests = [(await trial.executor.snapshot(SKILL, folder)).digest]
    changes = (
        lambda: (folder / "assets/nothing").write_bytes(b"1"),
        lambda: (folder / "assets/nothing").write_bytes(b"2"),
        lambda: (folder / "assets/nothing").rename(folder / "assets/other"),
        lambda: (folder / "assets/other").chmod(0o755),
        (folder / "empty").mkdir,
    )
    for number, change in enumerate(changes, 1):
        change()
        digests.append((await trial.executor.snapshot(SKILL, folder)).digest)
        expect(digests[-1] not in digests[:-1], f"change number {number} gives a digest that was there before")


async def _staged_whole(trial: Trial) -> None:
    """A staged skill is `skills/<name>`, with every file as it was taken, whatever becomes of its folder."""
    folder = new_skill(trial.directory)
    snapshot = await trial.executor.snapshot(SKILL, folder)
    (folder / "SKILL.md").write_bytes(b"changed later")
    (folder / "scripts" / "run.py").unlink()
    for _ in range(2):
        await trial.workspace.stage(snapshot)
        found = await listed(trial.workspace, f"skills/{SKILL}/**")
        expect(found == sorted(f"skills/{SKILL}/{path}" for path in _FILES), f"there are {found}")
    for path, data in _FILES.items():
        expect(await content(trial.workspace, f"skills/{SKILL}/{path}") == data, f"{path} is not what was taken")


async def _staged_again(trial: Trial) -> None:
    """A newer snapshot takes the place of the older one, and the older one can be staged again."""
    folder = new_skill(trial.directory)
    old = await trial.executor.snapshot(SKILL, folder)
    await trial.workspace.stage(old)
    (folder / "SKILL.md").write_bytes(b"new")
    (folder / "assets" / "nothing").unlink()
    await trial.workspace.stage(await trial.executor.snapshot(SKILL, folder))
    expect(await content(trial.workspace, f"skills/{SKILL}/SKILL.md") == b"new", "the old content is still there")
    gone = f"skills/{SKILL}/assets/nothing"
    expect(gone not in await listed(trial.workspace, "skills/**"), "a file that the newer one has not is still there")
    await trial.workspace.stage(old)
    expect(await content(trial.workspace, f"skills/{SKILL}/SKILL.md") == _FILES["SKILL.md"], "the old one is not back")


async def _left_out(trial: Trial) -> None:
    """Links that leave the skill, and names that the workspace needs itself, are left out, with a warning."""
    folder = new_skill(trial.directory)
    secret = trial.directory / "secret"
    secret.write_bytes(b"secret")
    (folder / "leaves").symlink_to(secret)
    (folder / "climbs").symlink_to("../secret")
    for name in (*LINKS, VENV):
        (folder / name).mkdir()
    snapshot = await trial.executor.snapshot(SKILL, folder)
    for name in ("leaves", "climbs", *LINKS, VENV):
        expect(any(name in warning for warning in snapshot.warnings), f"{name} is not named in {snapshot.warnings}")
    await trial.workspace.stage(snapshot)
    found = await listed(trial.workspace, "skills/**")
    expect(len(found) == len(_FILES), f"there are {found}")


async def _refused(trial: Trial) -> None:
    """A name that is no name of a directory, and a snapshot that was never taken, are InvalidArgument."""
    folder = new_skill(trial.directory)
    for name in ("", "..", "../x", "a/b", ".hidden", "a\0b"):
        await expect_refusal(trial.executor.snapshot(name, folder), f"the name {name!r} is accepted")
    snapshot = await trial.executor.snapshot(SKILL, folder)
    for digest in ("0" * 64, "", "../../x"):
        unknown = trial.workspace.stage(replace(snapshot, digest=digest))
        await expect_refusal(unknown, f"a snapshot with the digest {digest!r} can be staged")


async def _several(trial: Trial) -> None:
    """Several skills are in a workspace side by side, and the folders they come from stay as they were."""
    for name in ("one", "two"):
        folder = new_skill(trial.directory, name)
        (folder / "SKILL.md").write_bytes(name.encode())
        await trial.workspace.stage(await trial.executor.snapshot(name, folder))
    for name in ("one", "two"):
        expect(await content(trial.workspace, f"skills/{name}/SKILL.md") == name.encode(), f"{name} is another one")
        left = {path.name for path in (trial.directory / name).iterdir()}
        expect(left == {path.split("/")[0] for path in _FILES}, f"the folder of the skill now has {sorted(left)}")


STAGING: tuple[Promise, ...] = (
    _taken_once,
    _taken_again,
    _staged_whole,
    _staged_again,
    _left_out,
    _refused,
    _several,
)
