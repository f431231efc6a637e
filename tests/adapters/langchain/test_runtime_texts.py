"""Texts for agents that only have tools."""

import shutil
from pathlib import Path

from openskills import SkillSession
from openskills.adapters.langchain.runtime_texts import ResultTexts, system_text
from openskills.sync import run
from openskills.tools.result import ToolResult
from tests.adapters.langchain.runtime_agents import runtime_of
from tests.skill_writer import WriteSkill


def test_the_system_text_lists_the_skills_and_says_how_to_use_them(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("pdf")

    async def go() -> str:
        async with runtime_of(tmp_path / "skills").session("s") as session:
            return system_text(session)

    text = run(go())
    assert "- pdf: Merges things." in text
    assert "call skill_load before" in text


async def _loaded(session: SkillSession) -> tuple[ResultTexts, ToolResult]:
    return ResultTexts(session), await session.call("skill_load", {"skill": "pdf"})


def test_a_second_load_shows_the_text_again(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("pdf", body="# How to")

    async def go() -> list[str]:
        async with runtime_of(tmp_path / "skills").session("s") as session:
            texts, first = await _loaded(session)
            again = await session.call("skill_load", {"skill": "pdf"})
            return [await texts.of(first), await texts.of(again)]

    first, again = run(go())
    assert "# How to" in first
    assert first == again


def test_a_result_without_texts_is_as_it_was(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("pdf")

    async def go() -> None:
        async with runtime_of(tmp_path / "skills").session("s") as session:
            texts, _ = await _loaded(session)
            for name in ("skill_list_docs", "skill_unload", "skill_load"):
                result = await session.call(name, {"skill": "nothing" if name == "skill_load" else "pdf"})
                assert await texts.of(result) == result.text

    run(go())


def test_a_skill_that_vanished_after_its_load_does_not_break_the_result(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    folder = write_skill("pdf")

    async def go() -> str:
        async with runtime_of(tmp_path / "skills").session("s") as session:
            texts, result = await _loaded(session)
            shutil.rmtree(folder)
            return await texts.of(result)

    assert run(go()) == "loaded: pdf"
