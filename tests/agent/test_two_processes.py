"""Two processes that work on one conversation at the same time: all they share is the store."""

import asyncio
from pathlib import Path

from openskills.agent.agent import TOOL_CALL, build_transcript, find_unanswered_calls
from openskills.agent.models.model import ModelRequest, ModelResponse
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.store import SessionKey
from tests.agent.agents import agent_in, calling, heard, skills_for_agents

CALLS = calling(("skill_list_docs", {"skill": "alpha"}), ("skill_list_docs", {"skill": "beta"}))


async def test_no_id_of_a_call_is_used_twice_in_the_log(tmp_path: Path) -> None:
    place = skills_for_agents(tmp_path)

    both = asyncio.Barrier(2)

    async def when_both_have_read_the_log(_: ModelRequest) -> ModelResponse:
        await both.wait()
        return CALLS

    stores = [SqliteSessionStore(tmp_path / "sessions.db") for _ in range(2)]
    agents = [agent_in(place, [when_both_have_read_the_log, ModelResponse("ok")], store=store)[0] for store in stores]
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
