"""Histories in fewer words."""

from pathlib import Path

import pytest

from openskills.agent.log import SUMMARISED
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


def test_a_summary_of_a_summary_keeps_what_the_first_one_kept(place: Path) -> None:
    facts = [f"fact {number}: " + "blah " * 60 for number in range(12)]
    agent, model = agent_in(place, [Answer(f"noted {n}") for n in range(12)], summary=Summary(by_rule, tokens=50))

    async def go() -> None:
        for fact in facts:
            await heard(agent, fact)

    run(go())
    last = str(model.requests[-1].messages)
    assert [f"user: fact {number}: " in last for number in range(10)] == [True] * 10
    assert [f"assistant: noted {number}" in last for number in range(10)] == [True] * 10
    assert last.count("Summary of the conversation so far") == 1


def test_a_summary_stays_bounded_however_often_it_is_summarised_again() -> None:
    async def go() -> list[str]:
        found: list[str] = []
        text = ""
        for number in range(300):
            before = [{"role": "system", "content": f"{SUMMARISED}\n{text}"}] if text else []
            text = await by_rule([*before, {"role": "user", "content": f"fact {number} " + "x" * 200}])
            found.append(text)
        return found

    texts = run(go())
    assert max(map(len, texts)) < 13_000
    last = texts[-1].split("\n")
    assert last[0].startswith("user: fact 0 ")
    assert last[-1].startswith("user: fact 299 ")
    (left_out,) = [line for line in last if "left out" in line]
    assert int(left_out.strip("[]").split()[0]) + len(last) - 1 == 300


def test_lines_that_are_too_long_for_any_summary_are_left_out_and_counted() -> None:
    long = {"role": "system", "content": f"{SUMMARISED}\n{'x' * 20_000}\nshort"}
    assert run(by_rule([long])) == "[1 lines left out]\nshort"


def test_a_model_that_summarises_is_asked_without_calls_and_hears_the_results(place: Path) -> None:
    writer = ScriptedModel([Answer("a summary")])
    agent, _ = agent_in(
        place,
        [calling(("skill_list_docs", {"skill": "alpha"})), Answer("y" * 400), Answer("2")],
        summary=Summary(by_model(writer), tokens=60, keep_turns=0),
    )

    async def go() -> None:
        for text in ("one", "two"):
            await heard(agent, text)

    run(go())
    (asked,) = writer.requests[0].messages
    assert asked["role"] == "user"
    told = str(asked["content"])
    assert [part in told for part in ("user: one", "called skill_list_docs", "tool: ", "guide.md")] == [True] * 4
