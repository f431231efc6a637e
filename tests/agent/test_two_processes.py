"""Two runtimes that are asked to work on one conversation at the same time: all they share is the store."""

import asyncio
from pathlib import Path

import pytest

from openskills.agent.agent import TOOL_CALL, build_transcript, find_unanswered_calls
from openskills.agent.models.model import ModelRequest, ModelResponse
from openskills.errors import SessionInUse
from openskills.session.events import MESSAGE, USER
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.store import SessionKey
from tests.agent.agents import agent_in, calling, heard, skills_for_agents

CALLS = calling(("skill_list_docs", {"skill": "alpha"}), ("skill_list_docs", {"skill": "beta"}))


async def test_the_second_turn_waits_for_the_first_and_no_id_of_a_call_is_used_twice(tmp_path: Path) -> None:
    place = skills_for_agents(tmp_path)
    stores = [SqliteSessionStore(tmp_path / "sessions.db") for _ in range(2)]
    agents = [agent_in(place, [CALLS, ModelResponse("ok")], store=store)[0] for store in stores]
    await asyncio.gather(*(heard(agent) for agent in agents))
    found = await stores[0].get(SessionKey("app", "u", "s"))
    for store in stores:
        await store.close()
    assert found is not None

    events = found.events
    ids = [event.payload["call_id"] for event in events if event.kind == TOOL_CALL]
    assert len(ids) == 4
    assert len(set(ids)) == 4
    assert find_unanswered_calls(build_transcript(events, "assistant")) == []
    begins = [index for index, event in enumerate(events) if event.kind == MESSAGE and event.author == USER]
    assert [event.kind for event in events[: begins[1]]] == [event.kind for event in events[begins[1] :]]


async def test_a_second_runtime_is_refused_with_who_runs_the_conversation(tmp_path: Path) -> None:
    place = skills_for_agents(tmp_path)
    is_running, is_refused = asyncio.Event(), asyncio.Event()

    async def when_the_other_was_refused(_: ModelRequest) -> ModelResponse:
        is_running.set()
        await is_refused.wait()
        return ModelResponse("ok")

    store = SqliteSessionStore(tmp_path / "sessions.db")
    first, _ = agent_in(place, [when_the_other_was_refused], store=store)
    second, model = agent_in(place, [ModelResponse("never")], store=store)
    answering = asyncio.ensure_future(heard(first))
    await is_running.wait()
    with pytest.raises(SessionInUse, match=r"session 's' is in use by process \d+ on .*try again in \d+ seconds"):
        await heard(second)
    is_refused.set()
    assert (await answering)[-1].payload["text"] == "ok"
    assert not model.requests
    assert (await heard(second))[-1].payload["text"] == "never"
    await store.close()
