"""The first command of a session, in a new process: a model loads a skill, answers, and runs a command."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from peer_turns import in_turns_or_why
from report import Target
from running_bench import write_skill
from running_part import NotMeasured, Part, Surroundings, raw_series, series_table
from sampling import Way

from openskills.errors import ExecutorUnavailable
from openskills.executors import open_executor
from openskills.settings import Settings
from openskills.subprocesses import run_program

FIRST, LATER, AT_ONCE = "first command", "second command", "first command, without a pause"
BOUND, PAUSE = 150.0, 0.5
_ABOUT = f"""
Each measurement is a new process with a new state directory: a session, `skill_load` of a skill with scripts, a pause
of {PAUSE} seconds in place of a model's answer, and two calls of `skill_run`, all in the sandbox. The workspace is
opened, and the sandbox tests itself, during the pause.
"""
_PROGRAM = """
import asyncio, json, sys, time
from pathlib import Path
from openskills.catalog import Catalog
from openskills.catalog.sources.parse import parse_source
from openskills.executors import open_executor
from openskills.runtime import SkillRuntime
from openskills.settings import Settings
async def main(skills, pause):
    settings = Settings.from_env()
    catalog = Catalog([parse_source(skills, settings)], settings=settings)
    async with SkillRuntime(catalog, open_executor("sandbox", settings), settings=settings) as runtime:
        async with runtime.session("s") as session:
            name = next(iter(runtime.catalog.skills)).name
            await session.call("skill_load", {"skill": name})
            await asyncio.sleep(pause)
            times = []
            for _ in range(2):
                begin = time.perf_counter()
                result = await session.call("skill_run", {"skill": name, "command": "true"})
                times.append(time.perf_counter() - begin)
                assert '"exit_code":0' in result.text, result.text
            print(json.dumps(times))
asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""


async def measure(at: Surroundings) -> Part:
    """The first and the second command of sessions in new processes."""
    missing: dict[str, str] = {}
    skill = write_skill(at.scratch / "skills", 20)
    (skill / "scripts").mkdir(exist_ok=True)
    (skill / "scripts" / "main.py").write_text("print(1)\n")
    executor = open_executor("sandbox", Settings.from_env())
    try:
        await executor.check()
    except ExecutorUnavailable as error:
        missing |= dict.fromkeys((FIRST, LATER, AT_ONCE), f"the sandbox: {error.message}")
    finally:
        await executor.close()
    ways = {
        FIRST: _session(skill.parent, at.scratch, PAUSE, 0),
        LATER: _session(skill.parent, at.scratch, PAUSE, 1),
        AT_ONCE: _session(skill.parent, at.scratch, 0.0, 0),
    }
    at.say("first commands of sessions in new processes")
    found = await in_turns_or_why(
        {name: way for name, way in ways.items() if name not in missing}, at.extent.few, missing
    )
    value = 1000 * found[FIRST].median if FIRST in found else None
    return Part(
        "The first command of a session",
        _ABOUT,
        [
            Target(
                "first command of a session, sandbox",
                value,
                BOUND,
                at_least=False,
                unit="ms",
                why=missing.get(FIRST, ""),
            )
        ],
        series_table(found),
        missing=list(dict.fromkeys(missing.values())),
        raw=raw_series(found),
    )


def _session(skills: Path, scratch: Path, pause: float, which: int) -> Way:
    counter = iter(range(10**6))

    async def once() -> float:
        state = scratch / f"state-{pause:g}-{which}-{next(counter)}"
        return _run(skills, state, pause)[which]

    return once


def _run(skills: Path, state: Path, pause: float) -> list[float]:
    environment: Mapping[str, str] = {**os.environ, "OPENSKILL_STATE_DIR": str(state)}
    argv = [sys.executable, "-c", _PROGRAM, str(skills), str(pause)]
    done = run_program(argv, environment=environment, cwd=Path.cwd(), timeout=60, max_output=2**20)
    if done.returncode:
        raise NotMeasured(done.stderr.decode("utf-8", "replace")[-300:])
    return json.loads(done.stdout)
