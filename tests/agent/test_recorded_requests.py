"""Recorded requests: what is shown is what the server received, byte for byte."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from openskills.agent import Agent, AnthropicModel, ModelResponse, OpenAIModel, RetryPolicy, Runner, ToolCall
from openskills.agent.models.http import Retrier
from openskills.agent.turn import MAX_REQUEST_BYTES, build_records_key
from openskills.catalog import Catalog
from openskills.prompt.usage import RecordedRequest, compare_requests, diff_lines, pack_body, read_requests
from openskills.runtime import SkillRuntime
from openskills.session import SessionKey
from openskills.testing.model_server import ErrorReply, ModelReply, ModelServer
from tests.agent.agents import skills_for_agents

LOADS = ModelResponse("", (ToolCall("call_1Ab", "skill_load", '{"skill": "alpha"}'),))
HOSTILE = 'nul \x00, quotes " \\ </script>, 你好, \u2028 and 1e999'


async def recorded(runtime: SkillRuntime, session: str = "s") -> list[RecordedRequest]:
    found = await runtime.store.get(build_records_key(SessionKey("app", "ada", session)))
    return read_requests(found.events if found else ())


async def talk(runtime: SkillRuntime, model: Any, *messages: Any) -> Sequence[Any]:
    runner = Runner("app", Agent("assistant", model, runtime), record_requests=True)
    return [await runner.reply(user="ada", session="s", message=message) for message in messages]


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_every_request_is_recorded_byte_for_byte(protocol: str, tmp_path: Path) -> None:
    script = [LOADS, "two", LOADS, "four", "five"]
    async with SkillRuntime(Catalog.from_paths(skills_for_agents(tmp_path))) as runtime:
        with ModelServer(script) as server:
            if protocol == "openai":
                model: Any = OpenAIModel("gpt-5", api_key="k", base_url=server.openai_url)
            else:
                model = AnthropicModel("claude", api_key="k", base_url=server.anthropic_url)
            await talk(runtime, model, "What is 1 + 1?", HOSTILE, ["again", {"type": "text", "text": "parts"}])
            await model.close()
        found = await recorded(runtime)
        assert [one.body for one in found] == [one.content for one in server.requests]
        assert len(found) == 5
        assert [one.number for one in found] == [1, 2, 3, 4, 5]
        session = await runtime.store.get(SessionKey("app", "ada", "s"))
        assert session is not None
        answers = [event for event in session.events if event.kind == "message" and event.author == "assistant"]
        assert [event.payload["request"] for event in answers] == [1, 2, 3, 4, 5]


async def test_each_message_is_stored_once(tmp_path: Path) -> None:
    async with SkillRuntime(Catalog.from_paths(skills_for_agents(tmp_path))) as runtime:
        with ModelServer(lambda _: "fine") as server:
            model = OpenAIModel("gpt-5", api_key="k", base_url=server.openai_url)
            await talk(runtime, model, *(f"message {number} " + "word " * 500 for number in range(8)))
            await model.close()
        records = await runtime.store.get(build_records_key(SessionKey("app", "ada", "s")))
        assert records is not None
        kept = sum(len(text) for event in records.events for text in event.payload["texts"].values())
        assert kept < len(server.requests[-1].content) * 1.2
        assert sum(len(one.content) for one in server.requests) > 3 * kept


async def test_a_refused_request_is_recorded_and_a_repeated_one_once(tmp_path: Path) -> None:
    async with SkillRuntime(Catalog.from_paths(skills_for_agents(tmp_path))) as runtime:
        with ModelServer([ErrorReply(500), ErrorReply(500), ErrorReply(400, "too long")]) as server:
            retrying = Retrier(RetryPolicy(pause=0.001))
            model = OpenAIModel("gpt-5", api_key="k", base_url=server.openai_url, retrying=retrying)
            (reply,) = await talk(runtime, model, "hello")
            await model.close()
        assert reply.error is not None
        assert [one.body for one in await recorded(runtime)] == [server.requests[0].content]


async def test_a_request_without_a_response_is_not_made_up(tmp_path: Path) -> None:
    async with SkillRuntime(Catalog.from_paths(skills_for_agents(tmp_path))) as runtime:
        with ModelServer([ModelReply(ModelResponse("late"), first_after=30.0)]) as server:
            model = OpenAIModel("gpt-5", api_key="k", base_url=server.openai_url)
            runner = Runner("app", Agent("assistant", model, runtime), record_requests=True)
            async with aclosing(runner.run(user="ada", session="s", message="hello")) as events:
                await anext(events)
                while not server.requests:
                    await asyncio.sleep(0.01)
            await model.close()
        assert await recorded(runtime) == []


async def test_what_a_model_without_http_sees_is_recorded(tmp_path: Path) -> None:
    async with SkillRuntime(Catalog.from_paths(skills_for_agents(tmp_path))) as runtime:
        await talk(runtime, "rule", "hello")
        (first, *_) = await recorded(runtime)
        assert first.body is not None
        sent = json.loads(first.body)
        assert sent["messages"][-1] == {"role": "user", "content": "hello"}
        assert {tool["function"]["name"] for tool in sent["tools"]} >= {"skill_load"}
        assert first.tokens["layers"]["overview"] > 0
        assert first.tokens["total"] > 0


async def test_a_huge_request_is_recorded_without_its_body(tmp_path: Path) -> None:
    async with SkillRuntime(Catalog.from_paths(skills_for_agents(tmp_path))) as runtime:
        await talk(runtime, "rule", "x" * MAX_REQUEST_BYTES)
        (first, *_) = await recorded(runtime)
        assert first.body is None
        assert first.size > MAX_REQUEST_BYTES


async def test_nothing_is_recorded_by_default(tmp_path: Path) -> None:
    async with SkillRuntime(Catalog.from_paths(skills_for_agents(tmp_path))) as runtime:
        await Runner("app", Agent("assistant", "rule", runtime)).reply(user="ada", session="s", message="hello")
        assert await recorded(runtime) == []


def test_a_body_in_another_encoding_is_kept_whole() -> None:
    for body in (b'{"messages": [1, 2]}', b"[1,2]", b"no json", b'{"a":"\\u00e9"}'):
        parts, texts = pack_body(body, ())
        assert parts == [f"#{digest}" for digest in texts]
        assert list(texts.values()) == [body.decode()]


def test_the_difference_has_what_was_added_changed_and_removed() -> None:
    def body(*messages: tuple[str, str], tools: tuple[str, ...] = ("a",)) -> bytes:
        said = [{"role": role, "content": text} for role, text in messages]
        return json.dumps({"model": "m", "messages": said, "tools": [{"name": tool} for tool in tools]}).encode()

    before = body(("system", "one\ntwo\nthree"), ("user", "hi"), ("assistant", "gone"), tools=("a", "b"))
    now = body(("system", "one\n2\nthree"), ("user", "hi"), ("user", "more"))
    found = [(one.state, one.element.section, one.element.title) for one in compare_requests(before, now)]
    assert found == [
        ("same", "model", "model"),
        ("changed", "messages", "system"),
        ("same", "messages", "user"),
        ("added", "messages", "user"),
        ("removed", "messages", "assistant"),
        ("same", "tools", "a"),
        ("removed", "tools", "b"),
    ]
    assert diff_lines("one\ntwo\nthree", "one\n2\nthree") == [(" ", "one"), ("-", "two"), ("+", "2"), (" ", "three")]
    assert {one.state for one in compare_requests(None, now)} == {"added"}
