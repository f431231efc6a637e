"""A host with one agent that works until somebody kills it: `crash_program.py STORE DIRECTORY SESSION`.

Prints the id of every event once it is stored.
"""

import asyncio
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from openskills.agent.agent import Agent
from openskills.agent.model import Answer
from openskills.agent.runner import Runner
from openskills.catalog.catalog import Catalog
from openskills.runtime.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.testing import ScriptedModel
from tests.agent.agents import calling


def settings_of(directory: Path) -> Settings:
    return Settings.from_env({"HOME": str(directory), "PATH": "/usr/bin:/bin"})


def script(session: str) -> Iterator[Answer]:
    """Loads, commands that take a while, two at once, and answers, without end."""
    slow = f"echo x >> out/{session}; sleep 0.0{len(session) % 7 + 1}"
    for _ in itertools.count():
        yield calling(("skill_load", {"skill": "alpha"}))
        yield calling(
            ("skill_run", {"skill": "alpha", "command": slow, "save_as_artifacts": True, "output_files": ["out/*"]}),
            ("skill_list_docs", {"skill": "alpha"}),
        )
        yield calling(("skill_run", {"skill": "alpha", "command": f"sleep 60.{session[1:]} & sleep 0.02"}))
        yield Answer("so far so good")


async def work(store: str, directory: Path, session: str) -> None:
    settings = settings_of(directory)
    catalog = Catalog.from_paths(directory / "skills", settings=settings)
    async with SkillRuntime(catalog, "local", settings=settings, store=store) as runtime:
        runner = Runner("app", Agent("assistant", ScriptedModel(script(session)), runtime))
        for number in itertools.count():
            async for event in runner.run(user="u", session=session, message=f"message {number}"):
                if event.seq:
                    sys.stdout.write(f"{event.id}\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
