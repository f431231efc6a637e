"""A difference names what became of each skill."""

from openskills.catalog.changes import Changes, difference
from openskills.catalog.skill import Skill
from openskills.catalog.snapshot import Snapshot
from openskills.skillmd.manifest import SkillManifest


def skill(name: str, description: str = "Does a thing.") -> Skill:
    return Skill(SkillManifest(name, description), f"/nowhere/{name}", "test")


def test_each_skill_is_added_removed_changed_or_the_same() -> None:
    same = skill("same")
    before = Snapshot([skill("gone"), same, skill("edited")])
    after = Snapshot([skill("new"), same, skill("edited", "Other.")])
    assert difference(before, after) == Changes(("new",), ("gone",), ("edited",))


def test_no_difference_is_false() -> None:
    same = skill("same")
    assert not difference(Snapshot([same]), Snapshot([same]))
