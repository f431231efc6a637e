"""What happens when a run begins: changes on disk, forks, histories from elsewhere, subagents.

Tools that come with a skill are disclosed when it is loaded.
"""

import shutil
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core._api import LangChainBetaWarning
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from openskills.adapters.langchain.messages import SkillMark
from openskills.adapters.langchain.model_call import ReadFileView, select_with_tools
from tests.adapters.langchain.agents import Talk, compacting, deep, plain
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.scripted import call, load, says, unload
from tests.skill_writer import WriteSkill


def delegating(backend: Any, script: Any, **options: Any) -> Talk:
    """An agent with a subagent that continues the conversation of its caller."""
    spec = {"name": "fork", "description": "goes on", "mode": "fork"}
    with warnings.catch_warnings():
        # Forks are marked as an early feature.
        warnings.simplefilter("ignore", LangChainBetaWarning)
        return deep(backend, script, agent={"subagents": [spec]}, **options)


def task(subagent: str) -> Any:
    return says(call("task", "task", description="go", subagent_type=subagent))


def test_a_skill_that_was_added_changed_or_removed_is_noticed_in_the_next_turn(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("changed", "Old words.")
    removed = write_skill("removed")
    talk = deep(backend, ["one", "two"])
    talk.say()
    write_skill("changed", "New words.")
    write_skill("added")
    shutil.rmtree(removed)
    talk.say()
    prompt = talk.model.prompt()
    assert "- **added**:" in prompt
    assert "- **changed**: New words." in prompt
    assert "removed" not in prompt


def test_without_rescan_a_thread_keeps_its_list_until_it_is_told_to_look_again(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("one")
    talk = deep(backend, [], rescan=False)
    talk.say()
    write_skill("two")
    talk.say()
    assert "**two**" not in talk.model.prompt()
    talk.say(skills_metadata=None)
    assert "**two**" in talk.model.prompt()


def test_a_loaded_skill_whose_file_changed_is_shown_anew_and_stays_loaded(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("pdf", body="Old way.")
    talk = deep(backend, [says(load("pdf")), "one", "two", "three"])
    talk.say()
    write_skill("pdf", body="New way.")
    talk.say()
    shown = talk.model.requests[-1][-1].text
    assert "have changed since you loaded them" in shown
    assert "New way." in shown
    assert talk.loaded == ["pdf"]
    talk.say()
    assert talk.model.requests[-1][-1].text == "go on", "it is shown once"


def test_a_loaded_skill_whose_file_changed_during_the_run_can_be_loaded_anew(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("pdf", body="Old way.")

    def edited(_: Any) -> Any:
        write_skill("pdf", body="New way.")
        return says(load("pdf", "2"), load("pdf", "3"))

    talk = deep(backend, [says(load("pdf", "1")), edited, says(load("pdf", "4")), "end"])
    talk.say()
    results = talk.results()
    assert "New way." in results["2"]
    assert results["4"].startswith("Skill 'pdf' is already loaded.")
    assert talk.loaded == ["pdf"]
    assert talk.state["skill_resources"] == {"pdf": []}


def test_skills_that_were_written_during_the_run_can_be_loaded_and_are_listed(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("old")

    def written(_: Any) -> Any:
        for name in ("new", "newer"):
            write_skill(name, body=f"Body of {name}.")
        return says(load("new"), load("newer"))

    talk = deep(backend, [written, "end"])
    talk.say()
    assert "**new**" not in talk.model.prompt(0)
    assert talk.loaded == ["new", "newer"]
    assert "Body of newer." in talk.results()["load-newer"]
    assert "- **newer** [Loaded]:" in talk.model.prompt(1)


def test_a_loaded_skill_whose_file_is_gone_is_no_longer_loaded(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    talk = deep(backend, [says(load("pdf"))])
    talk.say()
    shutil.rmtree(skill)
    talk.say()
    assert talk.loaded == []


def test_a_limit_that_became_lower_keeps_the_skills_that_were_loaded_last(
    write_skill: WriteSkill, backend: Any
) -> None:
    for name in ("a", "b", "c"):
        write_skill(name)
    saver = InMemorySaver()
    deep(backend, [says(load("a"), load("b"), load("c"))], saver=saver).say()
    talk = deep(backend, [], saver=saver, max_loaded_skills=2)
    talk.say()
    assert talk.loaded == ["b", "c"]
    assert set(talk.state["skill_resources"]) == {"b", "c"}


def test_a_source_that_cannot_be_read_unloads_nothing(write_skill: WriteSkill, backend: Any, tmp_path: Path) -> None:
    write_skill("pdf")
    talk = deep(backend, [says(load("pdf"))])
    talk.say()
    (tmp_path / "skills").rename(tmp_path / "away")
    talk.say()
    assert talk.loaded == ["pdf"]
    assert "<skill_load_warnings>" in talk.model.prompt()
    (tmp_path / "away").rename(tmp_path / "skills")
    talk.say()
    assert "- **pdf** [Loaded]:" in talk.model.prompt()
    assert "<skill_load_warnings>" not in talk.model.prompt()


def test_a_fork_knows_what_the_conversation_it_continues_has_loaded(write_skill: WriteSkill, backend: Any) -> None:
    for name in ("a", "b", "c"):
        write_skill(name, body=f"Body of {name}.")
    begin = [says(load("a"), load("b")), says(unload("b"))]
    child = [says(load("a", "child-a"), load("c", "child-c")), "child done"]
    talk = delegating(backend, [*begin, task("fork"), *child])
    talk.say()
    assert "- **a** [Loaded]:" in talk.model.prompt(3)
    assert "- **b**:" in talk.model.prompt(3)
    results = {getattr(message, "tool_call_id", None): message.text for message in talk.model.requests[4]}
    assert results["child-a"].startswith("Skill 'a' is already loaded.")
    assert "Body of c." in results["child-c"]
    assert talk.loaded == ["a"], "what the fork loads is its own"


def test_parallel_subagents_load_without_disturbing_each_other_or_their_caller(
    write_skill: WriteSkill, backend: Any
) -> None:
    for name in ("a", "b"):
        write_skill(name)
    tasks = [call("task", f"t{n}", description=f"load {n}", subagent_type="general-purpose") for n in ("a", "b")]

    def answer(messages: Any) -> Any:
        if messages[-1].type == "human" and messages[-1].text.startswith("load "):
            return says(load(messages[-1].text[-1]))
        return "done" if messages[-1].type == "tool" else says(*tasks)

    talk = deep(backend, [answer] * 6)
    talk.say("begin")
    assert talk.loaded == []
    assert set(talk.results()) == {"ta", "tb"}


def test_a_history_that_is_passed_in_loads_its_skills(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    first = plain(backend, [says(load("pdf")), "one"])
    history = first.say()["messages"]
    second = plain(backend, [says(load("pdf", "again"))])
    second.agent.invoke({"messages": [*history, HumanMessage("more")]}, second.config)
    assert "- **pdf** [Loaded]:" in second.model.prompt(0)
    assert second.results()["again"].startswith("Skill 'pdf' is already loaded.")


async def test_a_run_begins_the_same_when_it_is_awaited(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", body="Old way.")
    talk = deep(backend, [says(load("pdf")), "one"])

    await talk.hear()
    write_skill("pdf", body="New way.")
    await talk.hear()

    assert "New way." in talk.model.requests[-1][-1].text


def test_a_run_that_finds_the_same_skills_writes_nothing_about_them(write_skill: WriteSkill, backend: Any) -> None:
    for number in range(16):
        write_skill(f"s-{number}")
    saver = InMemorySaver()
    talk = deep(backend, [says(load("s-1"))], saver=saver)
    for _ in range(5):
        talk.say()
    versions = Counter(channel for _, _, channel, _ in saver.blobs)
    assert versions["skills_metadata"] == 1
    assert versions["skills_load_errors"] == 1
    write_skill("s-17", "New.")
    talk.say()
    assert "**s-17**" in talk.model.prompt()


def test_a_stable_listing_is_followed_by_word_of_what_is_gone(write_skill: WriteSkill, backend: Any) -> None:
    removed = write_skill("a")
    write_skill("b")
    talk = deep(backend, [says(load("a"), load("b"))], listing="stable")
    talk.say()
    shutil.rmtree(removed)
    talk.say()
    told = talk.model.requests[-1][-1].text
    assert "no longer loaded, because their files are gone" in told
    assert told.endswith("Loaded skills: b (1/10).")
    talk.say()
    assert talk.model.requests[-1][-1].text == "go on", "it is told once"


def test_a_stable_listing_is_followed_by_word_of_a_lower_limit(write_skill: WriteSkill, backend: Any) -> None:
    for name in ("a", "b"):
        write_skill(name)
    saver = InMemorySaver()
    deep(backend, [says(load("a"), load("b"))], saver=saver, listing="stable").say()
    talk = deep(backend, [], saver=saver, listing="stable", max_loaded_skills=1)
    talk.say()
    assert talk.model.requests[-1][-1].text.endswith("Loaded skills: b (1/1).")


@pytest.mark.parametrize("listing", ["marked", "stable"])
def test_a_changed_skill_that_is_too_long_to_be_shown_is_to_be_loaded_again(
    write_skill: WriteSkill, backend: Any, listing: str
) -> None:
    write_skill("big", body="Old way.")
    talk = deep(backend, [says(load("big")), "one", says(load("big", "again")), "two"], listing=listing)
    talk.say()
    write_skill("big", body="z" * 250_000)
    talk.say()
    assert "have changed, and they are no longer loaded: big." in talk.model.requests[2][-1].text
    assert "z" * 250_000 in talk.results()["again"]
    assert talk.loaded == ["big"]


def test_a_thread_whose_caller_brings_the_skills_is_new_only_once(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    talk = deep(backend, [says(load("pdf"))])
    for _ in range(2):
        talk.say(skills_metadata=[entry("pdf")])
        assert talk.state["skills_load_errors"] == []
    assert talk.loaded == ["pdf"]


def test_what_is_known_of_a_loaded_skill_is_kept_while_its_source_cannot_be_read(
    write_skill: WriteSkill, backend: Any, tmp_path: Path
) -> None:
    write_skill("pdf", "Loaded.")
    write_skill("other")
    talk = deep(backend, [says(load("pdf"))])
    talk.say()
    (tmp_path / "skills").rename(tmp_path / "away")
    talk.say()
    assert [skill["name"] for skill in talk.state["skills_metadata"]] == ["pdf"]
    assert "- **pdf** [Loaded]: Loaded." in talk.model.prompt()


@tool
def stamp(text: str) -> str:
    """Stamp a text."""
    return f"stamped {text}"


TOOLED = "metadata:\n  include_tools: stamp\n"


def test_a_tool_is_offered_and_callable_after_its_skill_was_loaded(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", front=TOOLED)
    script = [says(call("stamp", "early", text="x")), says(load("pdf")), says(call("stamp", "late", text="x"))]
    talk = deep(backend, script, tools=[stamp])
    talk.say()
    assert ["stamp" in offered for offered in talk.model.offered] == [False, False, True, True]
    assert "not a valid tool" in talk.results()["early"]
    assert talk.results()["late"] == "stamped x"


async def test_an_async_resolver_gives_the_tools_of_a_loaded_skill(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", front=TOOLED)

    async def resolve(name: str, runtime: Any) -> list[BaseTool]:
        return [stamp] if name == "stamp" else []

    talk = deep(backend, [says(load("pdf")), says(call("stamp", "late", text="x"))], tools=resolve)
    await talk.hear()
    assert talk.results()["late"] == "stamped x"


def test_reading_and_pinning_disclose_as_upstream_does(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", front=TOOLED)
    read = call("read_file", "read", file_path="/skills/pdf/SKILL.md")
    talk = deep(backend, [says(read)], tools=[stamp])
    talk.say()
    assert "stamp" in talk.model.offered[-1]
    pinned = deep(backend, [], tools=[stamp])
    pinned.say(pinned_skills=["pdf"])
    assert "stamp" in pinned.model.offered[-1]
    assert pinned.model.requests[-1][-1].additional_kwargs["lc_source"] == "pinned_skill"


def test_a_skill_that_is_given_back_after_a_summary_keeps_its_tools(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", front=TOOLED)
    talk = deep(
        backend, [says(load("pdf")), "one", "A summary.", "two"], tools=[stamp], more=compacting(backend, after=5)
    )
    talk.say()
    talk.say()
    assert "stamp" in talk.model.offered[-1]


def test_the_model_gets_the_conversation_as_it_was(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", front=TOOLED)
    talk = deep(backend, [says(load("pdf"))], tools=[stamp])
    talk.say()
    (made,) = (message for message in talk.model.requests[-1] if isinstance(message, AIMessage))
    assert made.tool_calls[0]["name"] == "load_skill"


def test_skills_without_tools_are_left_out() -> None:
    assert select_with_tools(
        [entry("a"), entry("b", metadata={"include_tools": "x"}), entry("c", metadata={"author": "y"})]
    ) == [entry("b", metadata={"include_tools": "x"})]


def test_a_load_looks_like_a_read_and_back() -> None:
    result = ToolMessage("t", tool_call_id="1", additional_kwargs=SkillMark("a", "load").to_kwargs())
    other = ToolMessage("t", tool_call_id="2", additional_kwargs=SkillMark("b", "load").to_kwargs())
    messages: list[AnyMessage] = [HumanMessage("go"), says(load("a", "1"), load("b", "2")), result, other]
    reads = ReadFileView(messages, [entry("a", metadata={"include_tools": "x"})])
    shown = reads.messages[1]
    assert isinstance(shown, AIMessage)
    assert [(made["name"], made["args"]) for made in shown.tool_calls] == [
        ("read_file", {"file_path": "/skills/a/SKILL.md"}),
        ("load_skill", {"skill_name": "b"}),
    ]
    inserted = SystemMessage("new tools")
    assert reads.restore([*reads.messages, inserted]) == [*messages, inserted]
