"""`skill_search`."""

from pathlib import Path

import pytest

from openskills.sync import run
from openskills.tools.result import ToolResult
from openskills.tools.search import SearchArguments, search
from tests.skill_writer import skill_writer
from tests.tools.contexts import tool_context


def found(directory: Path, query: str) -> ToolResult:
    async def go() -> ToolResult:
        async with tool_context(directory, executor=None) as context:
            return await search(context, SearchArguments(query=query))

    return run(go())


def test_skills_are_found_by_what_they_do(tmp_path: Path) -> None:
    write = skill_writer(tmp_path, "skills")
    write("pdf-tools", description="Read and split PDF files.")
    write("weather", description="Tell the weather\nof a city.")
    result = found(tmp_path, "split a pdf")
    assert result.data["skills"][0]["name"] == "pdf-tools"
    assert found(tmp_path, "weather").data["skills"][0]["description"] == "Tell the weather of a city."


@pytest.mark.parametrize("query", ["x" * 2_000_000, "weather \ud800", "\x1b[2J"])
def test_a_query_is_repeated_short_and_as_text(query: str, tmp_path: Path) -> None:
    skill_writer(tmp_path, "skills")("weather", description="Tell the weather.")
    result = found(tmp_path, query)
    assert len(result.text.encode()) < 1_000
    assert result.data["query"].isprintable()


def test_nothing_found_says_what_to_try(tmp_path: Path) -> None:
    skill_writer(tmp_path, "skills")("weather", description="Tell the weather.")
    result = found(tmp_path, "quantum chromodynamics")
    assert result.data["skills"] == []
    assert "other words" in result.text


def test_the_best_of_a_bad_lot_is_listed_with_a_warning(tmp_path: Path) -> None:
    write = skill_writer(tmp_path, "skills")
    write("pdf-tools", description="Read and split PDF files.")
    write("weather", description="Tell the weather of a city.")
    result = found(tmp_path, "which city is the capital of Australia")
    assert [one["name"] for one in result.data["skills"]] == ["weather"]
    assert "fits well" in result.data["hint"]
    assert "hint" not in found(tmp_path, "split a pdf").data
