"""`skill_load`."""

from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, InvalidSkill, UnknownSkill
from openskills.session.changes import ALL, Loaded
from openskills.sync import run
from openskills.tools.load import LoadArguments, load
from openskills.tools.result import ToolResult
from tests.tools.contexts import tool_context, write_skill


def loaded(directory: Path, **arguments: object) -> ToolResult:
    async def go() -> ToolResult:
        async with tool_context(directory, executor=None) as context:
            return await load(context, LoadArguments.model_validate(arguments))

    return run(go())


def test_the_stored_result_is_a_stub_and_the_change_is_described(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo")
    result = loaded(tmp_path, skill="demo")
    assert result.text == "loaded: demo"
    assert result.changes == (Loaded("demo"),)
    assert result.data["docs"] == []
    assert result.data["estimated_tokens"] > 0


def test_documents_can_be_named_at_once_and_a_single_text_will_do(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"docs/a.md": "A", "docs/b.md": "B"})
    assert loaded(tmp_path, skill="demo", docs="docs/b.md").changes == (Loaded("demo", ("docs/b.md",)),)
    assert loaded(tmp_path, skill="demo", include_all_docs=True).changes == (Loaded("demo", (ALL,)),)
    assert loaded(tmp_path, skill="demo", docs=["*"]).data["docs"] == ["docs/a.md", "docs/b.md"]


def test_a_typo_gets_the_nearest_names(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf-tools", {"guide.md": "x"})
    with pytest.raises(UnknownSkill, match="pdf-tools"):
        loaded(tmp_path, skill="pdf-tool")
    with pytest.raises(InvalidArgument, match=r"guide\.md"):
        loaded(tmp_path, skill="pdf-tools", docs=["guid.md"])


def test_a_skill_whose_file_has_gone_is_not_loaded(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "demo")

    async def go() -> None:
        async with tool_context(tmp_path, executor=None) as context:
            (folder / "SKILL.md").unlink()
            await load(context, LoadArguments(skill="demo"))

    with pytest.raises(InvalidSkill):
        run(go())


def test_what_was_cut_is_said(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"long.md": "a line of words\n" * 50_000})
    assert loaded(tmp_path, skill="demo", docs=["long.md"]).data["cut"] == ["long.md"]
