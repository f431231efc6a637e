"""A call and those before it in its message.

A long load result reaches the model whole.

Subagents for skills; whole graphs are in the tests of the options.

Loading and unloading as values; most of it is tested by the document's names.
"""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command

from openskills.adapters.langchain.backend_io import run_blocking
from openskills.adapters.langchain.discovery import BackendDiscovery
from openskills.adapters.langchain.load import (
    Delegation,
    SkillCall,
    SkillLoader,
    TaskTool,
    append_resources,
    insert_arguments,
    prevent_eviction,
)
from openskills.adapters.langchain.messages import SkillMark, compute_digest, parse_mark
from tests.adapters.langchain.agents import deep
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.runtimes import text_of, update_of
from tests.adapters.langchain.scripted import call, load, says, unload
from tests.skill_writer import WriteSkill


def test_only_earlier_calls_of_the_same_message_count() -> None:
    old = says(unload("x", "0"))
    message = says(load("a", "1"), unload("b", "2"), call("other", "3"), load("c", "4"), unload("d", "5"))
    state = {"messages": [old, ToolMessage("done", tool_call_id="0"), message], "skills_loaded": ["b"]}
    made = SkillCall.from_state("c", "4", state)
    assert (made.loads, made.unloads, made.thread.loaded) == ({"a"}, {"b"}, ("b",))


def test_a_call_that_was_answered_did_not_happen() -> None:
    message = says(load("a", "1"), load("b", "2"), load("c", "3"))
    made = SkillCall.from_state("c", "3", {"messages": [message, ToolMessage("rejected", tool_call_id="1")]})
    assert made.loads == {"b"}


def test_a_call_outside_a_conversation_has_none_before_it() -> None:
    for messages in ([], [HumanMessage("x")], [says(load("a", "1"))]):
        made = SkillCall.from_state("c", "9", {"messages": messages})
        assert (made.loads, made.unloads, made.thread.loaded) == (frozenset(), frozenset(), ())


def test_an_earlier_call_counts_as_the_person_left_it() -> None:
    message = says(load("a", "1"), load("b", "2"), load("c", "3"))
    edited = {
        "1": {"name": "load_skill", "args": {"skill_name": "x"}},
        "2": {"name": "unload_skill", "args": {"skill_name": "y"}},
    }
    made = SkillCall.from_state("c", "3", {"messages": [message], "hitl_edited_tool_calls": edited})
    assert (made.loads, made.unloads) == ({"x"}, {"y"})


LONG = "word " * 30_000 + "THE END"


def test_a_load_result_of_150000_characters_is_not_replaced_by_a_pointer(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("long", body=LONG)
    talk = deep(backend, [says(load("long")), "one"])
    talk.say()
    shown = talk.model.requests[-1][-1]
    assert isinstance(shown, ToolMessage)
    assert shown.text.rstrip().endswith("THE END")
    assert shown.name == "load_skill"
    assert talk.loaded == ["long"]
    assert "large_tool_results" not in shown.text


async def test_a_long_result_is_whole_when_the_agent_is_awaited(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("long", body=LONG)
    talk = deep(backend, [says(load("long")), "one"])
    await talk.hear()
    assert talk.model.requests[-1][-1].text.rstrip().endswith("THE END")


def test_results_of_other_tools_are_evicted_as_before(backend: Any) -> None:
    def long_answer() -> str:
        """Say much."""
        return LONG

    talk = deep(backend, [says(call("long_answer", "1"))], agent={"tools": [long_answer]})
    talk.say()
    assert "large_tool_results" in talk.results()["1"]


def test_a_short_result_stays_a_message() -> None:
    message = ToolMessage("t", tool_call_id="1", additional_kwargs=SkillMark("a", "load").to_kwargs())
    command: Command[Any] = Command(update={"messages": [message], "x": 1})
    same = prevent_eviction(command, 10)
    assert isinstance(same, Command)
    assert same.update == {"messages": [message], "x": 1}


def test_calls_that_are_not_loads_are_left_alone() -> None:
    message = ToolMessage("t" * 20, tool_call_id="1")
    assert prevent_eviction(message, 10) is message
    kept = prevent_eviction(Command(update={"messages": [message]}), 10)
    assert isinstance(kept, Command)
    assert kept.update == {"messages": [message]}


@tool("task")
def task_tool(description: str, subagent_type: str, runtime: str) -> str:
    """Do it."""
    return f"{subagent_type} does {description} in {runtime}"


@tool
def other() -> str:
    """Something else."""
    return ""


def test_an_agent_without_subagents_has_no_task() -> None:
    assert TaskTool.find([other]) is None


def test_a_delegation_is_a_call_of_the_task(backend: Any) -> None:
    task = TaskTool.find([other, task_tool])
    assert task is not None
    assert run_blocking(task.call(Delegation("it"), "here"), backend) == "general-purpose does it in here"


def loading(limit: int = 2, **options: Any) -> SkillLoader:
    return SkillLoader(BackendDiscovery(["/skills/"]), limit, **options)


def answer(backend: Any, skill: str, state: dict[str, Any], call_id: str = "1", **options: Any) -> Any:
    given = {"skills_metadata": [entry("a"), entry("b"), entry("c")], **state}
    return run_blocking(loading(**options).load(SkillCall.from_state(skill, call_id, given)), backend)


def test_the_result_bears_a_mark_of_what_was_read(write_skill: WriteSkill, backend: Any) -> None:
    content = (write_skill("a") / "SKILL.md").read_bytes()
    result = answer(backend, "a", {"skills_loaded": ["b"]})
    (message,) = update_of(result)["messages"]
    mark = parse_mark(message)
    assert mark is not None
    assert (mark.skill, mark.before, mark.digest) == ("a", ("b",), compute_digest(content))
    assert mark.characters == len(text_of(result))


def test_a_list_that_is_missing_is_found_again(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("a")
    assert not isinstance(answer(backend, "a", {"skills_metadata": None}), str)


@pytest.mark.parametrize(
    ("earlier", "refused"),
    [
        ((), True),
        ((unload("a", "0"),), False),
        ((unload("c", "0"),), True),
        ((load("c", "0"),), True),
    ],
)
def test_at_the_limit_a_load_goes_on_only_if_an_earlier_call_may_make_room(
    write_skill: WriteSkill, backend: Any, earlier: Any, refused: bool
) -> None:
    write_skill("c")
    state = {"messages": [says(*earlier, load("c", "1"))], "skills_loaded": ["a", "b"]}
    assert isinstance(answer(backend, "c", state), str) is refused


def test_text_that_is_not_utf8_is_an_error_for_the_model(write_skill: WriteSkill, backend: Any) -> None:
    (write_skill("a") / "SKILL.md").write_bytes(b"---\nname: \xff\n---\n")
    assert answer(backend, "a", {}).startswith("Error: Failed to decode skill file: 'utf-8' codec")


def test_resources_that_are_known_are_not_looked_for_again(write_skill: WriteSkill, backend: Any) -> None:
    (write_skill("a") / "new.md").write_text("x", "utf-8")
    known = [{"path": "/old.md", "type": "other", "skill_name": "a"}]
    assert "- [other] `/old.md`" in text_of(answer(backend, "a", {"skill_resources": {"a": known}}))
    again = {"messages": [says(unload("a", "0"), load("a", "1"))], "skills_loaded": ["a"]}
    assert "new.md" in text_of(answer(backend, "a", {"skill_resources": {"a": known}, **again}))


def test_a_skill_that_forks_becomes_a_delegation_whatever_is_loaded(write_skill: WriteSkill, backend: Any) -> None:
    (write_skill("a", body="Do $ARGUMENTS.") / "x.md").write_text("x", "utf-8")
    skills = [entry("a", extensions={"context": "fork", "agent": "helper"})]
    call = SkillCall.from_state("a", "1", {"skills_metadata": skills, "skills_loaded": ["a", "b"]})
    made = run_blocking(loading(fork=True).load(call, "it"), backend)
    assert isinstance(made, Delegation)
    assert made.agent == "helper"
    assert "Do it." in made.description
    assert "`/skills/a/x.md`" in made.description


def test_a_skill_that_forks_and_cannot_be_read_is_an_error(backend: Any) -> None:
    skills = [entry("gone", extensions={"context": "fork"})]
    call = SkillCall.from_state("gone", "1", {"skills_metadata": skills})
    assert str(run_blocking(loading(fork=True).load(call), backend)).startswith("Error: Failed to read")


def test_arguments_take_every_place_or_the_end() -> None:
    assert insert_arguments("a $ARGUMENTS b $ARGUMENTS", "x") == "a x b x"
    assert insert_arguments("a", "x") == "a\n\nARGUMENTS: x"
    assert insert_arguments("a $ARGUMENTS", "") == "a $ARGUMENTS"


def test_a_text_without_resources_is_left_as_it_is() -> None:
    assert append_resources("text", []) == "text"
