"""Promises about what a command finds when it starts: its variables and its directories."""

import json

from openskills.executors.layout import RUNS, variables
from openskills.executors.spec import Command, Terminal
from openskills.testing.executor_staging import SKILL, staged
from openskills.testing.promises import expect
from openskills.testing.trial import Promise, Trial, python, told

DOCUMENTED = frozenset(
    {
        *variables("", "", SKILL),
        *("PATH", "HOME", "TMPDIR", "LANG", "TERM", "VIRTUAL_ENV"),
        # The name of the run, by which the executor finds it again.
        "OPENSKILL_RUN",
        # What shells add by themselves.
        *("PWD", "OLDPWD", "SHLVL", "_"),
    }
)
"""Every variable that a command may see without being given it."""

_ENVIRONMENT = "import json, os; print(json.dumps({**os.environ}))"
_INTERPRETER = """
import json, os, sys
print(json.dumps([os.path.realpath(sys.executable), sys.version, sys.prefix, sys.base_prefix]))
"""
_STRANGE = {"GREETING": "héllo = 'a' \"b\" $HOME `c`\nand another line ", "EMPTY": "", "lower_case": "x" * 50_000}
_PLACES = """
import json, os, tempfile
def writable(path):
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            return 'yes' if file.write(b'x') else 'no'
    except OSError as error:
        return str(error)
names = ('WORK_DIR', 'OUTPUT_DIR', 'RUN_DIR', 'HOME', 'TMPDIR')
print(json.dumps({'.': os.getcwd()} | {name: writable(os.environ[name]) for name in names}))
"""


async def seen(trial: Trial, command: Command) -> dict[str, str]:
    """The variables that a command sees."""
    return json.loads(await trial.said(command))


async def _clean(trial: Trial) -> None:
    """A command sees the documented variables and nothing else, none of this process among them."""
    await staged(trial)
    commands = (
        Command(python(_ENVIRONMENT)),
        Command(python(_ENVIRONMENT), skill=SKILL, cwd=f"skills/{SKILL}"),
        Command(python(_ENVIRONMENT), terminal=Terminal()),
    )
    for command in commands:
        strange = (await seen(trial, command)).keys() - DOCUMENTED
        expect(not strange, f"it sees {', '.join(sorted(strange))}")


async def _layout(trial: Trial) -> None:
    """The documented variables lead to the places of the workspace."""
    await staged(trial)
    for skill in (None, SKILL):
        run_dir = f"{RUNS}/check-{skill}"
        found = await seen(trial, Command(python(_ENVIRONMENT), skill=skill, run_dir=run_dir))
        for name, value in variables(trial.workspace.root, run_dir, skill).items():
            expect(found.get(name) == value, f"{name} is {found.get(name)!r} and not {value!r}")
        expect(skill is not None or "SKILL_NAME" not in found, "SKILL_NAME is there without a skill")
        expect("UTF-8" in found.get("LANG", ""), f"LANG is {found.get('LANG')!r}, which is no UTF-8")


async def _places(trial: Trial) -> None:
    """A command begins in its directory; it can write to the places that its variables name."""
    await trial.workspace.make_directory("work/sub dir")
    root = trial.workspace.root
    for cwd, place in ((".", root), ("work/sub dir", f"{root}/work/sub dir"), ("out", f"{root}/out")):
        found = await seen(trial, Command(python(_PLACES), cwd=cwd, run_dir="runs/new/run"))
        expect(found.pop(".") == place, f"the command with the directory {cwd!r} begins in another one")
        expect(set(found.values()) == {"yes"}, f"what can be written to: {found}")


async def _given(trial: Trial) -> None:
    """What the caller gives arrives unchanged, secrets like other variables; the next command has none of it."""
    secrets = {"API_TOKEN": "s3cret \n'\" value"}
    found = await seen(trial, Command(python(_ENVIRONMENT), env=_STRANGE, secrets=secrets))
    for name, value in {**_STRANGE, **secrets}.items():
        expect(found.get(name) == value, f"{name} is {str(found.get(name))[:60]!r} and not {value[:60]!r}")
    left = (await seen(trial, Command(python(_ENVIRONMENT)))).keys() & {*_STRANGE, *secrets}
    expect(not left, f"the next command sees {', '.join(sorted(left))}")


async def _owned(trial: Trial) -> None:
    """What the caller gives never takes the place of the workspace's own variables."""
    wanted = {**variables("/elsewhere", "runs/other", "other"), "PATH": "/elsewhere", "HOME": "/elsewhere"}
    found = await seen(trial, Command(python(_ENVIRONMENT), env=wanted, secrets={"WORK_DIR": "/elsewhere"}))
    del wanted["SKILL_NAME"]
    taken = [name for name, value in wanted.items() if found.get(name) == value]
    expect(not taken, f"the caller's value is that of {', '.join(taken)}")


async def _interpreter(trial: Trial) -> None:
    """`python` and `python3` are the same interpreter, also for what a shell starts."""
    found: dict[str, object] = {}
    for name in ("python", "python3"):
        for argv in ((name, "-c", _INTERPRETER), ("sh", "-c", f'{name} -c "$1"', "sh", _INTERPRETER)):
            ended = await trial.run(Command(argv))
            expect(ended.exit_code == 0, f"{name} does not run: {told(ended)}")
            found[name] = json.loads(ended.stdout.text())
    expect(found["python"] == found["python3"], f"they differ: {found}")


async def _arguments(trial: Trial) -> None:
    """Arguments arrive as they are, no shell between: blanks, quotes, newlines, none at all, 100,000 bytes."""
    arguments = ["two words", "", "'\"$HOME`x`*", "line\nbreak", "-n", "é图", "x" * 100_000]
    found = await trial.answer("import json, sys; print(json.dumps(sys.argv[1:]))", *arguments)
    expect(found == arguments, f"other arguments arrived: {str(found)[:200]}")


ENVIRONMENT: tuple[Promise, ...] = (_clean, _layout, _places, _given, _owned, _interpreter, _arguments)
