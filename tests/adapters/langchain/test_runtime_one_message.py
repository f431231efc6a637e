"""Calls of one message run at the same time, and come to the same as one after the other."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import ToolCall
from langgraph.types import Command

from tests.adapters.langchain.runtime_agents import SkillTalk, hello, load, runtime_of, talk_of, unload, with_guides
from tests.adapters.langchain.scripted import call, says

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
