"""The state of a thread, over turns, event loops and calls that run at the same time."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import ToolCall
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from openskills.adapters.langchain.runtime_state import (
    changes_to_channel,
    fold,
    loaded_skills,
    state_from_channel,
    state_to_channel,
)
from openskills.errors import ExecutorUnavailable
from openskills.runtime.runtime import SkillRuntime
from openskills.session.state import (
    AgentView,
    Change,
    Consumed,
    DocsChosen,
    Loaded,
    RecordedChange,
    SkillState,
    TurnBegan,
    Unloaded,
    apply_changes,
)
from openskills.sync import run
from tests.adapters.langchain.runtime_agents import SkillTalk, hello, load, runtime_of, talk_of, unload, with_guides
from tests.adapters.langchain.scripted import call, says
from tests.conftest import RequireProgram
from tests.runtime.talking import runtime_in
from tests.skill_writer import WriteSkill


def test_what_is_loaded_can_be_read_from_the_values_of_a_thread() -> None:
    changes = [RecordedChange(2, "assistant", Loaded("pdf")), RecordedChange(1, "assistant", Loaded("docx"))]
    values = {"openskills_state": fold(None, changes_to_channel(changes))}
    assert loaded_skills(values) == ("docx", "pdf")
    assert loaded_skills(values, "somebody else") == ()


def test_a_thread_without_the_middleware_has_nothing_loaded() -> None:
    assert loaded_skills({"messages": []}) == ()


SKILLS = st.sampled_from(["a", "b"])
DOCS = st.lists(st.sampled_from(["x.md", "y.md", "*"]), max_size=2).map(tuple)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(Loaded, SKILLS, st.one_of(st.none(), DOCS)),
    st.builds(Unloaded, SKILLS, st.booleans()),
    st.builds(Consumed, SKILLS),
    st.builds(DocsChosen, SKILLS, DOCS, st.booleans()),
    st.builds(TurnBegan),
)
RECORDED = st.builds(RecordedChange, st.integers(1, 12), st.sampled_from(["one", "two"]), CHANGES)
UPDATES = st.lists(st.lists(RECORDED, max_size=3), max_size=8)


def seen(view: AgentView) -> Any:
    """Everything that can be asked about an agent."""
    return [
        (name, view.is_loaded(name), view.can_run(name), view.docs(name)) for name in ("a", "b")
    ], view.list_loaded()


@given(UPDATES)
def test_the_channel_says_what_the_fold_says(updates: list[list[RecordedChange]]) -> None:
    channel, state = None, SkillState()
    for update in updates:
        channel = fold(channel, changes_to_channel(update))
        state = apply_changes(state, update)
        for agent in ("one", "two"):
            assert seen(state_from_channel(channel).view_for(agent)) == seen(state.view_for(agent))


@given(UPDATES, st.randoms(use_true_random=False))
def test_updates_of_one_step_may_come_in_any_order(updates: list[list[RecordedChange]], random: Any) -> None:
    def folded(order: list[list[RecordedChange]]) -> Any:
        channel = None
        for update in order:
            channel = fold(channel, changes_to_channel(update))
        return [seen(state_from_channel(channel).view_for(agent)) for agent in ("one", "two")]

    shuffled = list(updates)
    random.shuffle(shuffled)
    assert folded(shuffled) == folded(updates)


@given(st.lists(RECORDED, max_size=8))
def test_everything_in_it_is_plain(changes: list[RecordedChange]) -> None:
    update = changes_to_channel(changes)
    channel = fold({}, update)
    assert json.loads(json.dumps([channel, update])) == [channel, update]
    serialiser = JsonPlusSerializer()
    assert serialiser.loads_typed(serialiser.dumps_typed(channel)) == channel


def test_what_ended_with_a_turn_takes_no_room() -> None:
    changes = [RecordedChange(n, "one", Loaded(f"skill-{n}")) for n in range(1, 100)]
    channel = fold(None, changes_to_channel([*changes, RecordedChange(99, "one", TurnBegan())]))
    assert channel == {"clock": 99, "turns": {"one": 99}, "skills": {}}


def test_a_state_comes_back_as_it_was() -> None:
    changes = [
        RecordedChange(1, "one", Loaded("a", ("x.md",))),
        RecordedChange(2, "one", DocsChosen("a", ("y.md",), True)),
    ]
    state = apply_changes(SkillState(), changes)
    assert state_from_channel(state_to_channel(state)) == state


NAMES = ("docx", "pdf", "xlsx")
VERBS = ("load", "unload", "select", "run")
CALLS = st.lists(st.tuples(st.sampled_from(VERBS), st.sampled_from((*NAMES, "nothing"))), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def skills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three skills, each with a document."""
    return with_guides(tmp_path_factory.mktemp("one-message"), NAMES)


def awaited(talk: SkillTalk) -> object:
    return asyncio.run(talk.hear())


def blocking(talk: SkillTalk) -> object:
    return talk.say()


WAYS = pytest.mark.parametrize("turn", [awaited, blocking])


@WAYS
def test_a_skill_that_is_loaded_and_unloaded_in_one_message_is_not_loaded_and_both_calls_say_what_they_did(
    skills: Path, turn: Callable[[SkillTalk], object]
) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf"), unload("pdf")), "done"])
    turn(talk)
    assert [message.text for message in talk.results().values()] == ["loaded: pdf", "unloaded: pdf"]
    assert talk.loaded() == ()
    assert "# How to work with pdf" not in talk.shown()


@WAYS
def test_a_command_may_stand_in_the_message_that_loads_its_skill(
    skills: Path, turn: Callable[[SkillTalk], object]
) -> None:
    talk = talk_of(runtime_of(skills), [says(load("pdf"), hello("pdf")), "done"])
    turn(talk)
    assert "hello from a command" in talk.results()["run"].text


def test_a_command_in_front_of_the_load_of_its_skill_is_refused(skills: Path) -> None:
    talk = talk_of(runtime_of(skills), [says(hello("pdf"), load("pdf")), "done"])
    talk.say()
    assert talk.results()["run"].status == "error"


def test_a_load_that_takes_the_place_of_another_of_its_message_says_so(skills: Path) -> None:
    talk = talk_of(runtime_of(skills, max_loaded_skills=1), [says(load("pdf"), load("docx")), "done"])
    talk.say()
    assert talk.results()["load-docx"].text == "loaded: docx\nevicted: pdf"
    assert talk.loaded() == ("docx",)


def test_a_load_that_a_person_refused_is_not_counted_on_by_the_calls_behind_it(skills: Path) -> None:
    approvals: Any = {"skill_load": {"allowed_decisions": ["approve", "reject"]}}
    people = HumanInTheLoopMiddleware(interrupt_on=approvals)
    talk = talk_of(runtime_of(skills), [says(load("pdf"), hello("pdf"), unload("pdf")), "done"], after=[people])
    talk.say()
    talk.agent.invoke(Command(resume={"decisions": [{"type": "reject"}]}), talk.config)
    assert talk.results()["run"].status == "error"
    assert "was not loaded" in talk.results()["unload-pdf"].text
    assert talk.loaded() == ()


@given(calls=CALLS)
@settings(max_examples=15, deadline=None)
def test_one_message_with_many_calls_does_and_says_what_a_message_for_each_does(
    skills: Path, calls: list[tuple[str, str]]
) -> None:
    wanted = [_call(verb, skill, str(place)) for place, (verb, skill) in enumerate(calls)]
    together = talk_of(_runtime(skills), [says(*wanted), "done"])
    in_turn = talk_of(_runtime(skills), [*(says(one) for one in wanted), "done"])
    together.say()
    in_turn.say()
    assert _said(together) == _said(in_turn)
    assert together.loaded() == in_turn.loaded()
    assert together.shown().count("# How to work with") == len(together.loaded())


def _runtime(skills: Path) -> Any:
    return runtime_of(skills, load_mode="session", max_loaded_skills=2)


def _call(verb: str, skill: str, call_id: str) -> ToolCall:
    if verb == "run":
        return hello(skill, call_id)
    if verb == "select":
        return call("skill_select_docs", call_id, skill=skill, docs=["guide.md"])
    return load(skill, call_id) if verb == "load" else unload(skill, call_id)


def _said(talk: SkillTalk) -> list[str]:
    """What every result says, in the order of the calls."""
    return [message.text for _, message in sorted(talk.results().items())]


BEGIN = call("skill_exec", "exec", skill="pdf", command="while read -r line; do echo got $line; done")


@pytest.fixture
def runtime(tmp_path: Path, write_skill: WriteSkill) -> SkillRuntime:
    write_skill("pdf")
    return runtime_in(tmp_path, executor="local")


def write(messages: Any) -> Any:
    """A call that types into the command."""
    begun = next(message for message in messages if getattr(message, "tool_call_id", "") == "exec")
    identity = json.loads(begun.text)["session_id"]
    return says(call("skill_write_stdin", f"write-{len(messages)}", session_id=identity, chars="it", submit=True))


def runs(command: str) -> Any:
    """A call that runs a command to its end."""
    return call("skill_run", "run", skill="pdf", command=command)


def talked(runtime: SkillRuntime, *turns: Callable[[SkillTalk], object]) -> list[str]:
    """What the command says in each turn: started in the first, written to in all."""
    script = [says(load("pdf")), says(BEGIN), write, "first", *[line for _ in turns[1:] for line in (write, "more")]]
    talk = talk_of(runtime, script)
    for turn in turns:
        turn(talk)
    return [message.text for identity, message in talk.results().items() if identity.startswith("write")]


def test_a_command_lives_through_blocking_turns_and_is_found_from_awaited_ones(runtime: SkillRuntime) -> None:
    said = talked(runtime, blocking, blocking, awaited, blocking)
    assert [json.loads(text)["output"] for text in said] == ["got it\n"] * 4
    run(runtime.close())


@pytest.mark.parametrize("turn", [awaited, blocking])
def test_a_command_of_an_awaited_turn_ends_with_its_loop_and_the_model_is_told(
    runtime: SkillRuntime, turn: Callable[[SkillTalk], object]
) -> None:
    first, second = talked(runtime, awaited, turn)
    assert json.loads(first)["output"] == "got it\n"
    assert "ended with its event loop" in second
    assert "skill_exec" in second
    asyncio.run(runtime.close())


async def test_in_a_notebook_a_blocking_turn_says_that_the_command_is_elsewhere(runtime: SkillRuntime) -> None:
    talk = talk_of(runtime, [says(load("pdf")), says(BEGIN), "first", write, "third"])

    await talk.hear()
    with pytest.raises(ExecutorUnavailable, match="in another event loop"):
        talk.say()
    await talk.hear()
    await runtime.close()
    (told,) = [message.text for identity, message in talk.results().items() if identity.startswith("write")]
    assert json.loads(told)["output"] == "got it\n"


@pytest.mark.parametrize("executor", ["local", "sandbox"])
def test_what_one_loop_does_is_nothing_to_the_commands_of_others(
    executor: str, tmp_path: Path, write_skill: WriteSkill, require_program: RequireProgram
) -> None:
    if executor == "sandbox":
        require_program("bwrap")
    tmp_path.chmod(0o755)
    write_skill("pdf")
    runtime = runtime_in(tmp_path, executor=executor)
    talking = talk_of(runtime, [says(load("pdf")), says(BEGIN), "first", write, "second"])
    talking.say()
    slow, quick = (
        talk_of(runtime, [says(load("pdf")), says(runs(command)), "done"], thread=name)
        for name, command in (("slow", "sleep 1; echo slow"), ("quick", "echo quick"))
    )
    turns = [threading.Thread(target=awaited, args=(talk,)) for talk in (slow, quick)]
    for turn in turns:
        turn.start()
    for turn in turns:
        turn.join(60)
    talking.say()
    assert [json.loads(talk.results()["run"].text)["stdout"] for talk in (slow, quick)] == ["slow\n", "quick\n"]
    (told,) = [message.text for identity, message in talking.results().items() if identity.startswith("write")]
    assert json.loads(told)["output"] == "got it\n"
    run(runtime.close())
