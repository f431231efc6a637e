"""Agents that make sense.

Functions that see and change what happens.

Tools of your own.

From a log to messages.

Histories in fewer words.
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from pydantic import Field

from openskills.agent.agent import (
    SUMMARY_HEADER,
    Agent,
    AgentLimits,
    Callbacks,
    ExtraTool,
    Summary,
    build_transcript,
    find_last_turn,
    find_unanswered_calls,
    order_results,
    summarise_by_model,
    summarise_by_rule,
    tool,
)
from openskills.agent.attached_line import add_files_line, split_files_line
from openskills.agent.models.model import ModelRequest, ModelResponse, ToolCall
from openskills.errors import CommandDenied, InvalidArgument, ModelUnavailable
from openskills.runtime.options import SessionOptions
from openskills.session.events import Event
from openskills.testing.models import ScriptedModel
from openskills.tools.tool import ToolResult
from tests.agent.agents import agent_in, calling, heard, skills_for_agents
from tests.runtime.talking import runtime_in


async def nothing(_: object) -> str:
    return ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "name"),
        ({"history_turns": 0}, "history_turns"),
        ({"tools": [ExtraTool("x", "", nothing), ExtraTool("x", "", nothing)]}, "the name 'x' is used twice"),
        ({"tools": [ExtraTool("skill_load", "", nothing)]}, "the name 'skill_load' is used twice"),
        ({"model": "nobody/knows"}, "model"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_field(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    runtime = runtime_in(skills_for_agents(tmp_path))
    with pytest.raises(InvalidArgument, match=said):
        Agent(**cast("Any", {"name": "a", "model": ScriptedModel([]), "runtime": runtime, **given}))


def test_the_schema_of_a_tool_is_that_of_an_object() -> None:
    with pytest.raises(InvalidArgument, match=r"parameters: pick: expected the schema of an object, .* got type 'arr"):
        ExtraTool("pick", "", nothing, {"type": "array"})


async def test_callbacks_and_summaries_may_be_sync(tmp_path: Path) -> None:
    seen: list[str] = []

    def note(name: str, *_: object) -> None:
        seen.append(name)

    def shorten(_: object) -> str:
        return "short"

    callbacks = Callbacks(note, note, note, note, note, note)
    skills_for_agents(tmp_path)
    tool = ExtraTool("pick", "Pick one.", lambda _: "one")
    answers = [calling(("pick", {})), ModelResponse("a" * 900), ModelResponse("b"), ModelResponse("c")]
    summary = Summary(shorten, tokens=100, keep_turns=1)
    agent, model = agent_in(tmp_path, answers, tools=[tool], callbacks=callbacks, summary=summary)
    for text in ("a" * 900, "b", "c"):
        assert (await heard(agent))[-1].payload["text"] == text
    # Of three runs, four answers and one call.
    assert len(seen) == 3 + 4 + 4 + 1 + 1 + 3
    assert "short" in str(model.requests[-1].messages)


def test_limits_are_at_least_one() -> None:
    with pytest.raises(InvalidArgument, match=r"limits\.steps"):
        AgentLimits(steps=0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


async def test_each_is_called_at_its_time_and_may_change_what_happens(place: Path) -> None:
    seen: list[str] = []

    async def before_run(agent: str, message: str) -> str:
        seen.append(f"before run of {agent}")
        return message.upper()

    async def before_model(agent: str, request: ModelRequest) -> ModelRequest:
        seen.append("before model")
        return replace(request, temperature=0.0)

    async def after_model(agent: str, answer: ModelResponse) -> ModelResponse | None:
        seen.append("after model")
        return replace(answer, text="changed") if answer.text else None

    async def before_tool(agent: str, call: ToolCall) -> ToolResult | None:
        seen.append(f"before {call.name}")
        return ToolResult("not today") if call.name == "skill_list_docs" else None

    async def after_tool(agent: str, call: ToolCall, result: ToolResult) -> ToolResult:
        seen.append(f"after {call.name}")
        return replace(result, text=f"{result.text}!")

    async def after_run(agent: str, text: str) -> None:
        seen.append(f"after run: {text}")

    hooks = Callbacks(before_model, after_model, before_tool, after_tool, before_run, after_run)
    agent, model = agent_in(
        place, [calling(("skill_list_docs", {"skill": "alpha"})), ModelResponse("x")], callbacks=hooks
    )
    events = await heard(agent)
    assert seen == [
        "before run of assistant",
        "before model",
        "after model",
        "before skill_list_docs",
        "after skill_list_docs",
        "before model",
        "after model",
        "after run: changed",
    ]
    assert model.requests[0].temperature == 0.0
    assert model.requests[-1].messages[-1]["content"] == "not today!"
    assert events[0].payload["message"]["content"] == "HELLO"


async def test_an_answer_can_be_given_without_a_model(place: Path) -> None:
    async def before_model(agent: str, request: ModelRequest) -> ModelResponse:
        return ModelResponse("from the cache")

    agent, model = agent_in(place, [], callbacks=Callbacks(before_model=before_model))
    assert (await heard(agent))[-1].payload["text"] == "from the cache"
    assert model.requests == []


async def test_what_one_raises_ends_the_run(place: Path) -> None:
    async def before_tool(agent: str, call: ToolCall) -> ToolResult | None:
        raise CommandDenied("not here")

    agent, _ = agent_in(
        place, [calling(("skill_list_docs", {"skill": "alpha"}))], callbacks=Callbacks(before_tool=before_tool)
    )
    events = await heard(agent)
    assert events[-1].payload["reason"] == "COMMAND_DENIED"


@pytest.mark.parametrize(("given", "sent"), [("", ""), (None, "hello")])
async def test_an_empty_message_is_another_message_and_none_is_not(place: Path, given: str | None, sent: str) -> None:
    async def before_run(agent: str, message: str) -> str | None:
        return given

    agent, model = agent_in(place, [ModelResponse("ok")], callbacks=Callbacks(before_run=before_run))
    await heard(agent)
    assert model.requests[0].messages[-1]["content"] == sent


async def test_an_answer_from_a_cache_with_ids_that_are_used_already_spoils_no_log(place: Path) -> None:
    cached = calling(("skill_list_docs", {"skill": "alpha"}), ("skill_list_docs", {"skill": "beta"}))
    twice = replace(cached, calls=(cached.calls[0], replace(cached.calls[1], id="c1")))
    given = [twice, twice]

    async def before_model(agent: str, request: ModelRequest) -> ModelResponse | None:
        return given.pop(0) if given else None

    agent, model = agent_in(place, [ModelResponse("done")], callbacks=Callbacks(before_model=before_model))
    events = await heard(agent)
    ids = [event.payload["call_id"] for event in events if event.kind == "tool.call"]
    assert len(set(ids)) == 4
    assert find_unanswered_calls(build_transcript(events, "assistant")) == []
    sent = [message for message in model.requests[0].messages if message["role"] != "system"]
    assert [message.get("tool_call_id") for message in sent] == [None, None, *ids[:2], None, *ids[2:]]


def test_a_tool_is_described_as_models_want_it() -> None:
    assert ExtraTool("x", "Does x.", nothing).describe() == {
        "type": "function",
        "function": {"name": "x", "description": "Does x.", "parameters": {"type": "object", "properties": {}}},
    }


def event(seq: int, author: str, kind: str, **payload: Any) -> Event:
    return Event(f"e{seq}", author, kind, datetime.now(UTC), payload, {}, seq)


def user(seq: int, text: str, to: str = "a") -> Event:
    return event(seq, "user", "message", to=to, message={"role": "user", "content": text})


def calls(*identities: str) -> dict[str, Any]:
    made = [{"id": one, "type": "function", "function": {"name": "t", "arguments": "{}"}} for one in identities]
    return {"role": "assistant", "content": None, "tool_calls": made}


def test_an_agent_sees_what_was_said_to_it_and_by_it() -> None:
    log = [
        user(1, "hello"),
        event(2, "a", "message", message=calls("c1")),
        event(3, "a", "tool.call", call_id="c1"),
        event(4, "a", "tool.response", call_id="c1", content="done"),
        event(5, "a", "state.update"),
        event(6, "a", "message", to="b", message={"role": "user", "content": "a task"}),
        event(7, "b", "message", message={"role": "assistant", "content": "b's answer"}),
        event(8, "a", "message", message={"role": "assistant", "content": "an answer"}),
    ]
    assert [message["role"] for message in build_transcript(log, "a")] == ["user", "assistant", "tool", "assistant"]
    assert [message["content"] for message in build_transcript(log, "b")] == ["a task", "b's answer"]


def test_results_stand_in_the_order_of_the_calls() -> None:
    messages = [calls("c1", "c2"), *({"role": "tool", "tool_call_id": one, "content": one} for one in ("c2", "c1"))]
    ordered = [message for _, message in order_results(list(enumerate(messages)))]
    assert [message.get("content") for message in ordered] == [None, "c1", "c2"]
    assert find_unanswered_calls(messages) == []
    assert find_unanswered_calls([calls("c1", "c2"), messages[1]]) == [("c1", "t")]


def test_a_summary_takes_the_place_of_what_was_before_it() -> None:
    log = [user(1, "one"), user(2, "two"), user(3, "three"), event(4, "a", "summary", upto=2, text="they counted")]
    assert [message["content"] for message in build_transcript(log, "a")] == [
        f"{SUMMARY_HEADER}\nthey counted",
        "three",
    ]
    assert build_transcript(log, "b") == []


def test_the_last_turns_begin_with_what_was_said_to_the_agent() -> None:
    log = [user(1, "one"), event(2, "a", "message", message={}), user(3, "two"), user(4, "three")]
    assert find_last_turn(log, "a") == 3
    assert find_last_turn(log, "a", 2) == 2
    assert find_last_turn(log, "a", 5) == 0
    assert find_last_turn(log, "a", 0) == 4
    assert find_last_turn([], "a") == 0


def test_of_two_calls_with_one_id_the_one_without_a_result_is_unanswered() -> None:
    call = calls("c1")
    result = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    assert find_unanswered_calls([call, result, call]) == [("c1", "t")]
    assert find_unanswered_calls([call, result, call, result]) == []


@pytest.mark.parametrize(("lost", "seen"), [("restore", True), ("unload", False)])
async def test_a_loaded_skill_survives_a_summary_or_counts_as_unloaded(place: Path, lost: str, seen: bool) -> None:
    agent, model = agent_in(
        place,
        [
            calling(("skill_load", {"skill": "alpha"})),
            ModelResponse("x" * 400),
            ModelResponse("second"),
            ModelResponse("third"),
        ],
        options=SessionOptions(load_mode="session", when_lost=lost),
        summary=Summary(summarise_by_rule, tokens=50),
    )

    for text in ("one", "two", "three"):
        await heard(agent, text)

    last = str(model.requests[-1].messages)
    assert "Summary of the conversation so far:" in last
    assert "user: one" in last
    assert ("BODY OF alpha" in last) is seen
    assert ("[Unloaded] alpha" in last) is not seen


async def test_a_model_can_write_it(place: Path) -> None:
    writer = ScriptedModel([ModelResponse("they counted")])
    agent, model = agent_in(
        place,
        [ModelResponse("y" * 400), ModelResponse("2"), ModelResponse("3")],
        summary=Summary(summarise_by_model(writer), tokens=60, keep_turns=0),
    )

    for text in ("one", "two"):
        await heard(agent, text)

    assert "Summarise" in str(writer.requests[0].messages[-1]["content"])
    assert "they counted" in str(model.requests[-1].messages)


@pytest.mark.parametrize("written", [ModelResponse(""), ModelUnavailable("busy")])
async def test_without_a_summary_from_the_model_the_rule_writes_it(
    place: Path, written: ModelResponse | ModelUnavailable
) -> None:
    agent, model = agent_in(
        place,
        [ModelResponse("y" * 400), ModelResponse("2")],
        summary=Summary(summarise_by_model(ScriptedModel([written])), tokens=60, keep_turns=0),
    )

    for text in ("one", "two"):
        await heard(agent, text)

    assert "user: one" in str(model.requests[-1].messages)


async def test_a_short_history_stays(place: Path) -> None:
    agent, model = agent_in(place, [ModelResponse("1"), ModelResponse("2")], summary=Summary(summarise_by_rule))

    for text in ("one", "two"):
        await heard(agent, text)

    assert "Summary" not in str(model.requests[-1].messages)


async def test_a_summary_of_a_summary_keeps_what_the_first_one_kept(place: Path) -> None:
    facts = [f"fact {number}: " + "blah " * 60 for number in range(12)]
    agent, model = agent_in(
        place, [ModelResponse(f"noted {n}") for n in range(12)], summary=Summary(summarise_by_rule, tokens=50)
    )

    for fact in facts:
        await heard(agent, fact)

    last = str(model.requests[-1].messages)
    assert [f"user: fact {number}: " in last for number in range(10)] == [True] * 10
    assert [f"assistant: noted {number}" in last for number in range(10)] == [True] * 10
    assert last.count("Summary of the conversation so far") == 1


async def test_a_summary_stays_bounded_however_often_it_is_summarised_again() -> None:
    found: list[str] = []
    text = ""
    for number in range(300):
        before = [{"role": "system", "content": f"{SUMMARY_HEADER}\n{text}"}] if text else []
        text = await summarise_by_rule([*before, {"role": "user", "content": f"fact {number} " + "x" * 200}])
        found.append(text)

    texts = found
    assert max(map(len, texts)) < 13_000
    last = texts[-1].split("\n")
    assert last[0].startswith("user: fact 0 ")
    assert last[-1].startswith("user: fact 299 ")
    (left_out,) = [line for line in last if "left out" in line]
    assert int(left_out.strip("[]").split()[0]) + len(last) - 1 == 300


async def test_lines_that_are_too_long_for_any_summary_are_left_out_and_counted() -> None:
    long = {"role": "system", "content": f"{SUMMARY_HEADER}\n{'x' * 20_000}\nshort"}
    assert await summarise_by_rule([long]) == "[1 lines left out]\nshort"


async def test_a_model_that_summarises_is_asked_without_calls_and_hears_the_results(place: Path) -> None:
    writer = ScriptedModel([ModelResponse("a summary")])
    agent, _ = agent_in(
        place,
        [calling(("skill_list_docs", {"skill": "alpha"})), ModelResponse("y" * 400), ModelResponse("2")],
        summary=Summary(summarise_by_model(writer), tokens=60, keep_turns=0),
    )

    for text in ("one", "two"):
        await heard(agent, text)

    (asked,) = writer.requests[0].messages
    assert asked["role"] == "user"
    told = str(asked["content"])
    assert [part in told for part in ("user: one", "called skill_list_docs", "tool: ", "guide.md")] == [True] * 4


async def test_steps_of_a_long_turn_are_summarised_and_calls_keep_their_results_and_skills_their_texts(
    place: Path,
) -> None:
    calls = [calling(("note", {"text": f"finding {number} " + "x" * 200})) for number in range(12)]
    note = ExtraTool("note", "Write something down.", lambda given: "noted " + given["text"])
    agent, model = agent_in(
        place,
        [calling(("skill_load", {"skill": "alpha"})), *calls, ModelResponse("done"), ModelResponse("again")],
        tools=[note],
        summary=Summary(summarise_by_rule, tokens=700, keep_steps=2),
    )
    await heard(agent, "the task of this turn")
    last = model.requests[-1].messages
    roles = [message["role"] for message in last]
    assert roles[-5:] == ["user", "assistant", "tool", "assistant", "tool"]
    assert last[-5]["content"] == "the task of this turn"
    assert "finding 11" in last[-1]["content"]
    texts = "\n".join(str(message["content"]) for message in last)
    assert texts.count("BODY OF alpha") == 1
    assert "called note" in texts
    for request in model.requests:
        assert find_unanswered_calls(request.messages) == []
        assert sum(str(message["content"]).count("BODY OF alpha") for message in request.messages) <= 1
    await heard(agent, "another task")
    assert "the task of this turn" in str(model.requests[-1].messages)
    assert find_unanswered_calls(model.requests[-1].messages) == []


async def test_the_hook_before_the_model_knows_the_loaded_skills(place: Path) -> None:
    seen: list[tuple[str, ...]] = []

    async def before_model(agent: str, request: ModelRequest) -> ModelRequest:
        seen.append(request.loaded_skills)
        return replace(request, messages=[*request.messages, {"role": "user", "content": "be brief"}])

    agent, model = agent_in(
        place,
        [calling(("skill_load", {"skill": "beta"})), ModelResponse("x")],
        callbacks=Callbacks(before_model=before_model),
    )
    await heard(agent)
    assert seen == [(), ("beta",)]
    assert model.requests[-1].messages[-1]["content"] == "be brief"


@tool
def add(first: int, second: int = 1) -> int:
    """Add two numbers."""
    return first + second


@tool(name="greet_user", description="Say hello.")
async def greet(name: Annotated[str, Field(description="Who is greeted")]) -> str:
    return f"hello {name}"


def test_a_decorated_function_is_a_tool_with_the_schema_of_its_type_hints() -> None:
    assert add.describe()["function"] == {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"first": {"type": "integer"}, "second": {"type": "integer"}},
            "required": ["first"],
        },
    }
    assert greet.name == "greet_user"
    assert greet.parameters["properties"]["name"]["description"] == "Who is greeted"


async def test_tools_may_be_sync_or_async_and_wrong_arguments_are_explained_to_the_model(place: Path) -> None:
    strict = ExtraTool(
        "pick",
        "Pick one.",
        lambda given: {"picked": given["color"]},
        {
            "type": "object",
            "properties": {"color": {"type": "string", "enum": ["red", "blue"]}, "many": {"type": "integer"}},
            "required": ["color"],
            "additionalProperties": False,
        },
    )
    asked: list[tuple[str, dict[str, Any]]] = [
        ("add", {"first": "2"}),
        ("add", {"first": "two"}),
        ("greet_user", {"name": "Ada"}),
        ("greet_user", {}),
        ("pick", {"color": "red"}),
        ("pick", {"color": "green"}),
        ("pick", {"color": "red", "many": "3"}),
        ("pick", {"colour": "red"}),
        ("pick", {"color": "red", "size": 1}),
    ]
    agent, model = agent_in(place, [calling(*asked), ModelResponse("x")], tools=[add, greet, strict])
    await heard(agent)
    results = [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]
    assert results[0] == "3"
    assert results[1].startswith("error: first: Input should be a valid integer")
    assert results[2] == "hello Ada"
    assert results[3] == "error: name: required; greet_user takes name"
    assert results[4] == '{"picked": "red"}'
    assert results[5] == 'error: color: expected one of ["red", "blue"]'
    assert results[6] == 'error: many: expected integer, got "3"'
    assert results[7] == "error: color: required; it takes color, many"
    assert results[8] == "error: size: unknown argument; it takes color, many"


END = "; commands find the user's files in work/inputs/]"


def test_files_are_called_as_they_are_found_with_the_users_name_where_it_is_another() -> None:
    assert add_files_line("look", []) == "look"
    told = add_files_line("look", [("a.csv", "a.csv"), ("a_2.csv", "north/a.csv"), ("b.csv", "C:\\b.csv")])
    assert told == f'look\n\n[attached: a.csv, a_2.csv (north/a.csv), b.csv ("C:\\\\b.csv"){END}'
    assert split_files_line(told) == ("look", ("a.csv", "a_2.csv", "b.csv"))


@pytest.mark.parametrize(
    "name",
    ["a, b.csv", "a; b].csv", 'say "hi".txt', "(1).csv", "[x].csv", " a", "back\\slash", "数据，一.csv", "a (2).csv"],
)
def test_a_name_that_could_be_misread_is_read_as_it_was_written(name: str) -> None:
    told = add_files_line("look", [("first.csv", "x"), (name, name), ("last.csv", name)])
    assert split_files_line(told) == ("look", ("first.csv", name, "last.csv"))


def test_a_name_of_the_user_is_one_line_and_not_too_long() -> None:
    told = add_files_line("look", [("x.csv", "a\nb" * 500)])
    assert told.count("\n") == 2
    assert len(told) < 300
    assert split_files_line(told)[1] == ("x.csv",)


@pytest.mark.parametrize("text", ["", "hello", "[attached: ; commands find x]", '[attached: "; commands find x]'])
def test_any_text_is_taken(text: str) -> None:
    assert split_files_line(text)[1] in ((), ("",))
