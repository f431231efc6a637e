"""A difference names what became of each skill."""

from openskills.catalog.changes import Changes, difference
from openskills.catalog.skill import Skill
from openskills.catalog.snapshot import Snapshot
from openskills.skillmd.manifest import SkillManifest


def skill(name: str, description: str = "Does a thing.") -> Skill:
    return Skill(SkillManifest(name, description), f"/nowhere/{name}", "test")


def test_each_skill_is_added_removed_changed_or_the_same() -> None:
    before = Snapshot([skill("gone"), skill("same"), skill("edited")])
    after = Snapshot([skill("new"), skill("same"), skill("edited", "Other.")])
    assert difference(before, after) == Changes(("new",), ("gone",), ("edited",))


def test_no_difference_is_false() -> None:
    snapshot = Snapshot([skill("same")])
    assert not difference(snapshot, Snapshot([skill("same")]))
