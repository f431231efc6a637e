"""The 24 unit tests of the design document, by its names.

Two things differ from the document's shape, because its shape was wrong. `Command.update["skills_loaded"]` is a change
and not the full list (calls of one message run in parallel, and whole lists overwrite each other), so the tests apply
it with the reducer. And a backend of today returns errors of `ls` instead of raising them; both are tested.
"""

from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import LsResult
from langchain_core.messages import HumanMessage

from openskills.adapters.langchain.backend_io import run_blocking
from openskills.adapters.langchain.middleware import SkillsMiddleware
from openskills.adapters.langchain.state import ResourceMetadata, discover_resources
from tests.adapters.langchain.agents import compacting, deep
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.runtimes import loaded_after, runtime, text_of, update_of
from tests.adapters.langchain.scripted import call, load, says, unload
from tests.skill_writer import WriteSkill


class RaisingBackend(FilesystemBackend):
    """A backend that cannot list."""

    def ls(self, path: str) -> LsResult:
        raise OSError(f"{path} cannot be listed")


def middleware(backend: Any, **options: Any) -> SkillsMiddleware:
    return SkillsMiddleware(backend=backend, sources=["/skills/"], **options)


def begun(backend: Any, **more: Any) -> dict[str, Any]:
    """The state of a thread whose run has begun."""
    state: dict[str, Any] = middleware(backend).before_agent({}, None, {})  # type: ignore[arg-type]
    return {**state, **more}


def listing(backend: Any, *arguments: Any) -> str:
    formatted: Any = middleware(backend)
    return str(formatted._format_skills_list(*arguments))


def found(backend: Any, skill: str) -> list[ResourceMetadata]:
    return run_blocking(discover_resources(f"/skills/{skill}", skill), backend)


# Discovering resources


def test_discover_resources_standard_dirs(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    for place in ("scripts/fill.py", "references/forms.md", "assets/logo.svg", "scripts/deeper/not.py"):
        (skill / place).parent.mkdir(parents=True, exist_ok=True)
        (skill / place).write_text("x", "utf-8")
    assert sorted((resource["type"], resource["path"]) for resource in found(backend, "pdf")) == [
        ("asset", "/skills/pdf/assets/logo.svg"),
        ("reference", "/skills/pdf/references/forms.md"),
        ("script", "/skills/pdf/scripts/fill.py"),
    ]
    assert {resource["skill_name"] for resource in found(backend, "pdf")} == {"pdf"}


def test_discover_resources_empty_skill(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    assert found(backend, "pdf") == []


def test_discover_resources_backend_error(
    write_skill: WriteSkill, backend: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill("pdf")
    assert found(RaisingBackend(root_dir=tmp_path), "pdf") == []
    assert found(backend, "missing") == []
    assert "Failed to list resources for skill 'pdf'" in caplog.text
    assert "Failed to list resources for skill 'missing'" in caplog.text


def test_discover_resources_non_standard_dirs_ignored(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    (skill / "temp").mkdir()
    (skill / "temp" / "junk.txt").write_text("x", "utf-8")
    assert found(backend, "pdf") == []


def test_discover_resources_root_level_files(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    (skill / "template.md").write_text("x", "utf-8")
    assert found(backend, "pdf") == [ResourceMetadata(path="/skills/pdf/template.md", type="other", skill_name="pdf")]


# The state at the beginning


def test_before_agent_initializes_new_state(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    state = begun(backend)
    assert [skill["name"] for skill in state["skills_metadata"]] == ["pdf"]
    assert state["skills_loaded"] == []
    assert state["skill_resources"] == {}


def test_before_agent_idempotent(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    state = begun(backend, skills_loaded=["pdf"])
    assert middleware(backend).before_agent(state, None, {}) is None  # type: ignore[arg-type]


# load_skill


def test_load_skill_returns_command_with_content(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf", body="Fill the form.")
    (skill / "scripts").mkdir()
    (skill / "scripts" / "fill.py").write_text("x", "utf-8")
    answer = middleware(backend).load_blocking("pdf", "", runtime(begun(backend)))
    assert "Fill the form." in text_of(answer)
    assert "**Skill Resources:**\n\n- [script] `/skills/pdf/scripts/fill.py`" in text_of(answer)
    assert update_of(answer)["messages"][0].tool_call_id == "call"


def test_load_skill_updates_skills_loaded(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    state = begun(backend, skills_loaded=["other"])
    assert loaded_after(middleware(backend).load_blocking("pdf", "", runtime(state)), ["other"]) == ["other", "pdf"]


def test_load_skill_updates_skill_resources(write_skill: WriteSkill, backend: Any) -> None:
    (write_skill("pdf") / "notes.md").write_text("x", "utf-8")
    update = update_of(middleware(backend).load_blocking("pdf", "", runtime(begun(backend))))
    assert update["skill_resources"] == {
        "pdf": [ResourceMetadata(path="/skills/pdf/notes.md", type="other", skill_name="pdf")]
    }


def test_load_skill_not_found_returns_error(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    answer = middleware(backend).load_blocking("pfd", "", runtime(begun(backend)))
    assert answer == "Error: Skill 'pfd' not found. Available skills: pdf"


def test_load_skill_already_loaded_returns_message(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    answer = middleware(backend).load_blocking("pdf", "", runtime(begun(backend, skills_loaded=["pdf"])))
    assert answer == "Skill 'pdf' is already loaded. Its instructions are already active."


def test_load_skill_file_read_error(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    state = begun(backend)
    (skill / "SKILL.md").unlink()
    answer = middleware(backend).load_blocking("pdf", "", runtime(state))
    assert answer == "Error: Failed to read skill file at /skills/pdf/SKILL.md: file_not_found"


def test_load_skill_file_size_exceeded(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    state = begun(backend)
    (skill / "SKILL.md").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    answer = middleware(backend).load_blocking("pdf", "", runtime(state))
    assert answer == "Error: Skill file at /skills/pdf/SKILL.md exceeds maximum size (10485760 bytes)"


def test_load_skill_max_loaded_reached(write_skill: WriteSkill, backend: Any) -> None:
    for name in ("pdf", "csv"):
        write_skill(name)
    state = begun(backend, skills_loaded=["csv"])
    answer = middleware(backend, max_loaded_skills=1).load_blocking("pdf", "", runtime(state))
    assert isinstance(answer, str)
    assert "Maximum number of simultaneously loaded skills reached (1). Currently loaded: csv." in answer
    assert 'Use `unload_skill("skill-name")`' in answer


# unload_skill


def test_unload_skill_success(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    answer = middleware(backend).unload("pdf", runtime(begun(backend, skills_loaded=["pdf", "csv"])))
    assert loaded_after(answer, ["pdf", "csv"]) == ["csv"]
    assert "Skill 'pdf' has been unloaded. Currently loaded: 1/10 (9 slot(s) available)." in text_of(answer)


def test_unload_skill_clears_resources(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    answer = middleware(backend).unload("pdf", runtime(begun(backend, skills_loaded=["pdf"])))
    assert update_of(answer)["skill_resources"] == {"pdf": None}


def test_unload_skill_not_loaded_returns_error(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf")
    answer = middleware(backend).unload("pdf", runtime(begun(backend)))
    assert answer == "Error: Skill 'pdf' is not currently loaded. Currently loaded skills: (none)."


def test_unload_skill_then_reload(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    ours = middleware(backend)
    unloaded = loaded_after(ours.unload("pdf", runtime(begun(backend, skills_loaded=["pdf"]))), ["pdf"])
    (skill / "new.md").write_text("x", "utf-8")
    again = ours.load_blocking("pdf", "", runtime(begun(backend, skills_loaded=unloaded)))
    assert loaded_after(again, unloaded) == ["pdf"]
    assert [resource["path"] for resource in update_of(again)["skill_resources"]["pdf"]] == ["/skills/pdf/new.md"]


# The system prompt


def test_format_skills_list_with_loaded_status(backend: Any) -> None:
    text = listing(backend, [entry("pdf"), entry("csv")], ["csv"], {})
    assert "- **csv** [Loaded]: Does it." in text
    assert "- **pdf**: Does it." in text


def test_format_skills_list_with_resources(backend: Any) -> None:
    kinds: list[Any] = ["script", "reference", "script"]
    files = [ResourceMetadata(path=f"/{n}", type=kind, skill_name="pdf") for n, kind in enumerate(kinds)]
    text = listing(backend, [entry("pdf", allowed_tools=["search"])], ["pdf"], {"pdf": files})
    assert "  -> Recommended tools: search\n  -> Resources: 1 reference, 2 scripts" in text


def test_format_skills_list_load_skill_guidance(backend: Any) -> None:
    text = listing(backend, [entry("pdf"), entry("csv")], ["csv"], {})
    assert '  -> Use `load_skill("pdf")` to read full instructions' in text
    assert 'load_skill("csv")' not in text


# What worked before


def test_v1_skills_work_without_modification(write_skill: WriteSkill, backend: Any) -> None:
    front = "license: MIT\ncompatibility: Python\nmetadata:\n  author: someone\nallowed-tools: search fetch\n"
    write_skill("pdf", front=front)
    assert begun(backend)["skills_metadata"] == [
        {
            "path": "/skills/pdf/SKILL.md",
            "name": "pdf",
            "description": "Merges things. Use when the user has several things.",
            "license": "MIT",
            "compatibility": "Python",
            "metadata": {"author": "someone"},
            "allowed_tools": ["search", "fetch"],
        }
    ]


def test_read_file_still_works_for_skills(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", body="Fill the form.")
    read = call("read_file", "1", file_path="/skills/pdf/SKILL.md", limit=1000)
    talk = deep(backend, [says(read), says(call("load_skill", "2", skill_name="pdf"))])
    talk.say()
    assert "Fill the form." in talk.results()["1"]
    assert "Fill the form." in talk.results()["2"]
    assert talk.loaded == ["pdf"]


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
