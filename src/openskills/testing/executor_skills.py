"""Conformance checks of staged skills."""

from dataclasses import replace
from pathlib import Path

from openskills.executors.spec import LINKS, VENV, Command
from openskills.testing.checks import (
    PNG,
    ExecutorTrial,
    Promise,
    describe_result,
    expect,
    expect_refusal,
    list_paths,
    python_argv,
    read_content,
    shell_argv,
)

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


async def stage_skill(trial: ExecutorTrial) -> None:
    """Take a new skill and stage it as `skills/demo`."""
    await trial.workspace.stage(await trial.executor.snapshot(SKILL, new_skill(trial.directory)))


async def _check_digest_stable(trial: ExecutorTrial) -> None:
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


async def _check_digest_changes(trial: ExecutorTrial) -> None:
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


async def _check_stage(trial: ExecutorTrial) -> None:
    """A staged skill is `skills/<name>`, with every file as it was taken, whatever becomes of its folder."""
    folder = new_skill(trial.directory)
    snapshot = await trial.executor.snapshot(SKILL, folder)
    (folder / "SKILL.md").write_bytes(b"changed later")
    (folder / "scripts" / "run.py").unlink()
    for _ in range(2):
        await trial.workspace.stage(snapshot)
        found = await list_paths(trial.workspace, f"skills/{SKILL}/**")
        expect(found == sorted(f"skills/{SKILL}/{path}" for path in _FILES), f"there are {found}")
    for path, data in _FILES.items():
        expect(await read_content(trial.workspace, f"skills/{SKILL}/{path}") == data, f"{path} is not what was taken")


async def _check_restage(trial: ExecutorTrial) -> None:
    """A newer snapshot takes the place of the older one, and the older one can be staged again."""
    folder = new_skill(trial.directory)
    old = await trial.executor.snapshot(SKILL, folder)
    await trial.workspace.stage(old)
    (folder / "SKILL.md").write_bytes(b"new")
    (folder / "assets" / "nothing").unlink()
    await trial.workspace.stage(await trial.executor.snapshot(SKILL, folder))
    expect(await read_content(trial.workspace, f"skills/{SKILL}/SKILL.md") == b"new", "the old content is still there")
    gone = f"skills/{SKILL}/assets/nothing"
    expect(
        gone not in await list_paths(trial.workspace, "skills/**"), "a file that the newer one has not is still there"
    )
    await trial.workspace.stage(old)
    expect(
        await read_content(trial.workspace, f"skills/{SKILL}/SKILL.md") == _FILES["SKILL.md"], "the old one is not back"
    )


async def _check_omissions(trial: ExecutorTrial) -> None:
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
    found = await list_paths(trial.workspace, "skills/**")
    expect(len(found) == len(_FILES), f"there are {found}")


async def _check_invalid_stage(trial: ExecutorTrial) -> None:
    """An invalid directory name, and a snapshot that was never taken, are InvalidArgument."""
    folder = new_skill(trial.directory)
    for name in ("", "..", "../x", "a/b", ".hidden", "a\0b"):
        await expect_refusal(trial.executor.snapshot(name, folder), f"the name {name!r} is accepted")
    snapshot = await trial.executor.snapshot(SKILL, folder)
    for digest in ("0" * 64, "", "../../x"):
        unknown = trial.workspace.stage(replace(snapshot, digest=digest))
        await expect_refusal(unknown, f"a snapshot with the digest {digest!r} can be staged")


async def _check_several_skills(trial: ExecutorTrial) -> None:
    """Several skills are in a workspace side by side, and the folders they come from stay as they were."""
    for name in ("one", "two"):
        folder = new_skill(trial.directory, name)
        (folder / "SKILL.md").write_bytes(name.encode())
        await trial.workspace.stage(await trial.executor.snapshot(name, folder))
    for name in ("one", "two"):
        expect(
            await read_content(trial.workspace, f"skills/{name}/SKILL.md") == name.encode(), f"{name} is another one"
        )
        left = {path.name for path in (trial.directory / name).iterdir()}
        expect(left == {path.split("/")[0] for path in _FILES}, f"the folder of the skill now has {sorted(left)}")


STAGING: tuple[Promise, ...] = (
    _check_digest_stable, _check_digest_changes, _check_stage, _check_restage, _check_omissions,
    _check_invalid_stage, _check_several_skills,
)  # fmt: skip


HOME = f"skills/{SKILL}"
_WRITABLE = """
import json, os, stat
found = []
for place, directories, files in os.walk('.'):
    directories[:] = [name for name in directories if name != '.venv' and not os.path.islink(f'{place}/{name}')]
    for name in ['.', *files]:
        path = os.path.normpath(f'{place}/{name}')
        if not os.path.islink(path) and os.lstat(path).st_mode & 0o222:
            found.append(path)
print(json.dumps(found))
"""
CHANGE = """
import json, os, shutil
done = []
def attempt(name, act):
    try:
        act()
        done.append(name)
    except OSError:
        pass
def append():
    with open('SKILL.md', 'a') as file:
        file.write('changed')
for name, act in {
    'append': append,
    'chmod': lambda: os.chmod('SKILL.md', 0o666),
    'append after chmod': append,
    'utime': lambda: os.utime('SKILL.md', (0, 0)),
    'chmod of the directory': lambda: os.chmod('.', 0o777),
    'new file': lambda: open('new', 'w').close(),
    'rename': lambda: os.rename('scripts', 'renamed'),
    'link': lambda: os.link('SKILL.md', '../../work/linked'),
    'unlink': lambda: os.unlink('assets/picture.png'),
    'exchange of the skill': lambda: os.rename('../demo', '../other'),
    'exchange of .venv': lambda: os.rmdir('.venv'),
}.items():
    attempt(name, act)
print(json.dumps(done))
"""
"""Tries to change the skill it runs in, in all ways, and says which ones worked."""


def skill_command(text: str) -> Command:
    """A line of shell in the skill's own directory."""
    return Command(shell_argv(text), skill=SKILL, cwd=HOME)


async def _check_skill_unchanged(trial: ExecutorTrial) -> None:
    """Commands find a skill as it was taken: bytes, programs that can be started, and no permission to write."""
    await stage_skill(trial)
    text = "import sys; sys.stdout.buffer.write(open('assets/picture.png', 'rb').read())"
    ended = await trial.run(Command(python_argv(text), skill=SKILL, cwd=HOME))
    expect(ended.stdout.bytes() == PNG, f"a picture of the skill reads as other bytes: {describe_result(ended)}")
    said = await trial.read_output(skill_command("scripts/run.py; openskills-check-hello; cat 'deep/er/two words.txt'"))
    expect(said == "run\nhello\ntext\r\n", f"scripts of the skill say {said!r}")
    looked = await trial.run(Command(python_argv(_WRITABLE), skill=SKILL, cwd=HOME))
    expect(
        looked.stdout.bytes() == b"[]\n",
        f"nothing may be writable by its permissions, and there is {describe_result(looked)}",
    )


async def _check_attempts(trial: ExecutorTrial) -> None:
    """Whatever a command does to its skill, the next workspace and the folder that it was taken from see none of it."""
    folder = new_skill(trial.directory)
    snapshot = await trial.executor.snapshot(SKILL, folder)
    await trial.workspace.stage(snapshot)
    await trial.run(Command(python_argv(CHANGE), skill=SKILL, cwd=HOME))
    original = (folder / "SKILL.md").read_bytes()
    again = await trial.executor.snapshot(SKILL, folder)
    expect(again == snapshot, "the folder that the skill was taken from was changed")
    other = f"{trial.key}-next"
    try:
        workspace = await trial.executor.open(other)
        await workspace.stage(again)
        expect(
            await read_content(workspace, f"{HOME}/SKILL.md") == original, "SKILL.md is changed in the next workspace"
        )
        expect(
            await read_content(workspace, f"{HOME}/assets/picture.png") == PNG, "a picture is changed in the next one"
        )
        found = await list_paths(workspace, f"{HOME}/*")
        expect(found == [f"{HOME}/SKILL.md"], f"in the next workspace there are {found}")
    finally:
        await trial.executor.remove(other)


async def _check_venv(trial: ExecutorTrial) -> None:
    """`.venv` is the one place of a skill to write to; it is kept when a newer snapshot is staged, and comes first."""
    folder = new_skill(trial.directory)
    await trial.workspace.stage(await trial.executor.snapshot(SKILL, folder))
    installed = f"mkdir {VENV}/bin && printf '#!/bin/sh\\necho installed' > {VENV}/bin/openskills-check-hello"
    await trial.read_output(
        skill_command(f"{installed} && chmod +x {VENV}/bin/openskills-check-hello && echo x > {VENV}/kept")
    )
    (folder / "SKILL.md").write_bytes(b"newer")
    await trial.workspace.stage(await trial.executor.snapshot(SKILL, folder))
    said = await trial.read_output(
        skill_command(f"cat SKILL.md {VENV}/kept; openskills-check-hello; echo $VIRTUAL_ENV")
    )
    venv = f"{trial.workspace.root}/{HOME}/{VENV}"
    expect(said == f"newerx\ninstalled\n{venv}\n", f"after a newer snapshot was staged there is {said!r}")
    await trial.read_output(skill_command(f"rm {VENV}/kept && echo again > {VENV}/kept"))
    await trial.workspace.close()
    workspace = await trial.executor.open(trial.key)
    expect(
        await read_content(workspace, f"{HOME}/{VENV}/kept") == b"again\n", "it is gone when the workspace is closed"
    )


async def _check_skill_links(trial: ExecutorTrial) -> None:
    """`out`, `work` and `inputs` under a skill are the workspace's own."""
    await stage_skill(trial)
    await trial.workspace.write("work/inputs/given", b"given")
    said = await trial.read_output(skill_command("cat inputs/given && echo made > out/made && echo kept > work/kept"))
    expect(said == "given", f"the skill reads {said!r} in its inputs")
    for path in ("out/made", "work/kept"):
        expect(await read_content(trial.workspace, path) == path[-4:].encode() + b"\n", f"{path} is another file")
    for name in LINKS:
        doubled = await list_paths(trial.workspace, f"{HOME}/{name}/**")
        expect(not any(path.startswith("skills/") for path in doubled), f"files are listed as the skill's: {doubled}")
    seen = await list_paths(trial.workspace, "**/made")
    expect(seen == ["out/made"], f"one file is listed as {seen}")


async def _check_stage_twice(trial: ExecutorTrial) -> None:
    """Staging what is staged already does nothing; a command that runs in a skill is not disturbed by a newer one."""
    folder = new_skill(trial.directory)
    snapshot = await trial.executor.snapshot(SKILL, folder)
    await trial.workspace.stage(snapshot)
    before = await trial.read_output(skill_command("stat -c %i . SKILL.md .venv"))
    await trial.workspace.stage(snapshot)
    expect(await trial.read_output(skill_command("stat -c %i . SKILL.md .venv")) == before, "they are other files")
    command = Command(shell_argv("read line; cat SKILL.md"), skill=SKILL, cwd=HOME, input_open=True)
    process = await trial.workspace.start(command)
    (folder / "SKILL.md").write_bytes(b"newer")
    await trial.workspace.stage(await trial.executor.snapshot(SKILL, folder))
    await process.write(b"\n")
    ended = await process.wait()
    expect(ended.exit_code == 0 and ended.stdout.total > 0, f"a command that was running: {describe_result(ended)}")


SKILLS: tuple[Promise, ...] = (
    _check_skill_unchanged, _check_attempts, _check_venv, _check_skill_links, _check_stage_twice,
)  # fmt: skip
