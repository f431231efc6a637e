"""A host that is killed in the middle of a run, a hundred times on each store."""

import asyncio
import multiprocessing
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from openskills.agent.agent import Agent, build_transcript, find_unanswered_calls
from openskills.agent.models.model import ModelResponse
from openskills.agent.runner import Runner
from openskills.catalog.catalog import Catalog
from openskills.runtime.runtime import SkillRuntime
from openskills.session.store import SessionKey
from openskills.sync import run
from openskills.testing.models import ScriptedModel
from tests.agent.agents import skills_for_agents
from tests.agent.crash_program import host, settings_of
from tests.long_form import LONG
from tests.servers.postgres import PostgresServer

ROUNDS, AT_ONCE = 100 if LONG else 8, 4
HOSTS = multiprocessing.get_context("forkserver")
# Hosts are forked from a process that has imported everything: nobody waits for that two hundred times.
HOSTS.set_forkserver_preload(["tests.agent.crash_program"])


def killed_after(store: str, directory: Path, session: str, seconds: float) -> list[str]:
    """The ids of the events that a host had stored when it was killed, so long after the first of them."""
    log = directory / f"{session}.acknowledged"
    child = HOSTS.Process(target=host, args=(store, str(directory), session, str(log)))
    child.start()
    deadline = time.monotonic() + 60
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        child.join(0.01)
    child.join(seconds)
    child.kill()
    child.join()
    # 255 is what a fork server says when it did not see the end itself; one that failed by itself has 1.
    assert child.exitcode in (-signal.SIGKILL, 255)
    child.close()
    return log.read_text().split("\n")[:-1]


async def check(runtime: SkillRuntime, session: str, acknowledged: list[str]) -> None:
    before = await runtime.store.get(SessionKey("app", "u", session))
    stored = [event.id for event in before.events] if before else []
    assert [identity for identity in acknowledged if identity not in stored] == []
    agent = Agent("assistant", ScriptedModel([ModelResponse("back again")]), runtime)
    reply = await Runner("app", agent).reply(user="u", session=session, message="are you there?")
    assert reply.text == "back again", reply.error
    after = await runtime.store.get(SessionKey("app", "u", session))
    assert after is not None
    assert find_unanswered_calls(build_transcript(after.events, "assistant")) == []
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
