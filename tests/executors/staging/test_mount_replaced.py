import os
from collections.abc import Generator
from pathlib import Path

import pytest

from openskills.executors.records.leases import make_skeleton
from openskills.executors.staging.mount import (
    STAGED_DIRECTORY,
    StagedRecord,
    adopt_files,
    read_record,
    recover,
    write_record,
)
from openskills.executors.staging.snapshots import SnapshotStore
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


DIGEST = "a" * 64


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "snapshots")


def record(tree: Path, name: str) -> StagedRecord:
    staged = StagedRecord(DIGEST, (tree / "skills" / name).stat().st_ino, 1, 2, 3)
    write_record(tree, name, staged)
    return staged


def skill(tree: Path, name: str, *installed: str) -> Path:
    directory = tree / "skills" / name
    (directory / ".venv").mkdir(parents=True)
    for package in installed:
        (directory / ".venv" / package).touch()
    return directory


def test_what_is_written_down_is_read_again(tree: Path) -> None:
    skill(tree, "pdf")
    assert read_record(tree, "pdf") is None
    staged = record(tree, "pdf")
    assert read_record(tree, "pdf") == staged


@pytest.mark.parametrize("damage", [b"", b"abc", b"abc x", b"abc 1", b"abc 1 2 3 x", b"\xff 1"])
def test_a_damaged_record_is_none(tree: Path, damage: bytes) -> None:
    skill(tree, "pdf")
    record(tree, "pdf")
    (tree.parent / STAGED_DIRECTORY / "pdf").write_bytes(damage)
    assert read_record(tree, "pdf") is None


def test_a_skill_that_lost_its_name_in_a_crash_gets_it_back(store: SnapshotStore, tree: Path, skills: int) -> None:
    skill(tree, "pdf", "installed")
    record(tree, "pdf")
    (tree / "skills" / "pdf").rename(tree / "skills" / ASIDE)
    recover(store, tree, skills)
    assert os.listdir(tree / "skills") == ["pdf"]
    assert os.listdir(tree / "skills/pdf/.venv") == ["installed"]


def test_who_is_not_root_takes_a_venv_back_too(tmp_path: Path) -> None:
    def work(directory: Path) -> None:
        tree = directory / "tree"
        make_skeleton(tree, None)
        replaced = skill(tree, ASIDE, "installed")
        (directory / STAGED_DIRECTORY).mkdir()
        (directory / STAGED_DIRECTORY / "pdf").write_text(f"{DIGEST} {replaced.stat().st_ino} 1 2 3")
        skill(tree, "pdf")
        descriptor = os.open(tree / "skills", os.O_RDONLY)
        recover(SnapshotStore(directory / "snapshots"), tree, descriptor)
        os.close(descriptor)
        assert os.listdir(tree / "skills/pdf/.venv") == ["installed"]

    as_ordinary_user(tmp_path, work)


def test_what_no_record_names_stays_as_it_is(store: SnapshotStore, tree: Path, skills: int) -> None:
    skill(tree, ASIDE, "of somebody")
    skill(tree, "pdf")
    record(tree, "pdf")
    recover(store, tree, skills)
    assert os.listdir(tree / "skills/pdf/.venv") == []
    assert os.listdir(tree / "skills" / ASIDE / ".venv") == ["of somebody"]


def test_a_link_in_the_place_of_the_skill_is_not_followed(
    store: SnapshotStore, tree: Path, skills: int, tmp_path: Path
) -> None:
    skill(tree, "pdf", "installed")
    record(tree, "pdf")
    (tree / "skills" / "pdf").rename(tree / "skills" / ASIDE)
    (tmp_path / "outside" / ".venv").mkdir(parents=True)
    (tree / "skills" / "pdf").symlink_to(tmp_path / "outside")
    recover(store, tree, skills)
    assert os.listdir(tmp_path / "outside" / ".venv") == []


def test_nothing_is_taken_from_what_is_not_there_or_no_directory(store: SnapshotStore, tree: Path, skills: int) -> None:
    target = os.open(skill(tree, "pdf"), os.O_RDONLY)
    adopt_files(store.path(DIGEST), skills, "missing", target)
    (tree / "skills" / "file").touch()
    adopt_files(store.path(DIGEST), skills, "file", target)
    (tree / "skills" / "empty").mkdir()
    adopt_files(store.path(DIGEST), skills, "empty", target)
    os.close(target)
    assert os.listdir(tree / "skills/pdf/.venv") == []
