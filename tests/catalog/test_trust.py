"""A decision to trust holds for what was seen, and for nothing that came later."""

import os
from pathlib import Path

import pytest

from openskills.catalog import trust
from openskills.catalog.trust import TrustStore, digest_of
from openskills.errors import InvalidArgument, LimitExceeded


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / ".agents" / "skills" / "a"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("text")
    (folder / "scripts" / "run.sh").write_text("echo")
    return folder.parent


def digest(skills: Path) -> str:
    return digest_of([skills], skills.parent.parent)


def test_the_digest_is_the_same_as_long_as_nothing_changes(skills: Path) -> None:
    before = digest(skills)
    os.utime(skills / "a" / "SKILL.md", (1, 1))
    assert digest(skills) == before


def test_any_change_of_content_name_mode_or_link_changes_the_digest(skills: Path) -> None:
    seen = {digest(skills)}
    (skills / "a" / "scripts" / "run.sh").write_text("rm")
    seen.add(digest(skills))
    (skills / "a" / "scripts" / "run.sh").chmod(0o755)
    seen.add(digest(skills))
    (skills / "a" / "scripts" / "run.sh").rename(skills / "a" / "scripts" / "go.sh")
    seen.add(digest(skills))
    (skills / "a" / "link").symlink_to("SKILL.md")
    seen.add(digest(skills))
    (skills / "a" / "link").unlink()
    (skills / "a" / "link").symlink_to("scripts/go.sh")
    seen.add(digest(skills))
    assert len(seen) == 6


def test_a_linked_folder_inside_the_project_counts_with_its_content(skills: Path) -> None:
    project = skills.parent.parent
    (project / "tools" / "b").mkdir(parents=True)
    (project / "tools" / "b" / "SKILL.md").write_text("one")
    (skills / "b").symlink_to("../../tools/b")
    before = digest(skills)
    (project / "tools" / "b" / "SKILL.md").write_text("two")
    assert digest(skills) != before


def test_a_link_to_the_whole_disk_is_not_walked(skills: Path) -> None:
    (skills / "root").symlink_to("/")
    assert digest(skills)


def test_a_link_back_to_its_parent_ends(skills: Path) -> None:
    (skills / "loop").symlink_to(".")
    assert digest(skills)


def test_too_much_to_agree_to_is_refused(skills: Path) -> None:
    with (skills / "a" / "huge.bin").open("wb") as file:
        file.truncate(trust.MAX_BYTES + 1)
    with pytest.raises(LimitExceeded, match="move what is not a skill"):
        digest(skills)


def test_a_decision_is_remembered_for_this_digest_only_and_can_be_taken_back(tmp_path: Path) -> None:
    store, project = TrustStore(tmp_path / "config"), tmp_path / "project"
    assert not store.trusts(project, "abc")
    store.trust(project, "abc")
    again = TrustStore(tmp_path / "config")
    assert again.trusts(project, "abc")
    assert not again.trusts(project, "abd")
    assert list(again.projects()) == [str(project)]
    assert again.forget(project)
    assert not again.forget(project)
    assert not store.trusts(project, "abc")


def test_a_no_is_remembered_for_this_digest_and_trusts_nothing(tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "config")
    store.decline(tmp_path, "abc")
    assert store.declined(tmp_path, "abc")
    assert not store.declined(tmp_path, "abd")
    assert not store.trusts(tmp_path, "abc")
    assert store.projects() == {}
    store.trust(tmp_path, "abc")
    assert not store.declined(tmp_path, "abc")


def test_only_the_owner_can_read_the_decisions(tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "config")
    store.trust(tmp_path, "abc")
    assert (tmp_path / "config" / "trust.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["{", "[]", '{"decisions": 3}', '{"decisions": {"/a": {"answer": "yes"}}}'])
def test_a_broken_file_is_an_error_that_names_it_rather_than_a_forgotten_decision(tmp_path: Path, content: str) -> None:
    (tmp_path / "trust.json").write_text(content)
    with pytest.raises(InvalidArgument, match=r"trust\.json.*mend or remove"):
        TrustStore(tmp_path).trusts(tmp_path, "abc")
