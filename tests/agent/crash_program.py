"""A host with one agent that works until somebody kills it."""

import asyncio
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from openskills.agent.agent import Agent
from openskills.agent.models.model import ModelResponse
from openskills.agent.runner import Runner
from openskills.catalog.catalog import Catalog
from openskills.runtime.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.testing.models import ScriptedModel
from tests.agent.agents import calling


def settings_of(directory: Path) -> Settings:
    leases = {"OPENSKILL_LEASE_TTL": "2s", "OPENSKILL_LEASE_WAIT": "1m"}
    return Settings.from_env({"HOME": str(directory), "PATH": "/usr/bin:/bin", **leases})


def script(session: str) -> Iterator[ModelResponse]:
    """Loads, commands that take a while, two at once, and answers, without end."""
    slow = f"echo x >> out/{session}; sleep 0.0{len(session) % 7 + 1}"
    for _ in itertools.count():
        yield calling(("skill_load", {"skill": "alpha"}))
        yield calling(
            ("skill_run", {"skill": "alpha", "command": slow, "save_as_artifacts": True, "output_files": ["out/*"]}),
            ("skill_list_docs", {"skill": "alpha"}),
        )
        yield calling(("skill_run", {"skill": "alpha", "command": f"sleep 60.{session[1:]} & sleep 0.02"}))
        yield ModelResponse("so far so good")


def host(store: str, directory: str, session: str, log: str) -> None:
    """Work, and write the id of every event into the log once it is stored."""
    acknowledged = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
    asyncio.run(_work(store, Path(directory), session, acknowledged))


async def _work(store: str, directory: Path, session: str, acknowledged: int) -> None:
    settings = settings_of(directory)
    catalog = Catalog.from_paths(directory / "skills", settings=settings)
    async with SkillRuntime(catalog, "local", settings=settings, store=store) as runtime:
        runner = Runner("app", Agent("assistant", ScriptedModel(script(session)), runtime))
        for number in itertools.count():
            async for event in runner.run(user="u", session=session, message=f"message {number}"):
                if event.seq:
                    os.write(acknowledged, f"{event.id}\n".encode())
