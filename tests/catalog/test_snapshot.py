"""Of equal names the later counts, nothing disappears silently, and a view shows only what it may.

A difference names what became of each skill.

A hidden skill is hidden for a reason that a person can act on.
"""

from pathlib import Path

import pytest

from openskills.catalog.skill import Skill
from openskills.catalog.snapshot import (
    CatalogChanges,
    CatalogSnapshot,
    Machine,
    build_snapshot,
    compare_snapshots,
    hidden_reason,
)
from openskills.errors import UnknownSkill
from openskills.settings import Settings
from openskills.skillmd.manifest import Requirements, SkillManifest


def skill(name: str, directory: str = "", description: str = "Does a thing.") -> Skill:
    return Skill(SkillManifest(name, description), directory or f"/nowhere/{name}", "test")


def visible(_: Skill) -> None:
    return None


def test_skills_are_sorted_by_name() -> None:
    assert [each.name for each in CatalogSnapshot([skill("b"), skill("a")]).skills] == ["a", "b"]


def test_the_later_of_two_equal_names_counts_and_the_other_is_reported() -> None:
    first, second, third = skill("a", "/x/1"), skill("a", "/x/2"), skill("a", "/x/3")
    snapshot = build_snapshot([first, second, third], visible, ())
    assert snapshot.get("a") is third
    assert [(each.skill, each.by) for each in snapshot.shadowed] == [(first, third), (second, third)]
    assert [(problem.rule, problem.path) for problem in snapshot.problems] == [
        ("name-shadowed", "/x/1/SKILL.md"),
        ("name-shadowed", "/x/2/SKILL.md"),
    ]


def test_one_folder_reached_on_two_ways_is_not_a_clash(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    snapshot = build_snapshot([skill("a", str(tmp_path / "real")), skill("a", str(tmp_path / "link"))], visible, ())
    assert snapshot.problems == ()


def test_a_hidden_skill_is_unknown_to_a_model_and_found_by_a_person() -> None:
    snapshot = build_snapshot([skill("a"), skill("b")], lambda each: "no jq" if each.name == "b" else None, ())
    assert [each.name for each in snapshot.skills] == ["a"]
    with pytest.raises(UnknownSkill):
        snapshot.get("b")
    assert snapshot.find("b").name == "b"
    assert snapshot.hidden["b"].reason == "no jq"
    assert snapshot.find("a").name == "a"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownSkill, match="did you mean 'pdf-tools'"):
        CatalogSnapshot([skill("pdf-tools"), skill("csv")]).get("pdf-tool")


def test_composed_and_decomposed_spellings_are_one_name() -> None:
    assert CatalogSnapshot([skill("café")]).get("cafe\u0301").name == "café"


def test_a_view_hides_for_get_and_search_alike() -> None:
    snapshot = CatalogSnapshot([skill("merge-pdf"), skill("merge-csv")])
    view = snapshot.view(lambda each: each.name != "merge-pdf")
    assert [hit.skill.name for hit in view.search("merge")] == ["merge-csv"]
    with pytest.raises(UnknownSkill) as caught:
        view.get("merge-pdf")
    assert "merge-pdf" not in caught.value.near
    assert len(snapshot.skills) == 2


def test_an_invitation_shows_what_is_reserved_for_people_and_nothing_else() -> None:
    deploy = Skill(SkillManifest("deploy", "Deploys.", disable_model_invocation=True), "/nowhere/deploy", "test")
    far = skill("far")
    found = build_snapshot([skill("a"), deploy, far], lambda one: None if one.name == "a" else "a reason", ())
    assert found.reveal(["a", "far", "nothing"]) is found
    invited = found.reveal(["deploy", "far"])
    assert [each.name for each in invited.skills] == ["a", "deploy"]
    assert list(invited.hidden) == ["far"]


def skill_changes(name: str, description: str = "Does a thing.") -> Skill:
    return Skill(SkillManifest(name, description), f"/nowhere/{name}", "test")


def test_each_skill_is_added_removed_changed_or_the_same() -> None:
    same = skill_changes("same")
    before = CatalogSnapshot([skill_changes("gone"), same, skill_changes("edited")])
    after = CatalogSnapshot([skill_changes("new"), same, skill_changes("edited", "Other.")])
    assert compare_snapshots(before, after) == CatalogChanges(("new",), ("gone",), ("edited",))


def test_no_difference_is_false() -> None:
    same = skill_changes("same")
    assert not compare_snapshots(CatalogSnapshot([same]), CatalogSnapshot([same]))


MACHINE = Machine("linux", {"git", "jq"}.__contains__, {"TOKEN": "x", "EMPTY": ""})


def reason(**needs: tuple[str, ...] | bool) -> str | None:
    requirements = Requirements(**needs)  # type: ignore[arg-type]
    return hidden_reason(SkillManifest("a", "b", requirements=requirements), MACHINE)


def test_a_skill_without_demands_is_visible() -> None:
    assert reason() is None


def test_demands_that_are_met_hide_nothing() -> None:
    assert reason(bins=("git",), any_bins=("rg", "jq"), env=("TOKEN",), platforms=("linux", "darwin")) is None


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ({"bins": ("git", "ffmpeg", "sox")}, "the program ffmpeg and sox; install it"),
        ({"any_bins": ("rg", "ag")}, "one of the programs rg or ag"),
        ({"env": ("OTHER",)}, "the environment variable OTHER; set it"),
        ({"env": ("EMPTY",)}, "the environment variable EMPTY"),
        ({"platforms": ("darwin",)}, "requires darwin, and this is linux"),
    ],
)
def test_an_unmet_demand_names_what_is_missing_and_what_to_do(needs: dict[str, tuple[str, ...]], words: str) -> None:
    assert words in (reason(**needs) or "")


def test_always_overrides_unmet_demands() -> None:
    assert reason(bins=("ffmpeg",), always=True) is None


def test_a_skill_that_its_author_reserves_for_people_is_hidden() -> None:
    manifest = SkillManifest("a", "b", disable_model_invocation=True)
    assert "disable-model-invocation" in (hidden_reason(manifest, MACHINE) or "")


def test_programs_are_looked_for_on_the_path_of_the_settings(settings: Settings) -> None:
    machine = Machine.current(settings)
    assert machine.has_program("sh")
    assert not machine.has_program("no-such-program")


def test_the_interpreter_that_executors_bring_is_on_every_machine() -> None:
    machine = Machine.current(Settings.from_env({"PATH": "/nowhere"}))
    assert machine.has_program("python")
    assert machine.has_program("python3")
    assert not machine.has_program("sh")


def test_a_long_list_of_missing_things_is_cut() -> None:
    assert "p0 and p1 and p2 and p3 and p4 and 95 more" in (reason(bins=tuple(f"p{n}" for n in range(100))) or "")
