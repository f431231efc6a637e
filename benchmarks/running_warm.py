"""A script that imports pandas, from a warm interpreter against a cold one, in the same sandbox."""

import os
import shlex
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from peer_process import Installed, PeerProcess, new_home, peer_process
from peer_turns import in_turns_or_why
from reasons import one_line
from report import Target
from running_bench import Ground, ground
from running_part import NotMeasured, Part, Surroundings, raw_series, series_table
from sampling import Series, Way, timed
from tools_session import loaded_session

from openskills.errors import ExecutorUnavailable
from openskills.executors.commands import CommandRunner
from openskills.executors.requests import RunRequest
from openskills.runtime.session import SkillSession

TITLE, COLD, WARM = "A warm interpreter", "cold", "warm"
RUN_COLD, RUN_WARM = "skill_run, cold", "skill_run, warm"
FORK, PYTHON = "os.fork(), pandas loaded", "python -c"
_SCRIPT = """\
import sys
loaded = "pandas" in sys.modules
import pandas
print("warm" if loaded else "cold", pandas.Series([1, 2, 3]).sum())
"""
_PANDAS = Installed("pandas", "running", "pandas")
_PROGRAM, _MODULES, _TRIES = str(_PANDAS.python), ("pandas",), 10
_PROMISE, _BOUND = "a script that imports pandas: warm, faster than cold", 20

_ABOUT = f"""
A script that imports pandas and adds three numbers, in the sandbox. Cold: a new interpreter. Warm: a new process that
is forked from an interpreter in the session's sandbox which has already imported pandas, and was started before the
measurement. The script reports whether pandas was loaded. The baselines isolate nothing: "{FORK}" is a process that
runs the same code, forked from an interpreter with pandas, with its output in a pipe; "{PYTHON}" is `subprocess.run`
of the same code. "{RUN_WARM}" is the model's tool with the command `python scripts/sum.py` and a skill with
`openskills-warm: pandas`; "{RUN_COLD}" is a skill without it.
"""


async def measure(at: Surroundings) -> Part:
    """All ways in turns: what is warm against a fork, what is cold against an interpreter."""
    missing: dict[str, str] = {}
    try:
        found = await _measured(at, missing)
    except NotMeasured as reason:
        return Part(TITLE, _ABOUT, [Target(_PROMISE, None, _BOUND, why=str(reason))], "", missing=[str(reason)])
    target = Target(_PROMISE, found[COLD].median / found[WARM].median, _BOUND)
    tables = [
        series_table({name: found[name] for name in names if name in found}, base=names[0])
        for names in ((FORK, WARM, RUN_WARM), (PYTHON, COLD, RUN_COLD))
    ]
    reasons = list(dict.fromkeys(missing.values()))
    return Part(TITLE, _ABOUT, [target], "\n\n".join(tables), missing=reasons, raw=raw_series(found))


async def _measured(at: Surroundings, missing: dict[str, str]) -> dict[str, Series]:
    _PANDAS.check()
    async with AsyncExitStack() as stack:
        try:
            opening = ground("sandbox", at.scratch, read_only=[_PANDAS.directory])
            place = await stack.enter_async_context(opening)
        except ExecutorUnavailable as error:
            raise NotMeasured(one_line(f"the sandbox: {error.message}")) from error
        at.say("importing pandas, cold and warm")
        ways = await _floors(at.scratch, stack, missing)
        ways |= await _benched(place)
        ways |= await _called(place, at.scratch / "skills", stack)
        return await in_turns_or_why(ways, at.extent.few, missing)


async def _floors(scratch: Path, stack: AsyncExitStack, missing: dict[str, str]) -> dict[str, Way]:
    script = scratch / "sum.py"
    script.write_text(_SCRIPT, "utf-8")
    variables = {"PATH": os.defpath, **new_home(scratch)}

    async def bare() -> None:
        done = subprocess.run([_PROGRAM, "-c", _SCRIPT], env=variables, capture_output=True, text=True, check=True)
        _check(done.stdout, COLD)

    try:
        opening = peer_process(_PANDAS, "running_fork.py", *_MODULES, variables=variables)
        mother = await stack.enter_async_context(opening)
    except NotMeasured as reason:
        missing[FORK] = str(reason)
        return {PYTHON: timed(bare)}
    return {FORK: _forking(mother, script), PYTHON: timed(bare)}


def _forking(mother: PeerProcess, script: Path) -> Way:
    async def once() -> float:
        answer = await mother.ask({"script": str(script)})
        _check(answer["said"], WARM)
        return float(answer["seconds"])

    return once


async def _benched(place: Ground) -> dict[str, Way]:
    """`CommandRunner.run`, warm and cold in one workspace."""
    bench = await place.bench()
    await bench.workspace.write("work/sum.py", _SCRIPT.encode())
    return {COLD: _said(lambda: _run(bench, None), COLD), WARM: await _warmed(lambda: _run(bench, _MODULES))}


async def _run(bench: CommandRunner, warm: tuple[str, ...] | None) -> str:
    result = await bench.run(RunRequest((_PROGRAM, "sum.py"), cwd="work", warm=warm))
    return result.stdout or result.stderr


async def _called(place: Ground, skills: Path, stack: AsyncExitStack) -> dict[str, Way]:
    """`skill_run` of a session that has loaded a skill of each kind."""
    for name, metadata in ((WARM, "metadata:\n  openskills-warm: pandas\n"), (COLD, "")):
        (skills / name / "scripts").mkdir(parents=True)
        (skills / name / "scripts" / "sum.py").write_text(_SCRIPT, "utf-8")
        front = f"---\nname: {name}\ndescription: Adds numbers. Use when measuring.\n{metadata}---\n\n# Adding\n"
        (skills / name / "SKILL.md").write_text(front, "utf-8")
    session = await stack.enter_async_context(loaded_session(place, skills, WARM, COLD))
    return {
        RUN_COLD: _said(lambda: _call(session, COLD), COLD),
        RUN_WARM: await _warmed(lambda: _call(session, WARM)),
    }


async def _call(session: SkillSession, skill: str) -> str:
    command = shlex.join([_PROGRAM, "scripts/sum.py"])
    result = await session.call("skill_run", {"skill": skill, "command": command})
    return result.text if result.error is not None else result.data["stdout"] or result.text


async def _warmed(run: Callable[[], Awaitable[str]]) -> Way:
    """A way that is warm from now on; commands that come before the interpreter is ready are started cold."""
    said = ""
    for _ in range(_TRIES):
        said = await run()
        if said.startswith(WARM):
            return _said(run, WARM)
    raise NotMeasured(f"the warm interpreter: the script still says {one_line(said)!r}")


def _said(run: Callable[[], Awaitable[str]], state: str) -> Way:
    async def act() -> None:
        _check(await run(), state)

    return timed(act)


def _check(said: str, state: str) -> None:
    if said.strip() != f"{state} 6":
        raise RuntimeError(f"the script is not {state}, or has failed: {said}")
