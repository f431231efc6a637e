"""`skill_select_docs` and `skill_list_docs`.

Which documents a model means.

`skill_load`.

`skill_search`.

`skill_unload`.
"""

import json
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, InvalidSkill, NotLoaded, UnknownSkill
from openskills.session.state import (
    ALL,
    AgentView,
    Consumed,
    DocsChosen,
    Loaded,
    RecordedChange,
    SkillState,
    Unloaded,
    apply_changes,
)
from openskills.tools.skills import (
    LoadArguments,
    SearchArguments,
    SelectDocsArguments,
    SkillArguments,
    list_docs,
    load,
    resolve_docs,
    search,
    select_docs,
    unload,
)
from openskills.tools.tool import ToolResult
from tests.skill_writer import skill_writer
from tests.tools.contexts import AGENT, skills_in, tool_context, write_skill


async def selected(directory: Path, view: AgentView, **arguments: object) -> ToolResult:
    async with tool_context(directory, executor=None, view=lambda: view) as context:
        return await select_docs(context, SelectDocsArguments.model_validate({"skill": "demo", **arguments}))


def view_of(*changes: Loaded | DocsChosen | Consumed) -> AgentView:
    return apply_changes(SkillState(), (RecordedChange(at, AGENT, one) for at, one in enumerate(changes, 1))).view_for(
        AGENT
    )


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    write_skill(tmp_path, "demo", {"a.md": "A", "b.md": "B", "c.md": "C"})
    return tmp_path


async def test_replace_is_the_default_and_narrows_everything(skills: Path) -> None:
    result = await selected(skills, view_of(Loaded("demo", (ALL,))), docs=["b.md", "a.md"])
    assert result.changes == (Loaded("demo"), DocsChosen("demo", ("b.md", "a.md")))
    assert json.loads(result.text) == {"skill": "demo", "mode": "replace", "selected_docs": ["a.md", "b.md"]}


async def test_add_says_the_whole_selection_and_changes_only_what_is_new(skills: Path) -> None:
    result = await selected(skills, view_of(Loaded("demo", ("c.md",))), docs=["a.md"], mode="add")
    assert result.changes == (Loaded("demo"), DocsChosen("demo", ("a.md",), added=True))
    assert result.data["selected_docs"] == ["a.md", "c.md"]


async def test_everything_stays_everything_when_something_is_added(skills: Path) -> None:
    result = await selected(skills, view_of(Loaded("demo", (ALL,))), docs=["a.md"], mode="add")
    assert result.data["include_all_docs"] is True


async def test_clear_empties_whatever_else_is_said(skills: Path) -> None:
    result = await selected(skills, view_of(Loaded("demo", ("c.md",))), docs=["a.md"], mode="clear")
    assert result.changes == (Loaded("demo"), DocsChosen("demo", ()))
    assert result.data["selected_docs"] == []


async def test_a_skill_that_is_not_loaded_is_refused_with_what_to_do(skills: Path) -> None:
    with pytest.raises(NotLoaded, match="skill_load"):
        await selected(skills, view_of(), docs=["a.md"])


async def test_after_being_seen_once_the_instructions_come_back_with_the_document(skills: Path) -> None:
    result = await selected(skills, view_of(Loaded("demo"), Consumed("demo")), docs=["a.md"])
    assert result.changes == (Loaded("demo"), DocsChosen("demo", ("a.md",)))


async def test_documents_are_listed_with_sizes_and_what_is_selected(skills: Path) -> None:
    async def go(name: str) -> ToolResult:
        async with tool_context(skills, executor=None, view=lambda: view_of(Loaded("demo", ("b.md",)))) as context:
            return await list_docs(context, SkillArguments(skill=name))

    docs = (await go("demo")).data["docs"]
    assert [(doc["path"], doc["size_bytes"], doc["estimated_tokens"], doc["selected"]) for doc in docs] == [
        ("a.md", 1, 1, False),
        ("b.md", 1, 1, True),
        ("c.md", 1, 1, False),
    ]
    with pytest.raises(UnknownSkill):
        await go("other")


def test_each_document_counts_once_and_parts_by_lines_are_documents(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"a.md": "A"})
    skill = skills_in(tmp_path).get("demo")
    assert resolve_docs(skill, ["a.md", "./a.md", "a.md#L3-L5", "SKILL.md#L9"]) == ("a.md", "a.md#L3-L5", "SKILL.md#L9")
    assert resolve_docs(skill, None) is None
    assert resolve_docs(skill, []) == ()
    assert resolve_docs(skill, ["a.md", "*"]) == (ALL,)
    assert resolve_docs(skill, None, include_all=True) == (ALL,)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("SKILL.md", "already shown by skill_load"),
        ("scripts/go.py", "skill://demo/scripts/go.py"),
        ("b.md", r"did you mean 'deep/b.md'"),
        ("../../etc/passwd", "it has a.md, deep/b.md"),
        ("nothing-like-it", "it has a.md"),
        ("", "it has a.md"),
    ],
)
def test_what_is_not_a_document_is_refused_with_what_to_do(tmp_path: Path, wanted: str, said: str) -> None:
    write_skill(tmp_path, "demo", {"a.md": "A", "deep/b.md": "B", "scripts/go.py": ""})
    with pytest.raises(InvalidArgument, match=said):
        resolve_docs(skills_in(tmp_path).get("demo"), [wanted])


def test_a_skill_without_documents_says_so(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo")
    with pytest.raises(InvalidArgument, match="it has none"):
        resolve_docs(skills_in(tmp_path).get("demo"), ["a.md"])


def test_of_many_documents_a_few_are_named(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {f"{number:02}.md": "" for number in range(30)})
    with pytest.raises(InvalidArgument, match="and 20 more; see skill_list_docs"):
        resolve_docs(skills_in(tmp_path).get("demo"), ["nothing-like-it"])


async def loaded(directory: Path, **arguments: object) -> ToolResult:
    async with tool_context(directory, executor=None) as context:
        return await load(context, LoadArguments.model_validate(arguments))


async def test_the_stored_result_is_a_stub_and_the_change_is_described(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo")
    result = await loaded(tmp_path, skill="demo")
    assert result.text == "loaded: demo"
    assert result.changes == (Loaded("demo"),)
    assert result.data["docs"] == []
    assert result.data["estimated_tokens"] > 0


async def test_documents_can_be_named_at_once_and_a_single_text_will_do(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"docs/a.md": "A", "docs/b.md": "B"})
    assert (await loaded(tmp_path, skill="demo", docs="docs/b.md")).changes == (Loaded("demo", ("docs/b.md",)),)
    assert (await loaded(tmp_path, skill="demo", include_all_docs=True)).changes == (Loaded("demo", (ALL,)),)
    assert (await loaded(tmp_path, skill="demo", docs=["*"])).data["docs"] == ["docs/a.md", "docs/b.md"]


async def test_a_typo_gets_the_nearest_names(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf-tools", {"guide.md": "x"})
    with pytest.raises(UnknownSkill, match="pdf-tools"):
        await loaded(tmp_path, skill="pdf-tool")
    with pytest.raises(InvalidArgument, match=r"guide\.md"):
        await loaded(tmp_path, skill="pdf-tools", docs=["guid.md"])


async def test_a_skill_whose_file_has_gone_is_not_loaded(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "demo")

    async def go() -> None:
        async with tool_context(tmp_path, executor=None) as context:
            (folder / "SKILL.md").unlink()
            await load(context, LoadArguments(skill="demo"))

    with pytest.raises(InvalidSkill):
        await go()


async def test_what_was_cut_is_said(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"long.md": "a line of words\n" * 50_000})
    assert (await loaded(tmp_path, skill="demo", docs=["long.md"])).data["cut"] == ["long.md"]


async def found(directory: Path, query: str) -> ToolResult:
    async with tool_context(directory, executor=None) as context:
        return await search(context, SearchArguments(query=query))


async def test_skills_are_found_by_what_they_do(tmp_path: Path) -> None:
    write = skill_writer(tmp_path, "skills")
    write("pdf-tools", description="Read and split PDF files.")
    write("weather", description="Tell the weather\nof a city.")
    result = await found(tmp_path, "split a pdf")
    assert result.data["skills"][0]["name"] == "pdf-tools"
    assert (await found(tmp_path, "weather")).data["skills"][0]["description"] == "Tell the weather of a city."


@pytest.mark.parametrize("query", ["x" * 2_000_000, "weather \ud800", "\x1b[2J"])
async def test_a_query_is_repeated_short_and_as_text(query: str, tmp_path: Path) -> None:
    skill_writer(tmp_path, "skills")("weather", description="Tell the weather.")
    result = await found(tmp_path, query)
    assert len(result.text.encode()) < 1_000
    assert result.data["query"].isprintable()


async def test_nothing_found_says_what_to_try(tmp_path: Path) -> None:
    skill_writer(tmp_path, "skills")("weather", description="Tell the weather.")
    result = await found(tmp_path, "quantum chromodynamics")
    assert result.data["skills"] == []
    assert "other words" in result.text


async def test_the_best_of_a_bad_lot_is_listed_with_a_warning(tmp_path: Path) -> None:
    write = skill_writer(tmp_path, "skills")
    write("pdf-tools", description="Read and split PDF files.")
    write("weather", description="Tell the weather of a city.")
    result = await found(tmp_path, "which city is the capital of Australia")
    assert [one["name"] for one in result.data["skills"]] == ["weather"]
    assert "no good match" in result.data["hint"]
    assert "hint" not in (await found(tmp_path, "split a pdf")).data


async def unloaded(directory: Path, name: str, *loaded: str) -> ToolResult:
    async with tool_context(directory, executor=None, loaded=loaded) as context:
        return await unload(context, SkillArguments(skill=name))


async def test_a_loaded_skill_is_unloaded(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo")
    result = await unloaded(tmp_path, "demo", "demo")
    assert (result.text, result.changes) == ("unloaded: demo", (Unloaded("demo"),))


async def test_nothing_changes_for_one_that_is_not_loaded(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo")
    result = await unloaded(tmp_path, "demo")
    assert result.changes == ()
    assert "was not loaded" in result.text


async def test_one_that_has_left_the_catalog_can_be_unloaded(tmp_path: Path) -> None:
    assert (await unloaded(tmp_path, "gone", "gone")).changes == (Unloaded("gone"),)


async def test_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo")
    with pytest.raises(UnknownSkill, match="demo"):
        await unloaded(tmp_path, "demos")
