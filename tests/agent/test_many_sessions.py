"""Fifty sessions at once against a real server that has its bad days."""

import asyncio
import gc
import json
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openskills.agent.agent import Agent, build_transcript, find_unanswered_calls
from openskills.agent.models.http import Retrier
from openskills.agent.models.model import ModelResponse, ToolCall
from openskills.agent.models.openai import OpenAIModel
from openskills.agent.runner import Runner
from openskills.artifacts.store import Scope
from openskills.runtime.conversation import MAX_CACHED_CONVERSATIONS, ConversationCache
from openskills.session.memory import MemorySessionStore
from openskills.session.open import open_session_store
from openskills.session.store import SessionKey
from openskills.testing.model_server import (
    ErrorReply,
    ModelReply,
    ModelServer,
    ModelServerRequest,
    ResetReply,
    ScriptedReply,
)
from openskills.tools.uploads import UploadLimits, UploadProblems, Uploads
from tests.agent.agents import calling, skills_for_agents
from tests.runtime.talking import runtime_in
from tests.tools.contexts import settings_in

SESSIONS = 50
BATCH = 20
"""How many sessions are between two looks at the memory: what each leaves behind is seen after so many."""
SERVER = "openskills.testing."


class BadDays:
    """A model that loads, runs and answers, behind a server that fails each session in another way first."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[int, int]] = Counter()
        self._lock = threading.Lock()

    def __call__(self, asked: ModelServerRequest) -> ScriptedReply:
        messages: list[dict[str, Any]] = asked.body["messages"]
        said = next(str(message["content"]) for message in messages if message["role"] == "user")
        number, step = int(said.rpartition(" ")[2]), sum(message["role"] == "tool" for message in messages)
        with self._lock:
            self._seen[number, step] += 1
            first = self._seen[number, step] == 1
        return self._fault(number, step) if first and number % 2 else self._right(number, step)

    def _fault(self, number: int, step: int) -> ScriptedReply:
        answer = ModelResponse("this answer breaks off before it")
        faults: list[ScriptedReply] = [
            ErrorReply(429, "slow down", headers={"Retry-After": "0"}),
            ErrorReply(500, "oops"),
            ResetReply(),
            ModelReply(answer, cut_after=0),
            ModelReply(self._right(number, step), first_after=0.05, between=0.001),
        ]
        return faults[(number // 2 + step) % len(faults)]

    def _right(self, number: int, step: int) -> ModelResponse:
        if step == 0:
            return calling(("skill_load", {"skill": "alpha"}))
        if step == 1:
            return ModelResponse(
                "", (ToolCall("garbage", "skill_run", '{"skill": "alpha", "command"'),), stop="tool_calls"
            )
        if step == 2:
            command = f"echo {number} > out/number.txt"
            return calling(("skill_run", {"skill": "alpha", "command": command}))
        return ModelResponse(f"done with {number}")


def held() -> Counter[str]:
    """What of ours is in memory, by its type, with open files, threads and tasks; not what the server remembers."""
    gc.collect()
    kinds = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    found = Counter(kind for kind in kinds if kind.startswith("openskills.") and not kind.startswith(SERVER))
    found["descriptors"] = len(os.listdir("/proc/self/fd"))
    found["threads"] = threading.active_count()
    found["tasks"] = len(asyncio.all_tasks())
    found["objects"] = len(gc.get_objects())
    return found


async def settled() -> Counter[str]:
    """The same when it does not change any more: workspaces are closed in the background."""
    found = held()
    for _ in range(50):
        await asyncio.sleep(0.2)
        before, found = found, held()
        if not (found - before or before - found).keys() - {"objects"}:
            break
    return found


@pytest.mark.slow
async def test_memory_stays_bounded_however_many_sessions_there_were(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)

    async def quickly(seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))

    async def go(server: ModelServer) -> list[Counter[str]]:
        store = open_session_store(f"sqlite:///{tmp_path}/sessions.db", settings_in(tmp_path))
        async with runtime_in(tmp_path, executor="local", store=store) as runtime:
            model = OpenAIModel("m", api_key="k", base_url=server.openai_url, retrying=Retrier(wait=quickly))
            runner = Runner("app", Agent("assistant", model, runtime))
            counts: list[Counter[str]] = []
            for batch in range(2):
                numbers = range(batch * BATCH, (batch + 1) * BATCH)
                replies = await asyncio.gather(
                    *(runner.reply(user="u", session=f"s{n}", message=f"number {n}") for n in numbers)
                )
                assert all(reply.error is None for reply in replies)
                del replies
                server.requests.clear()
                counts.append(await settled())
            await model.close()
            return counts

    with ModelServer(BadDays()) as server:
        first, second = await go(server)
    grown = {kind: number - first[kind] for kind, number in second.items() if number > first[kind]}
    # The user's files and the answers of people, which a process remembers of so many sessions and no more.
    remembered = {ConversationCache, Uploads, UploadLimits, UploadProblems, Scope}
    assert MAX_CACHED_CONVERSATIONS <= 256
    for kind in remembered:
        assert grown.pop(f"{kind.__module__}.{kind.__qualname__}", 0) <= BATCH
    assert grown.pop("objects", 0) < first["objects"] / 4
    assert grown.pop("descriptors", 0) < BATCH
    assert {kind: number for kind, number in grown.items() if number > 5} == {}


@pytest.mark.slow
async def test_every_session_ends_with_a_correct_log_and_none_has_anothers(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    store = MemorySessionStore()

    async def quickly(seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))

    async def go(server: ModelServer) -> None:
        async with runtime_in(tmp_path, executor="local", store=store) as runtime:
            model = OpenAIModel("m", api_key="k", base_url=server.openai_url, retrying=Retrier(wait=quickly))
            agent = Agent("assistant", model, runtime)
            runner = Runner("app", agent)
            replies = await asyncio.gather(
                *(runner.reply(user="u", session=f"s{n}", message=f"number {n}") for n in range(SESSIONS))
            )
            await model.close()
        assert [reply.text for reply in replies] == [f"done with {number}" for number in range(SESSIONS)]
        for number in range(SESSIONS):
            found = await store.get(SessionKey("app", "u", f"s{number}"))
            assert found is not None
            assert [event.seq for event in found.events] == list(range(1, found.revision + 1))
            assert find_unanswered_calls(build_transcript(found.events, "assistant")) == []
            results = [event.payload for event in found.events if event.kind == "tool.response"]
            assert [result["failed"] for result in results] == [False, True, False]
            assert json.loads(results[-1]["content"])["primary_output"]["content"] == f"{number}\n"

    with ModelServer(BadDays()) as server:
        await go(server)
    assert len(server.requests) > 4 * SESSIONS
