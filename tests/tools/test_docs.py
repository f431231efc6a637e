"""`skill_select_docs` and `skill_list_docs`."""

import json
from pathlib import Path

import pytest

from openskills.errors import NotLoaded, UnknownSkill
from openskills.session.changes import ALL, Consumed, DocsChosen, Loaded, Recorded
from openskills.session.state import AgentView, SkillState, apply
from openskills.sync import run
from openskills.tools.docs import ListDocsArguments, SelectDocsArguments, list_docs, select_docs
from openskills.tools.result import ToolResult
from tests.tools.contexts import AGENT, tool_context, write_skill


def selected(directory: Path, view: AgentView, **arguments: object) -> ToolResult:
    async def go() -> ToolResult:
        async with tool_context(directory, executor=None, view=lambda: view) as context:
            return await select_docs(context, SelectDocsArguments.model_validate({"skill": "demo", **arguments}))

    return run(go())


def view_of(*changes: Loaded | DocsChosen | Consumed) -> AgentView:
    return apply(SkillState(), (Recorded(at, AGENT, one) for at, one in enumerate(changes, 1))).of(AGENT)


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    write_skill(tmp_path, "demo", {"a.md": "A", "b.md": "B", "c.md": "C"})
    return tmp_path


def test_replace_is_the_default_and_narrows_everything(skills: Path) -> None:
    result = selected(skills, view_of(Loaded("demo", (ALL,))), docs=["b.md", "a.md"])
    assert result.changes == (DocsChosen("demo", ("b.md", "a.md")),)
    assert json.loads(result.text) == {"skill": "demo", "mode": "replace", "selected_docs": ["a.md", "b.md"]}


def test_add_says_the_whole_selection_and_changes_only_what_is_new(skills: Path) -> None:
    result = selected(skills, view_of(Loaded("demo", ("c.md",))), docs=["a.md"], mode="add")
    assert result.changes == (DocsChosen("demo", ("a.md",), added=True),)
    assert result.data["selected_docs"] == ["a.md", "c.md"]


def test_everything_stays_everything_when_something_is_added(skills: Path) -> None:
    result = selected(skills, view_of(Loaded("demo", (ALL,))), docs=["a.md"], mode="add")
    assert result.data["include_all_docs"] is True


def test_clear_empties_whatever_else_is_said(skills: Path) -> None:
    result = selected(skills, view_of(Loaded("demo", ("c.md",))), docs=["a.md"], mode="clear")
    assert result.changes == (DocsChosen("demo", ()),)
    assert result.data["selected_docs"] == []


def test_a_skill_that_is_not_loaded_is_refused_with_what_to_do(skills: Path) -> None:
    with pytest.raises(NotLoaded, match="skill_load"):
        selected(skills, view_of(), docs=["a.md"])


def test_after_being_seen_once_the_instructions_come_back_with_the_document(skills: Path) -> None:
    result = selected(skills, view_of(Loaded("demo"), Consumed("demo")), docs=["a.md"])
    assert result.changes == (Loaded("demo"), DocsChosen("demo", ("a.md",)))


def test_documents_are_listed_with_sizes_and_what_is_selected(skills: Path) -> None:
    async def go(name: str) -> ToolResult:
        async with tool_context(skills, executor=None, view=lambda: view_of(Loaded("demo", ("b.md",)))) as context:
            return await list_docs(context, ListDocsArguments(skill=name))

    docs = run(go("demo")).data["docs"]
    assert [(doc["path"], doc["size_bytes"], doc["estimated_tokens"], doc["selected"]) for doc in docs] == [
        ("a.md", 1, 1, False),
        ("b.md", 1, 1, True),
        ("c.md", 1, 1, False),
    ]
    with pytest.raises(UnknownSkill):
        run(go("other"))
