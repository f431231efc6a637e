"""Of equal names the later counts, nothing disappears silently, and a view shows only what it may."""

from pathlib import Path

import pytest

from openskills.catalog.skill import Skill
from openskills.catalog.snapshot import Snapshot, assemble
from openskills.errors import UnknownSkill
from openskills.skillmd.manifest import SkillManifest


def skill(name: str, directory: str = "", description: str = "Does a thing.") -> Skill:
    return Skill(SkillManifest(name, description), directory or f"/nowhere/{name}", "test")


def visible(_: Skill) -> None:
    return None


def test_skills_are_sorted_by_name() -> None:
    assert [each.name for each in Snapshot([skill("b"), skill("a")]).skills] == ["a", "b"]


def test_the_later_of_two_equal_names_counts_and_the_other_is_reported() -> None:
    first, second, third = skill("a", "/x/1"), skill("a", "/x/2"), skill("a", "/x/3")
    snapshot = assemble([first, second, third], visible, ())
    assert snapshot.get("a") is third
    assert [(each.skill, each.by) for each in snapshot.shadowed] == [(first, third), (second, third)]
    assert [(problem.rule, problem.path) for problem in snapshot.problems] == [
        ("name-shadowed", "/x/1/SKILL.md"),
        ("name-shadowed", "/x/2/SKILL.md"),
    ]


def test_one_folder_reached_on_two_ways_is_no_clash(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    snapshot = assemble([skill("a", str(tmp_path / "real")), skill("a", str(tmp_path / "link"))], visible, ())
    assert snapshot.problems == ()


def test_a_hidden_skill_is_unknown_to_a_model_and_found_by_a_person() -> None:
    snapshot = assemble([skill("a"), skill("b")], lambda each: "no jq" if each.name == "b" else None, ())
    assert [each.name for each in snapshot.skills] == ["a"]
    with pytest.raises(UnknownSkill):
        snapshot.get("b")
    assert snapshot.find("b").name == "b"
    assert snapshot.hidden["b"].reason == "no jq"
    assert snapshot.find("a").name == "a"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownSkill, match="did you mean 'pdf-tools'"):
        Snapshot([skill("pdf-tools"), skill("csv")]).get("pdf-tool")


def test_composed_and_decomposed_spellings_are_one_name() -> None:
    assert Snapshot([skill("café")]).get("cafe\u0301").name == "café"


def test_a_view_hides_for_get_and_search_alike() -> None:
    snapshot = Snapshot([skill("merge-pdf"), skill("merge-csv")])
    view = snapshot.view(lambda each: each.name != "merge-pdf")
    assert [hit.skill.name for hit in view.search("merge")] == ["merge-csv"]
    with pytest.raises(UnknownSkill) as caught:
        view.get("merge-pdf")
    assert "merge-pdf" not in caught.value.near
    assert len(snapshot.skills) == 2


def test_an_invitation_shows_what_is_reserved_for_people_and_nothing_else() -> None:
    deploy = Skill(SkillManifest("deploy", "Deploys.", disable_model_invocation=True), "/nowhere/deploy", "test")
    far = skill("far")
    found = assemble([skill("a"), deploy, far], lambda one: None if one.name == "a" else "a reason", ())
    assert found.inviting(["a", "far", "nothing"]) is found
    invited = found.inviting(["deploy", "far"])
    assert [each.name for each in invited.skills] == ["a", "deploy"]
    assert list(invited.hidden) == ["far"]
