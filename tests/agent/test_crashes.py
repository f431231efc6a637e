"""A host that is killed in the middle of a run, a hundred times on each store."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from openskills.agent.agent import Agent
from openskills.agent.log import transcript, unanswered
from openskills.agent.model import Answer
from openskills.agent.runner import Runner
from openskills.catalog.catalog import Catalog
from openskills.runtime.runtime import SkillRuntime
from openskills.session.store import SessionKey
from openskills.sync import run
from openskills.testing import ScriptedModel
from tests.agent.agents import skills_for_agents
from tests.agent.crash_program import settings_of
from tests.servers.postgres import PostgresServer

ROUNDS, AT_ONCE = 100, 4


def killed_after(store: str, directory: Path, session: str, seconds: float) -> list[str]:
    """The ids of the events that a host had stored when it was killed, so long after the first of them."""
    program = [sys.executable, "-m", "tests.agent.crash_program", store, str(directory), session]
    errors = directory / f"{session}.errors"
    with errors.open("wb") as stderr, subprocess.Popen(program, stdout=subprocess.PIPE, stderr=stderr) as child:
        assert child.stdout is not None
        acknowledged = child.stdout.readline()
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
        acknowledged += child.stdout.read()
    assert child.returncode == -signal.SIGKILL, errors.read_text()
    return acknowledged.decode().split("\n")[:-1]


async def check(runtime: SkillRuntime, session: str, acknowledged: list[str]) -> None:
    before = await runtime.store.get(SessionKey("app", "u", session))
    stored = [event.id for event in before.events] if before else []
    assert [identity for identity in acknowledged if identity not in stored] == []
    agent = Agent("assistant", ScriptedModel([Answer("back again")]), runtime)
    reply = await Runner("app", agent).reply(user="u", session=session, message="are you there?")
    assert reply.text == "back again", reply.error
    after = await runtime.store.get(SessionKey("app", "u", session))
    assert after is not None
    assert unanswered(transcript(after.events, "assistant")) == []
    # The workspace is nobody's any more.
    async with runtime.session(session, user="u", app="app") as opened:
        await opened.call("skill_load", {"skill": "alpha"})
        assert (await opened.call("skill_run", {"skill": "alpha", "command": "true"})).error is None


def crashes(store: str, directory: Path) -> None:
    chance = random.Random(7)
    skills_for_agents(directory)
    settings = settings_of(directory)
    moments = {f"s{number}": chance.random() * 0.5 for number in range(ROUNDS)}

    async def go() -> int:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(session: str, seconds: float) -> tuple[str, list[str]]:
            async with room:
                return session, await asyncio.to_thread(killed_after, store, directory, session, seconds)

        found = await asyncio.gather(*(one(session, seconds) for session, seconds in moments.items()))
        catalog = Catalog.from_paths(directory / "skills", settings=settings)
        async with SkillRuntime(catalog, "local", settings=settings, store=store) as runtime:
            for session, acknowledged in found:
                await check(runtime, session, acknowledged)
        return sum(bool(acknowledged) for _, acknowledged in found)

    assert run(go()) == ROUNDS
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert [line for line in running.splitlines() if line.startswith("sleep 60.")] == []


@pytest.mark.slow
def test_on_sqlite_nothing_that_was_acknowledged_is_lost_and_everything_opens_again(tmp_path: Path) -> None:
    crashes(f"sqlite:///{tmp_path}/sessions.db", tmp_path)


@pytest.mark.slow
def test_on_postgresql_too(tmp_path: Path, postgres_server: PostgresServer) -> None:
    crashes(postgres_server.new_database(), tmp_path)
