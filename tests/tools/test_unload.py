"""`skill_unload`."""

from pathlib import Path

import pytest

from openskills.errors import UnknownSkill
from openskills.session.changes import Unloaded
from openskills.sync import run
from openskills.tools.result import ToolResult
from openskills.tools.unload import UnloadArguments, unload
from tests.tools.contexts import tool_context, write_skill


def unloaded(directory: Path, name: str, *loaded: str) -> ToolResult:
    async def go() -> ToolResult:
        async with tool_context(directory, executor=None, loaded=loaded) as context:
            return await unload(context, UnloadArguments(skill=name))

    return run(go())


def test_a_loaded_skill_is_unloaded(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo")
    result = unloaded(tmp_path, "demo", "demo")
    assert (result.text, result.changes) == ("unloaded: demo", (Unloaded("demo"),))


def test_nothing_changes_for_one_that_is_not_loaded(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo")
    result = unloaded(tmp_path, "demo")
    assert result.changes == ()
    assert "was not loaded" in result.text


def test_one_that_has_left_the_catalog_can_be_unloaded(tmp_path: Path) -> None:
    assert unloaded(tmp_path, "gone", "gone").changes == (Unloaded("gone"),)


def test_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo")
    with pytest.raises(UnknownSkill, match="demo"):
        unloaded(tmp_path, "demos")
