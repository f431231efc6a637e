"""Promises about staged skills, as commands see them."""

from openskills.executors.layout import LINKS, VENV
from openskills.executors.spec import Command
from openskills.testing.executor_staging import SKILL, new_skill, staged
from openskills.testing.promises import PNG, expect
from openskills.testing.trial import Promise, Trial, content, listed, python, shell, told

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


def in_skill(text: str) -> Command:
    """A line of shell in the skill's own directory."""
    return Command(shell(text), skill=SKILL, cwd=HOME)


async def _as_it_was(trial: Trial) -> None:
    """Commands find a skill as it was taken: bytes, programs that can be started, and no permission to write."""
    await staged(trial)
    text = "import sys; sys.stdout.buffer.write(open('assets/picture.png', 'rb').read())"
    ended = await trial.run(Command(python(text), skill=SKILL, cwd=HOME))
    expect(ended.stdout.bytes() == PNG, f"a picture of the skill reads as other bytes: {told(ended)}")
    said = await trial.said(in_skill("scripts/run.py; openskills-check-hello; cat 'deep/er/two words.txt'"))
    expect(said == "run\nhello\ntext\r\n", f"scripts of the skill say {said!r}")
    looked = await trial.run(Command(python(_WRITABLE), skill=SKILL, cwd=HOME))
    expect(looked.stdout.bytes() == b"[]\n", f"nothing may be writable by its permissions, and there is {told(looked)}")


async def _attempts(trial: Trial) -> None:
    """Whatever a command does to its skill, the next workspace and the folder that it was taken from see none of it."""
    folder = new_skill(trial.directory)
    snapshot = await trial.executor.snapshot(SKILL, folder)
    await trial.workspace.stage(snapshot)
    await trial.run(Command(python(CHANGE), skill=SKILL, cwd=HOME))
    original = (folder / "SKILL.md").read_bytes()
    again = await trial.executor.snapshot(SKILL, folder)
    expect(again == snapshot, "the folder that the skill was taken from was changed")
    other = f"{trial.key}-next"
    try:
        workspace = await trial.executor.open(other)
        await workspace.stage(again)
        expect(await content(workspace, f"{HOME}/SKILL.md") == original, "SKILL.md is changed in the next workspace")
        expect(await content(workspace, f"{HOME}/assets/picture.png") == PNG, "a picture is changed in the next one")
        found = await listed(workspace, f"{HOME}/*")
        expect(found == [f"{HOME}/SKILL.md"], f"in the next workspace there are {found}")
    finally:
        await trial.executor.remove(other)


async def _venv(trial: Trial) -> None:
    """`.venv` is the one place of a skill to write to; it is kept when a newer snapshot is staged, and comes first."""
    folder = new_skill(trial.directory)
    await trial.workspace.stage(await trial.executor.snapshot(SKILL, folder))
    installed = f"mkdir {VENV}/bin && printf '#!/bin/sh\\necho installed' > {VENV}/bin/openskills-check-hello"
    await trial.said(in_skill(f"{installed} && chmod +x {VENV}/bin/openskills-check-hello && echo x > {VENV}/kept"))
    (folder / "SKILL.md").write_bytes(b"newer")
    await trial.workspace.stage(await trial.executor.snapshot(SKILL, folder))
    said = await trial.said(in_skill(f"cat SKILL.md {VENV}/kept; openskills-check-hello; echo $VIRTUAL_ENV"))
    venv = f"{trial.workspace.root}/{HOME}/{VENV}"
    expect(said == f"newerx\ninstalled\n{venv}\n", f"after a newer snapshot was staged there is {said!r}")
    await trial.said(in_skill(f"rm {VENV}/kept && echo again > {VENV}/kept"))
    await trial.workspace.close()
    workspace = await trial.executor.open(trial.key)
    expect(await content(workspace, f"{HOME}/{VENV}/kept") == b"again\n", "it is gone when the workspace is closed")


async def _links(trial: Trial) -> None:
    """`out`, `work` and `inputs` under a skill are the workspace's own."""
    await staged(trial)
    await trial.workspace.write("work/inputs/given", b"given")
    said = await trial.said(in_skill("cat inputs/given && echo made > out/made && echo kept > work/kept"))
    expect(said == "given", f"the skill reads {said!r} in its inputs")
    for path in ("out/made", "work/kept"):
        expect(await content(trial.workspace, path) == path[-4:].encode() + b"\n", f"{path} is another file")
    for name in LINKS:
        doubled = await listed(trial.workspace, f"{HOME}/{name}/**")
        expect(not any(path.startswith("skills/") for path in doubled), f"files are listed as the skill's: {doubled}")
    seen = await listed(trial.workspace, "**/made")
    expect(seen == ["out/made"], f"one file is listed as {seen}")


async def _not_again(trial: Trial) -> None:
    """Staging what is staged already does nothing; a command that runs in a skill is not disturbed by a newer one."""
    folder = new_skill(trial.directory)
    snapshot = await trial.executor.snapshot(SKILL, folder)
    await trial.workspace.stage(snapshot)
    before = await trial.said(in_skill("stat -c %i . SKILL.md .venv"))
    await trial.workspace.stage(snapshot)
    expect(await trial.said(in_skill("stat -c %i . SKILL.md .venv")) == before, "they are other files")
    command = Command(shell("read line; cat SKILL.md"), skill=SKILL, cwd=HOME, input_open=True)
    process = await trial.workspace.start(command)
    (folder / "SKILL.md").write_bytes(b"newer")
    await trial.workspace.stage(await trial.executor.snapshot(SKILL, folder))
    await process.write(b"\n")
    ended = await process.wait()
    expect(ended.exit_code == 0 and ended.stdout.total > 0, f"a command that was running: {told(ended)}")


SKILLS: tuple[Promise, ...] = (_as_it_was, _attempts, _venv, _links, _not_again)
