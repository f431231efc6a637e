"""The digest of a folder changes with everything that could change what its skills do, and with nothing else."""

import os
from pathlib import Path

import pytest

from openskills.catalog import digest
from openskills.catalog.digest import digest_of
from openskills.errors import LimitExceeded
from tests.catalog.deep_folder import make_too_deep


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / ".agents" / "skills" / "a"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("text")
    (folder / "scripts" / "run.sh").write_text("echo")
    return tmp_path / "project"


@pytest.fixture
def skills(project: Path) -> Path:
    return project / ".agents" / "skills"


def test_the_digest_is_the_same_as_long_as_nothing_changes(skills: Path, project: Path) -> None:
    before = digest_of(skills, project)
    os.utime(skills / "a" / "SKILL.md", (1, 1))
    assert digest_of(skills, project) == before


def test_any_change_of_content_name_mode_or_link_changes_the_digest(skills: Path, project: Path) -> None:
    seen = {digest_of(skills, project)}
    (skills / "a" / "scripts" / "run.sh").write_text("rm")
    seen.add(digest_of(skills, project))
    (skills / "a" / "scripts" / "run.sh").chmod(0o755)
    seen.add(digest_of(skills, project))
    (skills / "a" / "scripts" / "run.sh").rename(skills / "a" / "scripts" / "go.sh")
    seen.add(digest_of(skills, project))
    (skills / "a" / "link").symlink_to("SKILL.md")
    seen.add(digest_of(skills, project))
    (skills / "a" / "link").unlink()
    (skills / "a" / "link").symlink_to("scripts/go.sh")
    seen.add(digest_of(skills, project))
    assert len(seen) == 6


def test_names_that_differ_in_case_or_composition_only_are_different_names(skills: Path, project: Path) -> None:
    seen = {digest_of(skills, project)}
    file = skills / "a" / "\N{LATIN SMALL LETTER E WITH ACUTE}.md"
    file.write_text("same")
    for name in ("\N{LATIN CAPITAL LETTER E WITH ACUTE}.md", "e\N{COMBINING ACUTE ACCENT}.md", "\udcff.md"):
        seen.add(digest_of(skills, project))
        file = file.rename(file.with_name(name))
    assert len(seen | {digest_of(skills, project)}) == 5


def test_one_folder_has_one_digest_whichever_way_leads_to_it(skills: Path, project: Path, tmp_path: Path) -> None:
    (project / ".claude").symlink_to(".agents")
    (tmp_path / "elsewhere").symlink_to("project")
    ways = (skills, project / ".claude" / "skills", tmp_path / "elsewhere" / ".agents" / "skills")
    assert len({digest_of(way, confine) for way in ways for confine in (project, tmp_path / "elsewhere")}) == 1


def test_a_linked_folder_inside_the_project_counts_with_its_content(skills: Path, project: Path) -> None:
    (project / "tools" / "b").mkdir(parents=True)
    (project / "tools" / "b" / "SKILL.md").write_text("one")
    (skills / "b").symlink_to("../../tools/b")
    before = digest_of(skills, project)
    (project / "tools" / "b" / "SKILL.md").write_text("two")
    assert digest_of(skills, project) != before


def test_a_linked_file_counts_with_its_content_inside_the_project_only(
    skills: Path, project: Path, tmp_path: Path
) -> None:
    for file in (project / "shared.md", tmp_path / "outside.md"):
        file.write_text("one")
    (skills / "a" / "shared.md").symlink_to("../../../shared.md")
    (skills / "a" / "outside.md").symlink_to(tmp_path / "outside.md")
    before = digest_of(skills, project)
    (tmp_path / "outside.md").write_text("two")
    assert digest_of(skills, project) == before
    (project / "shared.md").write_text("two")
    assert digest_of(skills, project) != before


def test_a_link_that_comes_to_lead_somewhere_changes_the_digest(skills: Path, project: Path) -> None:
    (skills / "later").symlink_to("../../later")
    before = digest_of(skills, project)
    (project / "later").mkdir()
    (project / "later" / "SKILL.md").write_text("here I am")
    assert digest_of(skills, project) != before


def test_a_link_cannot_look_like_another_file(skills: Path, project: Path) -> None:
    (skills / "a" / "x").symlink_to("one\ntwo")
    (skills / "a" / "y").write_text("")
    first = digest_of(skills, project)
    (skills / "a" / "x").unlink()
    (skills / "a" / "x").symlink_to("one")
    (skills / "a" / "y").rename(skills / "a" / "two\ny")
    assert digest_of(skills, project) != first


def test_links_to_the_whole_disk_to_a_parent_or_to_themselves_end(skills: Path, project: Path) -> None:
    (skills / "root").symlink_to("/")
    (skills / "parent").symlink_to(".")
    (skills / "itself").symlink_to("itself")
    (skills / "device").symlink_to("/dev/zero")
    os.mkfifo(skills / "fifo")
    assert digest_of(skills, project)


def test_a_project_that_is_the_whole_disk_is_covered_like_any_other(skills: Path) -> None:
    before = digest_of(skills, Path("/"))
    (skills / "a" / "SKILL.md").write_text("changed")
    assert digest_of(skills, Path("/")) != before


def test_too_many_bytes_are_refused_before_they_are_read(skills: Path, project: Path) -> None:
    with (skills / "a" / "huge.bin").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(LimitExceeded, match=r"skills has more than .*move what is not a skill"):
        digest_of(skills, project)


def test_bytes_that_are_reached_again_through_links_count_again(skills: Path, project: Path) -> None:
    with (project / "big.bin").open("wb") as file:
        file.truncate(digest.MAX_BYTES // 8 + 1)
    for number in range(8):
        (skills / "a" / f"{number}.bin").symlink_to("../../../big.bin")
    with pytest.raises(LimitExceeded):
        digest_of(skills, project)


@pytest.mark.slow
def test_too_many_folders_are_refused_like_too_many_files(skills: Path, project: Path) -> None:
    for number in range(digest.MAX_ENTRIES):
        os.mkdir(skills / str(number))
    with pytest.raises(LimitExceeded, match="20,000 files and folders"):
        digest_of(skills, project)


def test_what_cannot_be_read_is_an_error_and_not_left_out(skills: Path, project: Path) -> None:
    make_too_deep(skills)
    with pytest.raises(OSError, match="too long"):
        digest_of(skills, project)
