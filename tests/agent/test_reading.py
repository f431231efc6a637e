"""A run and whoever reads its events: slowly, not at all, or no longer."""

import asyncio
import gc
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.agent.agent import Agent, AgentLimits
from openskills.agent.models.model import ModelEvent, ModelRequest, ModelResponse, TextDelta
from openskills.agent.runner import Runner
from openskills.agent.turn import MAX_WAITING_EVENTS
from openskills.session.memory import MemorySessionStore
from openskills.session.store import SessionKey
from tests.agent.agents import agent_in, calling, heard, kinds, skills_for_agents
from tests.runtime.talking import runtime_in

WORDS = 5_000


class Talkative:
    """A model that says many words as fast as it is listened to, and knows when somebody stopped listening."""

    name = "talkative"

    def __init__(self) -> None:
        self.said = 0
        self.closed = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        assert request.messages
        try:
            for _ in range(WORDS):
                self.said += 1
                yield TextDelta("word ")
            yield ModelResponse("word " * WORDS)
        finally:
            self.closed.set()

    async def close(self) -> None:
        pass


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


async def quiet() -> None:
    """Let everything happen that can."""
    for _ in range(2_000):
        await asyncio.sleep(0)


async def test_a_slow_reader_makes_the_model_wait_and_gets_everything(place: Path) -> None:
    model = Talkative()
    stream = Runner("app", Agent("assistant", model, runtime_in(place))).run(user="u", session="s", message="x")
    await anext(stream)
    await quiet()
    assert 0 < model.said <= MAX_WAITING_EVENTS + 1
    rest = [event async for event in stream]
    assert model.said == WORDS
    assert sum(event.kind == "assistant.delta" for event in rest) == WORDS
    assert rest[-1].kind == "end"


async def test_many_calls_of_one_answer_wait_for_their_reader_too(place: Path) -> None:
    many = calling(*[("skill_list_docs", {"skill": "alpha"})] * 600)
    store = MemorySessionStore()
    agent, _ = agent_in(place, [many, ModelResponse("ok")], store=store)

    patient = replace(agent, limits=AgentLimits(tool_calls=600))
    stream = Runner("app", patient).run(user="u", session="s", message="x")
    await anext(stream)
    await quiet()
    found = await store.get(SessionKey("app", "u", "s"))
    assert found is not None
    assert found.revision <= MAX_WAITING_EVENTS + 2
    assert kinds([event async for event in stream])[-1] == "end"


async def test_breaking_out_of_the_loop_ends_the_run_and_the_next_one_runs(place: Path) -> None:
    model = Talkative()
    runner = Runner("app", Agent("assistant", model, runtime_in(place)))
    async for event in runner.run(user="u", session="s", message="x"):
        if event.kind == "assistant.delta":
            break
    gc.collect()
    await asyncio.wait_for(model.closed.wait(), 30)
    assert model.said < WORDS
    reply = await runner.reply(user="u", session="s", message="again")
    assert reply.error is None


async def test_a_reader_that_keeps_the_stream_and_reads_no_more_has_its_run_ended(place: Path) -> None:
    store = MemorySessionStore()

    model = Talkative()
    agent = Agent("assistant", model, runtime_in(place, store=store))
    kept = Runner("app", agent, timeout=0.05).run(user="u", session="s", message="x")
    await anext(kept)
    await asyncio.wait_for(model.closed.wait(), 30)
    # The session is free again although nobody has closed anything.
    other = await asyncio.wait_for(Runner("app", agent).reply(user="u", session="s", message="again"), 30)
    assert other.error is None
    late = [event async for event in kept]
    assert late[-1].kind == "error"
    assert late[-1].payload["reason"] == "DEADLINE_EXCEEDED"
    assert "were not read" in late[-1].payload["message"]


async def test_a_reader_may_look_at_the_conversation_between_two_events(place: Path) -> None:
    """Nobody who writes the log waits for the reader, so the reader can wait for the log."""
    agent, _ = agent_in(
        place, [calling(*[("skill_list_docs", {"skill": "alpha"})] * 150), ModelResponse("ok " * MAX_WAITING_EVENTS)]
    )

    seen = 0
    async for event in Runner("app", agent).run(user="u", session="s", message="x"):
        if event.seq and event.seq % 50 == 1:
            async with agent.runtime.session("s", user="u", app="app") as session:
                seen += len(await asyncio.wait_for(session.events(), 30)) > 0

    assert seen > 3


async def test_a_run_that_nobody_reads_at_all_has_not_begun(place: Path) -> None:
    agent, model = agent_in(place, [ModelResponse("ok")])

    unread = Runner("app", agent).run(user="u", session="s", message="x")
    await quiet()
    assert model.requests == []
    await unread.aclose()
    assert (await heard(agent))[-1].payload["text"] == "ok"
