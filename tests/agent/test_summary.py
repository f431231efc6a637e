"""Histories in fewer words."""

from pathlib import Path

import pytest

from openskills.agent.model import Answer
from openskills.agent.summary import Summary, by_model, by_rule
from openskills.errors import ModelUnavailable
from openskills.runtime.options import SessionOptions
from openskills.sync import run
from openskills.testing import ScriptedModel
from tests.agent.agents import agent_in, calling, heard, skills_for_agents


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


@pytest.mark.parametrize(("lost", "seen"), [("restore", True), ("unload", False)])
def test_a_loaded_skill_survives_a_summary_or_counts_as_unloaded(place: Path, lost: str, seen: bool) -> None:
    agent, model = agent_in(
        place,
        [calling(("skill_load", {"skill": "alpha"})), Answer("x" * 400), Answer("second"), Answer("third")],
        options=SessionOptions(load_mode="session", when_lost=lost),
        summary=Summary(by_rule, tokens=50),
    )

    async def go() -> None:
        for text in ("one", "two", "three"):
            await heard(agent, text)

    run(go())
    last = str(model.requests[-1].messages)
    assert "Summary of the conversation so far:" in last
    assert "user: one" in last
    assert ("BODY OF alpha" in last) is seen
    assert ("[Unloaded] alpha" in last) is not seen


def test_a_model_can_write_it(place: Path) -> None:
    writer = ScriptedModel([Answer("they counted")])
    agent, model = agent_in(
        place, [Answer("y" * 400), Answer("2"), Answer("3")], summary=Summary(by_model(writer), tokens=60, keep_turns=0)
    )

    async def go() -> None:
        for text in ("one", "two"):
            await heard(agent, text)

    run(go())
    assert "Summarise" in str(writer.requests[0].messages[-1]["content"])
    assert "they counted" in str(model.requests[-1].messages)


@pytest.mark.parametrize("written", [Answer(""), ModelUnavailable("busy")])
def test_without_a_summary_from_the_model_the_rule_writes_it(place: Path, written: Answer | ModelUnavailable) -> None:
    agent, model = agent_in(
        place,
        [Answer("y" * 400), Answer("2")],
        summary=Summary(by_model(ScriptedModel([written])), tokens=60, keep_turns=0),
    )

    async def go() -> None:
        for text in ("one", "two"):
            await heard(agent, text)

    run(go())
    assert "user: one" in str(model.requests[-1].messages)


def test_a_short_history_stays(place: Path) -> None:
    agent, model = agent_in(place, [Answer("1"), Answer("2")], summary=Summary(by_rule))

    async def go() -> None:
        for text in ("one", "two"):
            await heard(agent, text)

    run(go())
    assert "Summary" not in str(model.requests[-1].messages)
