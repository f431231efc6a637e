"""Names from outside are judged alone and against each other."""

import pytest

from openskills.catalog.sources.archive import EntryNames, is_plain_name
from openskills.errors import ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded


def test_good_names_become_paths() -> None:
    entries = EntryNames("a.zip")
    assert [str(entries.add_file(name)) for name in ("SKILL.md", "./a/b.txt", "a//c", "技能/说明.md")] == [
        "SKILL.md",
        "a/b.txt",
        "a/c",
        "技能/说明.md",
    ]


def test_a_folder_may_be_named_again_before_and_after_its_files() -> None:
    entries = EntryNames("a.zip")
    for _ in range(2):
        entries.add_directory("a/")
    entries.add_file("a/b")
    entries.add_directory("a")


@pytest.mark.parametrize("name", ["../a", "/a", "a\\b", "C:a"])
def test_a_name_that_could_leave_is_refused_with_the_tree_and_the_name(name: str) -> None:
    with pytest.raises(ForbiddenPath, match=r"^a\.zip: "):
        EntryNames("a.zip").add_file(name)


def test_a_name_that_is_too_deep_says_how_deep_it_may_be() -> None:
    with pytest.raises(InvalidArgument, match="the limit is 1024 characters and 32 levels"):
        EntryNames("a.zip").add_file("a/" * 32 + "b")


def test_a_clash_names_both() -> None:
    entries = EntryNames("a.zip")
    entries.add_file("Docs/a.md")
    with pytest.raises(InvalidSkill, match="'Docs' and 'docs' differ only in case"):
        entries.add_file("docs/b.md")


@pytest.mark.parametrize("name", ["pdf", "pdf-tools", "a.b_c", "技能", "x" * 64, "7zip"])
def test_names_that_can_be_folders(name: str) -> None:
    assert is_plain_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".git", "-rf", "a/b", "a b", "a\0", "x" * 65, "a\u202eb", "~"])
def test_names_that_cannot_be_folders(name: str) -> None:
    assert not is_plain_name(name)


def test_folders_count_once_and_too_many_names_are_refused_with_the_last() -> None:
    entries = EntryNames("a.zip", 4)
    for name in ("a/b/c", "a/b/d"):
        entries.add_file(name)
    with pytest.raises(LimitExceeded, match=r"^a\.zip: more than 4 files and folders with 'a/x/y'"):
        entries.add_file("a/x/y")
