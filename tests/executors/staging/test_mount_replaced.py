import os
from collections.abc import Generator
from pathlib import Path

import pytest

from openskills.executors.records.leases import make_skeleton
from openskills.executors.staging.mount import STAGED_DIRECTORY, adopt_venv, read_digest, record_digest, recover
from openskills.filesystem import TEMPORARY_PREFIX
from tests.executors.unprivileged import as_ordinary_user

ASIDE = f"{TEMPORARY_PREFIX}1"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    make_skeleton(tmp_path / "tree", None)
    return tmp_path / "tree"


@pytest.fixture
def skills(tree: Path) -> Generator[int]:
    descriptor = os.open(tree / "skills", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def skill(tree: Path, name: str, *installed: str) -> Path:
    directory = tree / "skills" / name
    (directory / ".venv").mkdir(parents=True)
    for package in installed:
        (directory / ".venv" / package).touch()
    directory.chmod(0o555)
    return directory


def test_what_is_written_down_is_read_again(tree: Path) -> None:
    directory = skill(tree, "pdf")
    assert read_digest(tree, "pdf") is None
    record_digest(tree, "pdf", "abc")
    assert read_digest(tree, "pdf") == ("abc", directory.stat().st_ino)


@pytest.mark.parametrize("damage", [b"", b"abc", b"abc x", b"\xff 1"])
def test_a_damaged_record_is_none(tree: Path, damage: bytes) -> None:
    skill(tree, "pdf")
    record_digest(tree, "pdf", "abc")
    (tree.parent / STAGED_DIRECTORY / "pdf").write_bytes(damage)
    assert read_digest(tree, "pdf") is None


def test_a_skill_that_lost_its_name_in_a_crash_gets_it_back(tree: Path, skills: int) -> None:
    skill(tree, "pdf", "installed")
    record_digest(tree, "pdf", "abc")
    (tree / "skills" / "pdf").rename(tree / "skills" / ASIDE)
    recover(tree, skills)
    assert os.listdir(tree / "skills") == ["pdf"]
    assert os.listdir(tree / "skills/pdf/.venv") == ["installed"]


def test_who_is_not_root_takes_a_venv_back_too(tmp_path: Path) -> None:
    def work(directory: Path) -> None:
        tree = directory / "tree"
        make_skeleton(tree, None)
        replaced = skill(tree, ASIDE, "installed")
        (directory / STAGED_DIRECTORY).mkdir()
        (directory / STAGED_DIRECTORY / "pdf").write_text(f"abc {replaced.stat().st_ino}")
        skill(tree, "pdf")
        descriptor = os.open(tree / "skills", os.O_RDONLY)
        recover(tree, descriptor)
        os.close(descriptor)
        assert os.listdir(tree / "skills/pdf/.venv") == ["installed"]

    as_ordinary_user(tmp_path, work)


def test_what_no_record_names_stays_as_it_is(tree: Path, skills: int) -> None:
    skill(tree, ASIDE, "of somebody")
    skill(tree, "pdf")
    record_digest(tree, "pdf", "abc")
    recover(tree, skills)
    assert os.listdir(tree / "skills/pdf/.venv") == []
    assert os.listdir(tree / "skills" / ASIDE / ".venv") == ["of somebody"]


def test_a_link_in_the_place_of_the_skill_is_not_followed(tree: Path, skills: int, tmp_path: Path) -> None:
    skill(tree, "pdf", "installed")
    record_digest(tree, "pdf", "abc")
    (tree / "skills" / "pdf").rename(tree / "skills" / ASIDE)
    (tmp_path / "outside" / ".venv").mkdir(parents=True)
    (tree / "skills" / "pdf").symlink_to(tmp_path / "outside")
    recover(tree, skills)
    assert os.listdir(tmp_path / "outside" / ".venv") == []


def test_nothing_is_taken_from_what_is_not_there_or_no_directory(tree: Path, skills: int) -> None:
    target = os.open(skill(tree, "pdf"), os.O_RDONLY)
    adopt_venv(skills, "missing", target)
    (tree / "skills" / "file").touch()
    adopt_venv(skills, "file", target)
    (tree / "skills" / "empty").mkdir()
    adopt_venv(skills, "empty", target)
    os.close(target)
    assert os.listdir(tree / "skills/pdf/.venv") == []
