"""Texts that stay as they were."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openskills.catalog.snapshot import CatalogSnapshot
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.prompt.blocks import TokenBudget
from openskills.session.state import ALL, AgentView, Loaded, RecordedChange, SkillState, Unloaded, apply_changes
from openskills.tools.loaded_texts import LoadedTexts, VisibleTexts
from tests.tools.contexts import AGENT, loaded_view, skills_in, write_skill


def shelf(budget: TokenBudget | None = None) -> LoadedTexts:
    return LoadedTexts(lambda skill, path, line, character: f"read {skill}/{path} from {line}:{character}", budget)


def with_docs(*docs: str) -> AgentView:
    return apply_changes(SkillState(), [RecordedChange(1, AGENT, Loaded("demo", docs))]).view_for(AGENT)


def body_line(directory: Path, name: str) -> str:
    return (directory / "skills" / name / "SKILL.md").read_text().splitlines()[-1]


def test_a_loaded_text_does_not_change_when_the_file_does(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "demo", {"a.md": "old"})
    skills, here = skills_in(tmp_path), shelf()
    before = here.collect_visible(with_docs("a.md"), skills).skills
    (folder / "a.md").write_text("new")
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "\nmore\n")
    assert here.collect_visible(with_docs("a.md"), skills).skills == before
    assert before[0].docs[0].text == "old"


def test_after_an_unload_the_next_load_reads_it_again(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "demo")
    skills, here = skills_in(tmp_path), shelf()
    here.collect_visible(loaded_view("demo"), skills)
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "\nadded later\n")
    gone = apply_changes(
        SkillState(), [RecordedChange(1, AGENT, Loaded("demo")), RecordedChange(2, AGENT, Unloaded("demo"))]
    ).view_for(AGENT)
    assert here.collect_visible(gone, skills) == VisibleTexts()
    (shown,) = here.collect_visible(loaded_view("demo"), skills).skills
    assert "added later" in shown.body.text


def test_what_came_first_stands_first(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write_skill(tmp_path, name)
    skills, here = skills_in(tmp_path), shelf()
    here.collect_visible(loaded_view("b"), skills)
    shown = here.collect_visible(loaded_view("c", "a", "b"), skills).skills
    assert [one.skill for one in shown] == ["b", "c", "a"]


def test_every_document_means_those_that_were_there(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "demo", {"a.md": "A", "deep/b.txt": "B"})
    skills, here = skills_in(tmp_path), shelf()
    (shown,) = here.collect_visible(with_docs(ALL), skills).skills
    assert [piece.path for piece in shown.docs] == ["a.md", "deep/b.txt"]
    (folder / "late.md").write_text("late")
    assert here.collect_visible(with_docs(ALL), skills).skills == (shown,)


def test_a_skill_that_has_gone_is_named(tmp_path: Path) -> None:
    assert shelf().collect_visible(loaded_view("gone"), CatalogSnapshot()) == VisibleTexts(gone=("gone",))


def test_a_document_that_has_gone_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"a.md": "A", "b.md": "B"})
    sight = shelf().collect_visible(with_docs("a.md", "gone.md"), skills_in(tmp_path))
    (shown,) = sight.skills
    assert [piece.path for piece in shown.docs] == ["a.md"]
    assert sight.missing == (("demo", "gone.md"),)
    assert sight.gone == ()


def test_lines_of_a_document_are_a_document(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"a.md": "one\ntwo\nthree\nfour\n"})
    skill = skills_in(tmp_path).get("demo")
    two, rest = shelf().select(skill, ["a.md#L2-L3", "a.md#L4"])
    assert (two.text, rest.text) == ("two\nthree\n", "four\n")
    assert shelf().select(skill, ["SKILL.md#L1"])[0].text == skill.body()


def test_the_rest_of_a_rest_is_counted_from_the_beginning(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"a.md": "some words in a line\n" * 1000})
    skill = skills_in(tmp_path).get("demo")
    (piece,) = shelf(TokenBudget(doc=200)).select(skill, ["a.md#L500"])
    assert piece.cut_after is not None
    assert f"read demo/a.md from {piece.cut_after + 1}:1" in piece.text
    assert f"after line {piece.cut_after} of 1000" in piece.text


def test_all_texts_together_keep_to_the_budget_and_the_first_stay_whole(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {f"{name}.md": "words of a document\n" * 100 for name in "abc"})
    here = shelf(TokenBudget(body=500, doc=2000, total=1250))
    pieces = here.select(skills_in(tmp_path).get("demo"), ["a.md", "b.md", "c.md"])
    assert [piece.cut_after is None for piece in pieces] == [True, True, False]
    assert sum(piece.tokens for piece in pieces) <= 1250


def test_without_room_nothing_is_selected_and_the_model_is_told_what_to_do(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {f"{number}.md": "words of a document\n" * 20 for number in range(200)})
    skill, here = skills_in(tmp_path).get("demo"), shelf(TokenBudget(body=500, doc=2000, total=3000))
    with pytest.raises(LimitExceeded, match="skill_unload"):
        here.select(skill, [f"{number}.md" for number in range(200)])
    assert here.select(skill, ["1.md"])[0].cut_after is None
    with pytest.raises(LimitExceeded):
        here.select(skill, [f"1.md#L{number}" for number in range(1, 2000)])


def test_threads_keep_to_the_budget_together(tmp_path: Path) -> None:
    for number in range(20):
        folder = write_skill(tmp_path, f"s{number}")
        text = (folder / "SKILL.md").read_text() + "words of a body\n" * 200
        (folder / "SKILL.md").write_text(text)
    skills, here = skills_in(tmp_path), shelf(TokenBudget(total=4000))

    def load(number: int) -> int:
        try:
            return here.load(skills.get(f"s{number}")).tokens
        except LimitExceeded:
            return 0

    with ThreadPoolExecutor(8) as pool:
        assert 0 < sum(pool.map(load, range(20))) <= 4000


def test_a_document_that_is_no_longer_selected_gives_its_room_back(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {f"{name}.md": "words of a document\n" * 100 for name in "ab"})
    skills, here = skills_in(tmp_path), shelf(TokenBudget(body=100, doc=1000, total=700))
    here.collect_visible(with_docs("a.md"), skills)
    here.collect_visible(with_docs(), skills)
    (shown,) = here.collect_visible(with_docs("b.md"), skills).skills
    assert shown.docs[0].cut_after is None


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    write_skill(tmp_path, "demo", {"a.md": b"\xff\xfe\x00"})
    with pytest.raises(InvalidArgument, match="not UTF-8"):
        shelf().select(skills_in(tmp_path).get("demo"), ["a.md"])
