"""Whatever a model, a person and middleware do: what is loaded is in the model's sight, and nothing raises."""

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain_core.messages import ToolCall
from langgraph.types import Command

from tests.adapters.langchain.runtime_agents import SkillTalk, load, runtime_of, talk_of, unload, with_guides
from tests.adapters.langchain.scripted import Scripted, call, says

NAMES = ("alpha", "beta", "gamma")
LIMIT = 2

CALLS = st.tuples(st.sampled_from(["load", "load", "unload", "select"]), st.sampled_from((*NAMES, "missing")))
STEPS = st.lists(st.lists(CALLS, min_size=1, max_size=3), max_size=3)
"""What the model wants in one turn: some messages, each with some calls."""
TURNS = st.lists(STEPS, min_size=1, max_size=4)


@pytest.fixture(scope="module")
def skills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Skills with a document each."""
    return with_guides(tmp_path_factory.mktemp("properties"), NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["turn", "session", "once"])
@pytest.mark.parametrize("when_lost", ["restore", "unload"])
@given(turns=TURNS, choice=st.randoms(use_true_random=False))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_loaded_is_in_sight_and_within_the_limit(
    skills: Path, mode: str, when_lost: str, turns: list[list[list[tuple[str, str]]]], choice: Any
) -> None:
    talk = eventful(skills, load_mode=mode, when_lost=when_lost, max_loaded_skills=LIMIT)
    for number, steps in enumerate(turns):
        if number and choice.random() < 0.3:
            go_back(talk, choice)
        gone_by = len(talk.model.requests)
        talk.model.script[:] = ["gone by"] * gone_by + [said(f"{number}-{at}", step) for at, step in enumerate(steps)]
        talk.say(f"turn {number}")
        decide(talk, choice)
        check(talk, once=mode == "once")


def eventful(skills: Path, **options: Any) -> SkillTalk:
    """A thread with summaries and approvals."""
    summary = SummarizationMiddleware(
        Scripted(script=["In short."] * 99), trigger=("messages", 9), keep=("messages", 2)
    )
    approvals: Any = {"skill_load": {"allowed_decisions": ["approve", "reject"]}}
    people = HumanInTheLoopMiddleware(interrupt_on=approvals)
    return talk_of(runtime_of(skills, **options), [], before=[summary], after=[people])


def said(step: str, calls: list[tuple[str, str]]) -> Any:
    """A message of the model."""
    return says(*(wanted(verb, skill, f"{step}-{place}") for place, (verb, skill) in enumerate(calls)))


def wanted(verb: str, skill: str, call_id: str) -> ToolCall:
    """A call."""
    if verb == "select":
        return call("skill_select_docs", call_id, skill=skill, docs=["guide.md"])
    return load(skill, call_id) if verb == "load" else unload(skill, call_id)


def decide(talk: SkillTalk, choice: Any) -> None:
    """A person says yes or no to every load, until the turn is over."""
    while interrupts := talk.agent.get_state(talk.config).interrupts:
        asked = cast("list[Any]", interrupts[0].value["action_requests"])
        answers = [{"type": choice.choice(["approve", "reject"])} for _ in asked]
        talk.agent.invoke(Command(resume={"decisions": answers}), talk.config)


def go_back(talk: SkillTalk, choice: Any) -> None:
    """Go on from some earlier end of a turn."""
    ends = [one.config for one in talk.agent.get_state_history(talk.config) if not one.next and one.values["messages"]]
    talk.agent.update_state(choice.choice(ends), {})


def check(talk: SkillTalk, *, once: bool) -> None:
    """The last request has the text of every loaded skill, and of no other.

    In the mode `once` it may have more: what it had is gone by now.
    """
    loaded, shown = talk.loaded(), talk.shown()
    assert len(loaded) <= LIMIT
    for name in NAMES:
        is_shown = f"# How to work with {name}" in shown
        assert is_shown if name in loaded else once or not is_shown, name
