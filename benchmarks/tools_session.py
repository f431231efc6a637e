"""Our own side: a conversation in which a skill is loaded, and whose tool is called as a model calls it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import join

from running_bench import SKILL, Ground
from sampling import Way, timed

from openskills.catalog.catalog import Catalog
from openskills.executors.commands import CommandRunner
from openskills.executors.requests import RunRequest
from openskills.executors.staging.outputs import OutputSpec
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession


@asynccontextmanager
async def loaded_session(place: Ground, skills: Path, *names: str) -> AsyncGenerator[SkillSession]:
    """A new conversation that has loaded these skills; without a name, the one that `write_skill` writes."""
    catalog = Catalog.from_paths(skills, settings=place.settings)
    runtime = SkillRuntime(catalog, place.executor, settings=place.settings)
    async with runtime, runtime.session("bench") as session:
        for name in names or (SKILL,):
            loaded = await session.call("skill_load", {"skill": name})
            if loaded.error is not None:
                raise RuntimeError(loaded.text)
        yield session


def called(session: SkillSession, argv: Sequence[str]) -> Way:
    """`skill_run`, through the door that a model's calls come through."""
    arguments = {"skill": SKILL, "command": join(argv)}

    async def call() -> None:
        result = await session.call("skill_run", arguments)
        if result.error is not None or result.data["exit_code"]:
            raise RuntimeError(result.text)

    return timed(call)


def benched(bench: CommandRunner, argv: Sequence[str]) -> Way:
    """What `skill_run` asks its workbench for: the same command as text, and what is new in `out/`."""
    request = RunRequest(join(argv), skill=SKILL, outputs=OutputSpec(("out/**",)))

    async def run() -> None:
        result = await bench.run(request)
        if result.exit_code:
            raise RuntimeError(result.stderr)

    return timed(run)
