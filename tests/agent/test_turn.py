"""One turn, seen from its runner.

Ids of calls.

Calls of one answer.

Code in answers.

Which loads want a sub-agent.

The requests of one run, whoever makes them.

Events between a run and its reader.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openskills.agent.agent import Agent, AgentLimits, Callbacks, ExtraTool
from openskills.agent.models.model import ModelRequest, ModelResponse, ToolCall, Usage
from openskills.agent.turn import CallIds, EventStream, ModelCallCounter, find_code_blocks, find_forked_skill
from openskills.errors import DeadlineExceeded, InvalidArgument, LimitExceeded
from openskills.executors.spec import Limits
from openskills.project import SkillGrants
from openskills.runtime.options import SessionOptions
from openskills.session.events import new_event
from openskills.sync import run
from openskills.testing.models import ScriptedModel
from openskills.tools.tool import ToolResult
from tests.agent.agents import agent_in, calling, heard, kinds, skills_for_agents
from tests.tools.contexts import write_skill


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


async def test_the_model_is_asked_until_it_has_an_answer(place: Path) -> None:
    agent, model = agent_in(
        place, [calling(("skill_load", {"skill": "alpha"})), ModelResponse("done", usage=Usage(5, 2, 1))]
    )
    events = await heard(agent)
    assert kinds(events)[-1] == "end"
    assert events[-1].payload["text"] == "done"
    assert events[-1].payload["usage"] == {"input": 5, "output": 2, "cached": 1}
    assert events[-1].payload["steps"] == 2
    last = model.requests[-1].messages
    assert "BODY OF alpha" in str(last[-1]["content"])
    assert model.requests[0].tools[0]["function"]["name"] == "skill_load"


async def test_the_model_is_offered_commands_once_a_skill_has_anything_to_run(place: Path) -> None:
    def add_skill(_: ModelRequest) -> ModelResponse:
        write_skill(place, "gamma", {"scripts/go.sh": "echo went"})
        agent.runtime.catalog.refresh()
        return calling(("skill_load", {"skill": "gamma"}))

    agent, model = agent_in(place, [add_skill, "done"], executor="local")
    await heard(agent)
    first, second = ({tool["function"]["name"] for tool in request.tools} for request in model.requests)
    assert second - first == {"skill_run", "skill_exec"}


async def test_text_comes_as_it_is_made_and_is_stored_once(place: Path) -> None:
    agent, _ = agent_in(place, [ModelResponse("a longer answer")])
    events = await heard(agent)
    deltas = [event.payload["text"] for event in events if event.kind == "assistant.delta"]
    assert "".join(deltas) == "a longer answer"
    assert all(event.seq == 0 for event in events if event.kind == "assistant.delta")
    assert [event.seq for event in events if event.seq] == list(range(1, len([e for e in events if e.seq]) + 1))


async def test_calls_of_one_answer_keep_their_order_and_their_deltas_merge(place: Path) -> None:
    both = calling(("skill_load", {"skill": "alpha"}), ("skill_load", {"skill": "beta"}))
    agent, model = agent_in(place, [both, ModelResponse("ok")])
    events = await heard(agent)
    results = [message for message in model.requests[-1].messages if message["role"] == "tool"]
    assert [str(result["content"]).split("\n")[0] for result in results] == ["loaded: alpha", "loaded: beta"]
    deltas = [dict(event.delta) for event in events if event.kind == "tool.response"]
    assert any("temp:skill:loaded_by_agent:assistant/alpha" in delta for delta in deltas)
    assert any("temp:skill:loaded_by_agent:assistant/beta" in delta for delta in deltas)


async def test_what_the_model_gets_wrong_comes_back_to_it(place: Path) -> None:
    wrong = ModelResponse("", (ToolCall("a", "no_such_tool", "{}"), ToolCall("b", "skill_load", "{not json")))
    agent, model = agent_in(place, [wrong, ModelResponse("sorry")])
    events = await heard(agent)
    assert kinds(events)[-1] == "end"
    results = [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]
    assert all(text.startswith("error: ") for text in results)


async def test_ids_that_a_server_uses_again_are_made_different(place: Path) -> None:
    same = calling(("skill_list_docs", {"skill": "alpha"}))
    agent, model = agent_in(place, [same, same, ModelResponse("ok")])
    await heard(agent)
    ids = [message["tool_call_id"] for message in model.requests[-1].messages if message["role"] == "tool"]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("limits", "said"), [(AgentLimits(steps=2), "2 steps"), (AgentLimits(tool_calls=2), "2 tool calls")]
)
async def test_a_model_that_never_ends_is_ended(place: Path, limits: AgentLimits, said: str) -> None:
    again = calling(("skill_list_docs", {"skill": "alpha"}))
    agent, _ = agent_in(place, [again] * 5, limits=limits)
    events = await heard(agent)
    assert events[-1].kind == "error"
    assert events[-1].payload["reason"] == "LIMIT_EXCEEDED"
    assert said in events[-1].payload["message"]


async def test_the_instructions_come_first_and_are_not_stored(place: Path) -> None:
    agent, model = agent_in(place, [ModelResponse("ok")], instructions="Be kind.")
    events = await heard(agent)
    assert str(model.requests[0].messages[0]["content"]).startswith("Be kind.\n\nAvailable skills:")
    assert "Be kind" not in json.dumps([dict(event.payload) for event in events], default=str)


def unique(ids: CallIds, *given: str, tool: str = "t") -> list[str]:
    return [call.id for call in ids.make_unique([ToolCall(one, tool, "{}") for one in given])]


def test_an_id_is_used_once_whoever_wrote_it() -> None:
    said = ModelResponse("", (ToolCall("m1", "t", "{}"),)).to_message()
    events = [new_event("a", "message", {"message": said}), new_event("b", "tool.call", {"call_id": "c1-x"})]
    ids = CallIds(events, tag="x")
    assert unique(ids, "c1", "m1", "c1", "", "") == ["c1-x-2", "m1-x", "c1-x-3", "call-x", "call-x-2"]
    assert unique(ids, "c1", "c1-2", "new") == ["c1-x-4", "c1-2-x", "new-x"]


def test_what_is_not_a_call_takes_no_id() -> None:
    events = [
        new_event("a", "message", {"message": {"role": "user", "content": "x"}}),
        new_event("a", "message", {"message": None}),
        new_event("a", "end", {"call_id": "c1-x"}),
    ]
    assert unique(CallIds(events, tag="x"), "c1") == ["c1-x"]


@pytest.mark.parametrize("counted", ["", "call_0", "rule-1", "functions.search_files2go:0", "toolcallnumber12", "7"])
def test_runs_that_know_nothing_of_each_other_never_choose_the_same_id(counted: str) -> None:
    # Two processes read the same log, and then each its own model, which counts.
    runs = [unique(CallIds(), counted, counted, tool="search_files2go") for _ in range(50)]
    assert len({identity for one in runs for identity in one}) == 100


@pytest.mark.parametrize(
    "drawn",
    [
        "call_9xKqPz3LmNvB2TyRw8Qd4EfG",
        "toolu_01A09q90qw90lq917835lq9",
        f"chatcmpl-tool-{'3f2a9c' * 5}",
        "call_" + "aB" * 12,
    ],
)
def test_an_id_that_a_provider_has_drawn_stays_as_it_is_unless_it_is_used_again(drawn: str) -> None:
    assert unique(CallIds(tag="x"), drawn, drawn) == [drawn, f"{drawn}-x"]


@pytest.mark.parametrize("drawn", ["D681PevKs", "VvvODyKcB", "abcdefghi"])
def test_an_id_of_nine_letters_and_digits_stays_one_because_its_server_takes_no_other(drawn: str) -> None:
    first, second, third = unique(CallIds(), drawn, drawn, drawn)
    assert first == drawn
    assert len({first, second, third}) == 3
    assert all(re.fullmatch("[A-Za-z0-9]{9}", one) for one in (second, third))


async def shout(arguments: Mapping[str, Any]) -> str:
    if "text" not in arguments:
        raise InvalidArgument("text", "is missing")
    if not arguments["text"]:
        raise KeyError("nobody thought of this")
    return str(arguments["text"]).upper()


async def test_tools_of_your_own_are_called_beside_those_of_skills(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    broken = ModelResponse(
        "",
        (
            ToolCall("a", "shout", "[]"),
            ToolCall("b", "shout", "{"),
            ToolCall("c", "shout", "{}"),
            ToolCall("d", "shout", '{"text": ""}'),
        ),
    )
    agent, model = agent_in(
        tmp_path,
        [calling(("shout", {"text": "hi"})), broken, ModelResponse("ok")],
        tools=[ExtraTool("shout", "Shouts.", shout)],
    )
    await heard(agent)
    results = [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]
    assert results[0] == "HI"
    assert all(result.startswith("error: ") for result in results[1:])
    assert model.requests[0].tools[-1]["function"]["name"] == "shout"


async def test_what_a_command_keeps_is_an_event(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    arguments = {"skill": "alpha", "command": "echo hi > out/a.txt", "outputs": {"globs": ["out/*"], "save": True}}
    agent, _ = agent_in(
        tmp_path,
        [calling(("skill_load", {"skill": "alpha"})), calling(("skill_run", arguments)), ModelResponse("ok")],
        executor="local",
    )
    events = await heard(agent)
    await agent.runtime.close()
    assert "artifact" in kinds(events)
    kept = next(event for event in events if event.kind == "artifact")
    assert kept.payload["ref"] == "artifact://out/a.txt@0"


@pytest.mark.parametrize("data", [{"artifact_files": "oops"}, {"artifact_files": [3]}, {"model_usage": {"a": 1}}])
async def test_what_a_tool_of_the_application_calls_as_we_do_breaks_no_run(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    async def odd(arguments: object) -> ToolResult:
        return ToolResult("fine", data)

    skills_for_agents(tmp_path)
    agent, _ = agent_in(tmp_path, [calling(("odd", {})), ModelResponse("ok")], tools=[ExtraTool("odd", "", odd)])
    assert (await heard(agent))[-1].payload["text"] == "ok"


async def test_a_command_waits_for_the_load_of_its_skill_in_the_same_answer(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    run_it = {"skill": "alpha", "command": "echo hi"}
    both = calling(("skill_load", {"skill": "alpha"}), ("skill_run", run_it), ("skill_list_docs", {"skill": "beta"}))
    agent, model = agent_in(tmp_path, [both, ModelResponse("ok")], executor="local")
    await heard(agent)
    await agent.runtime.close()
    results = [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]
    assert [text[:14] for text in results[:2]] == ["loaded: alpha\n", '{"stdout":"hi\\']


CODE = "Let me see.\n\n```python\nprint(6 * 7)\n```\n"


def test_only_blocks_that_can_be_run_count() -> None:
    text = f"{CODE}\n```json\n{{}}\n```\n\n```sh title=x\nls\n```\n```\nplain\n```\n"
    assert find_code_blocks(text) == [("python3", "print(6 * 7)\n"), ("sh", "ls\n")]
    assert find_code_blocks("```python\nnot closed") == []
    assert find_code_blocks("```python\n" + "``` x\n" * 50_000) == []


async def test_they_are_run_only_for_agents_that_ask_for_it(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    agent, model = agent_in(tmp_path, [ModelResponse(CODE)], executor="local")
    await heard(agent)
    await agent.runtime.close()
    assert len(model.requests) == 1
    asking, model = agent_in(
        tmp_path, [ModelResponse(CODE), ModelResponse("It is 42.")], executor="local", code_blocks=True
    )
    events = await heard(asking, session="other")
    await asking.runtime.close()
    assert "exit code 0\n42" in str(model.requests[-1].messages[-1]["content"])
    assert events[-1].payload["text"] == "It is 42."


async def test_the_output_of_code_belongs_to_the_turn_so_that_skills_stay_loaded(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    script = [calling(("skill_load", {"skill": "alpha"})), ModelResponse(CODE), ModelResponse("It is 42.")]
    again = [ModelResponse("second"), ModelResponse("third")]
    asking, model = agent_in(tmp_path, [*script, *again], executor="local", code_blocks=True, history_turns=2)
    for message in ("compute", "and then?", "and now?"):
        await heard(asking, message)
    await asking.runtime.close()
    assert "BODY OF alpha" in str(model.requests[2].messages)
    assert "compute" in str(model.requests[3].messages)
    assert "BODY OF alpha" not in str(model.requests[3].messages)
    assert [one["content"] for one in model.requests[4].messages[1:]] == ["and then?", "second", "and now?"]


async def test_where_the_model_may_not_run_commands_its_blocks_are_not_run_either(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    asking, model = agent_in(
        tmp_path,
        [ModelResponse(CODE)],
        executor="local",
        code_blocks=True,
        options=SessionOptions(profile="knowledge_only"),
    )
    assert (await heard(asking))[-1].payload["text"] == CODE
    without, model = agent_in(tmp_path, [ModelResponse(CODE)], code_blocks=True)
    assert (await heard(without))[-1].kind == "end"
    assert len(model.requests) == 1


def test_a_sub_agent_follows_its_own_setting(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    asked = calling(("helper", {"task": "compute"}))
    chief, outer = agent_in(tmp_path, [asked, ModelResponse(CODE), asked, ModelResponse("x")], executor="local")
    inner = ScriptedModel([ModelResponse(CODE), ModelResponse("It is 42."), ModelResponse(CODE)])
    for runs in (True, False):
        helper = Agent("helper", inner, chief.runtime, code_blocks=runs)
        run(heard(replace(chief, sub_agents=[helper]), session=f"s{runs}"))
    results = [request.messages[-1]["content"] for request in outer.requests if request.messages[-1]["role"] == "tool"]
    assert results == ["It is 42.", CODE]
    assert "exit code 0\n42" in str(inner.requests[1].messages[-1]["content"])
    assert len(outer.requests) == 4


async def test_code_has_the_variables_and_the_limits_of_its_run(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    code = "```sh\necho hello $WHO; head -c 99999 /dev/zero | tr '\\0' x > big.txt\n```"
    asking, model = agent_in(tmp_path, [ModelResponse(code), ModelResponse("ok")], executor="local", code_blocks=True)
    await heard(
        asking,
        options=SessionOptions(grants={"*": SkillGrants(environment={"WHO": "ada"})}, limits=Limits(file_bytes=1000)),
    )
    await asking.runtime.close()
    told = str(model.requests[-1].messages[-1]["content"])
    assert "hello ada" in told
    assert "exit code 0" not in told


@pytest.mark.parametrize(
    ("name", "arguments", "skill"),
    [
        ("skill_load", '{"skill": "forky"}', "forky"),
        ("skill_load", '{"skill": "alpha"}', None),
        ("skill_load", '{"skill": "none"}', None),
        ("skill_load", '{"skill": 3}', None),
        ("skill_load", "[]", None),
        ("skill_load", "{", None),
        ("skill_run", '{"skill": "forky"}', None),
    ],
)
async def test_only_a_load_of_a_skill_that_says_so(
    tmp_path: Path, name: str, arguments: str, skill: str | None
) -> None:
    skills_for_agents(tmp_path)
    folder = write_skill(tmp_path, "forky")
    (folder / "SKILL.md").write_text("---\nname: forky\ndescription: F.\ncontext: fork\n---\nX\n")
    agent, _ = agent_in(tmp_path, [])

    async with agent.runtime.session("s") as session:
        result = find_forked_skill(session, ToolCall("c", name, arguments))

    assert result == skill


LOOK = calling(("skill_list_docs", {"skill": "alpha"}))


def test_so_many_are_allowed_and_not_one_more() -> None:
    calls = ModelCallCounter(2)
    calls.count_call()
    calls.count_call()
    with pytest.raises(LimitExceeded, match="more than 2 model calls"):
        calls.count_call()
    with pytest.raises(InvalidArgument, match="model_calls"):
        AgentLimits(model_calls=0)


async def test_those_of_sub_agents_count_for_the_run_and_the_next_run_begins_again(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    chief, model = agent_in(
        tmp_path, [calling(("helper", {"task": "x"})), ModelResponse("never"), ModelResponse("again")]
    )
    helper = Agent("helper", ScriptedModel([LOOK, LOOK, LOOK, ModelResponse("deep")]), chief.runtime)
    chief = replace(chief, sub_agents=[helper], limits=AgentLimits(model_calls=4))

    events = await heard(chief)
    assert [(event.author, event.payload["reason"]) for event in events if event.kind == "error"] == [
        ("helper", "LIMIT_EXCEEDED"),
        ("assistant", "LIMIT_EXCEEDED"),
    ]
    assert (await heard(chief, "two"))[-1].kind == "end"

    assert len(model.requests) == 2


async def test_a_response_of_a_callback_does_not_count_as_a_model_call(tmp_path: Path) -> None:
    async def cached(agent: str, request: ModelRequest) -> ModelResponse | None:
        return LOOK if sum(message["role"] == "tool" for message in request.messages) < 3 else None

    skills_for_agents(tmp_path)
    agent, _ = agent_in(
        tmp_path,
        [ModelResponse("done")],
        callbacks=Callbacks(before_model=cached),
        limits=AgentLimits(model_calls=1),
    )
    assert (await heard(agent))[-1].payload["text"] == "done"


EVENT = new_event("a", "assistant.delta", {"text": "x"})


async def test_events_come_in_their_order_and_then_the_end() -> None:
    stream = EventStream()
    for text in "abc":
        stream.put(new_event("a", "assistant.delta", {"text": text}))
    stream.close()
    found: list[str] = []
    while (event := await stream.get()) is not None:
        found.append(event.payload["text"])

    assert found == ["a", "b", "c"]


async def test_who_adds_waits_until_somebody_has_read() -> None:
    stream, sent = EventStream(max_waiting=3), list[int]()

    async def write() -> None:
        for number in range(10):
            await stream.emit(EVENT)
            sent.append(number)

    writing = asyncio.ensure_future(write())
    before = list[int]()
    for _ in range(10):
        # As far as it gets without being read.
        for _ in range(20):
            await asyncio.sleep(0)
        before.append(len(sent))
        await stream.get()
    await writing

    assert before == [2, 3, 4, 5, 6, 7, 8, 9, 10, 10]


async def test_a_reader_that_has_stopped_is_given_up_and_one_that_is_slow_is_not() -> None:
    stream = EventStream(max_waiting=2, timeout=0.02)
    stream.put(EVENT)
    stream.put(EVENT)
    stream.put(EVENT)
    waiting = asyncio.ensure_future(stream.wait_for_room())
    await stream.get()
    await asyncio.sleep(0)
    assert not waiting.done()
    await stream.get()
    await waiting
    stream.put(EVENT)
    for _ in range(2):
        with pytest.raises(DeadlineExceeded, match="were not read"):
            await stream.wait_for_room()
    assert await stream.get() is EVENT
    await stream.wait_for_room()
