"""Files in memory behave like files; what a whole workspace promises is checked in test_fake."""

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.testing.fake_files import FakeFile, FakeTree


def listed(tree: FakeTree, *globs: str) -> list[str]:
    return [info.path for info in tree.list(globs, since=None, limit=100).files]


def test_a_place_has_one_file_however_it_is_spelt() -> None:
    tree = FakeTree()
    tree.stage("demo", {}, [])
    tree.write("skills/demo/out/a.txt", b"a")
    tree.write("inputs/b", b"b")
    assert listed(tree, "**") == ["out/a.txt", "work/inputs/b"]
    assert tree.file("out/a.txt")[0].data == tree.file("skills/demo/out/a.txt")[0].data == b"a"


def test_a_newer_skill_takes_the_place_of_an_older_one_but_for_its_venv() -> None:
    tree = FakeTree()
    tree.stage("demo", {"SKILL.md": FakeFile(b"old"), "gone": FakeFile(b"")}, ["empty"])
    tree.stage("demo", {"SKILL.md": FakeFile(b"new")}, [])
    assert listed(tree, "skills/**") == ["skills/demo/SKILL.md"]
    assert tree.file("skills/demo/SKILL.md")[0].data == b"new"
    tree.check_directory("skills/demo/.venv")
    with pytest.raises(InvalidArgument, match=r"cwd: 'skills/demo/empty' does not exist"):
        tree.check_directory("skills/demo/empty")


def test_links_are_followed_to_where_they_lead_but_never_into_a_skill_to_write() -> None:
    tree = FakeTree()
    tree.stage("demo", {"SKILL.md": FakeFile(b"text")}, [])
    tree.link("work/skill", "skills/demo")
    assert tree.file("work/skill/SKILL.md")[0].data == b"text"
    with pytest.raises(ForbiddenPath):
        tree.write("work/skill/SKILL.md", b"changed")
    assert tree.file("skills/demo/SKILL.md")[0].data == b"text"


def test_links_in_a_circle_lead_nowhere() -> None:
    tree = FakeTree()
    tree.link("work/a", "work/b")
    tree.link("work/b", "work/a")
    with pytest.raises(ForbiddenPath, match="too many links"):
        tree.file("work/a/file")
    assert tree.remove("work/a")


def test_the_same_content_put_again_has_another_stamp() -> None:
    tree = FakeTree()
    assert tree.write("work/a", b"x").stamp != tree.write("work/a", b"x").stamp
