"""People who edit calls of `load_skill` before they run; LangChain tells the model so in the result."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.types import Command

from tests.adapters.langchain.agents import Talk, deep, plain
from tests.adapters.langchain.scripted import load, says, unload
from tests.skill_writer import WriteSkill

KINDS = ("deep", "plain")


def asking(kind: str, backend: Any, script: Sequence[Any], **options: Any) -> Talk:
    """An agent that asks about every load and unload."""
    about: Any = dict.fromkeys(("load_skill", "unload_skill"), True)
    if kind == "deep":
        return deep(backend, script, agent={"interrupt_on": about}, **options)
    return plain(backend, script, more=[HumanInTheLoopMiddleware(interrupt_on=about)], **options)


def edit(skill: str, tool: str = "load_skill") -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": tool, "args": {"skill_name": skill}}}


def decide(talk: Talk, *decisions: dict[str, Any]) -> None:
    talk.agent.invoke(Command(resume={"decisions": list(decisions)}), talk.config)


@pytest.mark.parametrize("kind", KINDS)
def test_a_skill_that_a_person_chose_instead_is_loaded_and_stays_so(
    write_skill: WriteSkill, backend: Any, kind: str
) -> None:
    for name in ("a", "b"):
        write_skill(name, body=f"Body of {name}.")
    talk = asking(kind, backend, [says(load("a")), "one", "two"])
    talk.say()
    decide(talk, edit("b"))
    assert talk.loaded == ["b"]
    talk.say()
    assert talk.loaded == ["b"]
    assert "- **b** [Loaded]:" in talk.model.prompt()
    shown = [message.text for message in talk.model.requests[-1][1:]]
    assert sum("Body of b." in text for text in shown) == 1, "nothing had to be given back"
    assert not any("no longer loaded" in text for text in shown)


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_rejected_and_an_edited_call_only_the_edited_one_counts(
    write_skill: WriteSkill, backend: Any, kind: str
) -> None:
    for name in ("a", "b", "c"):
        write_skill(name, body=f"Body of {name}.")
    talk = asking(kind, backend, [says(load("a"), load("b")), "one"], max_loaded_skills=1)
    talk.say()
    decide(talk, {"type": "reject"}, edit("c"))
    assert talk.loaded == ["c"]
    assert "Body of c." in talk.results()["load-b"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_call_of_the_message_reckons_with_the_edited_one(
    write_skill: WriteSkill, backend: Any, kind: str
) -> None:
    for name in ("a", "b", "c"):
        write_skill(name, body=f"Body of {name}.")
    script = [says(load("a")), says(unload("b", "1"), load("c", "2")), "one"]
    talk = asking(kind, backend, script, max_loaded_skills=1)
    talk.say()
    decide(talk, {"type": "approve"})
    decide(talk, edit("a", "unload_skill"), {"type": "approve"})
    assert talk.loaded == ["c"]
    assert "Skill 'a' has been unloaded." in talk.results()["1"]
    assert "Body of c." in talk.results()["2"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_has_to_be_corrected_still_says_that_the_call_was_edited(
    write_skill: WriteSkill, backend: Any, kind: str
) -> None:
    for name in ("a", "b"):
        write_skill(name)
    talk = asking(kind, backend, [says(load("a", "1"), load("b", "2")), "one"], max_loaded_skills=1)
    talk.say()
    decide(talk, {"type": "approve"}, edit("b"))
    assert talk.loaded == ["a"]
    assert talk.results()["2"].startswith("Note: a human reviewer")
    assert "Cannot load skill 'b'. Maximum number" in talk.results()["2"]


def test_an_edited_load_of_a_long_skill_is_whole(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("a")
    write_skill("long", body="x" * 90_000)
    talk = asking("deep", backend, [says(load("a")), "one"])
    talk.say()
    decide(talk, edit("long"))
    assert talk.loaded == ["long"]
    assert "x" * 90_000 in talk.results()["load-a"]
