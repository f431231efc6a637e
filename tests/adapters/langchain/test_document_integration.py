"""The six integration tests of the design document, in its order, in real graphs with a scripted model."""

from typing import Any

from langchain_core.messages import HumanMessage

from tests.adapters.langchain.agents import compacting, deep
from tests.adapters.langchain.scripted import call, load, says, unload
from tests.skill_writer import WriteSkill


def test_load_skill_and_read_file_work_side_by_side(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf", body="Read notes.md.")
    (skill / "references").mkdir()
    (skill / "references" / "notes.md").write_text("The notes.", "utf-8")
    read = call("read_file", "read", file_path="/skills/pdf/references/notes.md")
    talk = deep(backend, [says(load("pdf")), says(read)])
    talk.say()
    assert "`/skills/pdf/references/notes.md`" in talk.results()["load-pdf"]
    assert "The notes." in talk.results()["read"]


def test_main_agent_and_subagent_load_independently(write_skill: WriteSkill, backend: Any) -> None:
    for name in ("pdf", "csv"):
        write_skill(name)
    task = call("task", "task", description="research", subagent_type="general-purpose")
    child = [says(load("csv", "child-1"), load("pdf", "child-2")), "The child is done."]
    talk = deep(backend, [says(load("pdf")), says(task), *child])
    talk.say()
    prompt = talk.model.prompt(2)
    assert "- **pdf**:" in prompt, "the child begins with nothing loaded"
    assert "- **pdf** [Loaded]:" in talk.model.prompt(3)
    assert talk.loaded == ["pdf"]
    assert talk.results()["task"] == "The child is done."


def test_the_prompt_is_right_after_the_context_was_compacted(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", body="Fill the form.")
    talk = deep(backend, [says(load("pdf")), "one", "A summary.", "two"], more=compacting(backend, after=5))
    talk.say()
    talk.say("next")
    request = talk.model.requests[-1]
    assert "A summary." in "".join(message.text for message in request)
    assert "- **pdf** [Loaded]:" in talk.model.prompt()
    assert sum("Fill the form." in message.text for message in request) == 1


def test_the_prompt_shows_what_was_loaded(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    (skill / "scripts").mkdir()
    (skill / "scripts" / "fill.py").write_text("x", "utf-8")
    talk = deep(backend, [says(load("pdf"))])
    talk.say()
    before, after = talk.model.prompt(0), talk.model.prompt(1)
    assert "[Loaded]" not in before
    assert 'load_skill("pdf")' in before
    assert "- **pdf** [Loaded]:" in after
    assert "  -> Resources: 1 script" in after


def test_the_prompt_shows_what_was_unloaded(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    talk = deep(backend, [says(load("pdf")), says(unload("pdf"))])
    talk.say()
    assert "- **pdf** [Loaded]:" in talk.model.prompt(1)
    assert talk.model.prompt(2) == talk.model.prompt(0)


def test_a_skill_can_be_loaded_unloaded_and_loaded_again(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    talk = deep(backend, [says(load("pdf", "1")), says(unload("pdf")), "one", says(load("pdf", "2"))])
    talk.say()
    assert talk.loaded == []
    assert talk.state["skill_resources"] == {}
    (skill / "late.md").write_text("x", "utf-8")
    talk.say("again")
    assert talk.loaded == ["pdf"]
    assert "late.md" not in talk.results()["1"]
    assert "late.md" in talk.results()["2"]
    assert isinstance(talk.state["messages"][0], HumanMessage)
