"""What a workspace holds is counted, and what it may hold is said."""

import os
from pathlib import Path

import pytest

from openskills.errors import LimitExceeded
from openskills.executors.files.descriptors import delete_tree
from openskills.executors.records.leases import make_skeleton
from openskills.executors.records.quota import Quota, check_free_space, measure_usage, read_free_bytes
from openskills.executors.spec import WorkspaceUsage
from openskills.executors.staging.mount import StagedRecord, write_record
from tests.executors.files.test_descriptors import deep_delete
from tests.executors.unprivileged import as_ordinary_user, open_descriptors

MB = 1024 * 1024


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    make_skeleton(tmp_path / "tree", None)
    return tmp_path / "tree"


def test_files_and_directories_are_counted_and_bytes_are_those_on_the_disk(tree: Path) -> None:
    empty = measure_usage(tree)
    assert empty.files == 4  # work, work/inputs, runs, out
    (tree / "out" / "a").write_bytes(b"x" * MB)
    (tree / "work" / "deep").mkdir()
    (tree / "work" / "deep" / "b").write_bytes(b"x" * MB)
    with (tree / "out" / "holes").open("wb") as file:
        file.truncate(1 << 40)
    usage = measure_usage(tree)
    assert usage.files == empty.files + 4
    assert 2 * MB <= usage.bytes - empty.bytes < 3 * MB


def test_staged_files_do_not_count_and_files_that_commands_add_to_them_do(tree: Path) -> None:
    before = measure_usage(tree)
    skill = tree / "skills" / "pdf"
    (skill / "scripts").mkdir(parents=True)
    (skill / "big").write_bytes(b"x" * MB)
    write_record(tree, "pdf", StagedRecord("a" * 64, skill.stat().st_ino, 1, MB, 2))
    assert measure_usage(tree).files == before.files
    (skill / ".venv" / "lib").mkdir(parents=True)
    (skill / ".venv" / "lib" / "big").write_bytes(b"x" * MB)
    (skill / "scripts" / "written").write_bytes(b"x" * MB)
    usage = measure_usage(tree)
    assert usage.files == before.files + 4
    assert 2 * MB <= usage.bytes - before.bytes < 3 * MB
    (skill / "big").unlink()
    assert measure_usage(tree).bytes - before.bytes < 2 * MB


def test_a_file_with_many_names_counts_once_and_links_are_not_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"x" * 8 * MB)
    (tree / "out" / "a").write_bytes(b"x" * MB)
    (tree / "out" / "b").hardlink_to(tree / "out" / "a")
    (tree / "out" / "link").symlink_to(tmp_path / "outside")
    (tree / "out" / "up").symlink_to("..")
    assert MB <= measure_usage(tree).bytes < 2 * MB


def test_counting_stops_when_there_are_too_many(tree: Path) -> None:
    for number in range(50):
        (tree / "out" / str(number)).touch()
    assert measure_usage(tree, max_files=20).files == 21


def test_no_depth_hides_anything(tree: Path) -> None:
    before = measure_usage(tree)
    open_before = open_descriptors()
    deep_delete(tree / "work" / "deep", 1500)
    after = measure_usage(tree)
    # Whoever removes the directories of tests could not remove this one.
    delete_tree(tree / "work" / "deep")
    assert after.files == before.files + 1502
    assert open_descriptors() == open_before


def test_what_is_closed_to_us_does_not_stop_the_count(tmp_path: Path) -> None:
    def count(place: Path) -> None:
        make_skeleton(place / "tree", None)
        (place / "tree" / "out" / "closed").mkdir(mode=0)
        (place / "tree" / "out" / "file").touch()
        usage = measure_usage(place / "tree")
        os.chmod(place / "tree" / "out" / "closed", 0o700)
        assert usage.files == 6

    as_ordinary_user(tmp_path, count)


def test_nothing_holds_nothing(tmp_path: Path) -> None:
    assert measure_usage(tmp_path / "gone") == WorkspaceUsage(0, 0)


def test_a_passed_limit_is_named() -> None:
    quota = Quota(max_bytes=10, max_files=2)
    assert quota.describe_excess(WorkspaceUsage(10, 2)) == ""
    assert quota.describe_excess(WorkspaceUsage(11, 2)) == "the workspace has 11 bytes; the maximum is 10"
    assert quota.describe_excess(WorkspaceUsage(10, 3)) == "the workspace has 3 files and directories; the maximum is 2"


def test_a_disk_that_is_too_full_is_refused_with_what_to_do(tmp_path: Path) -> None:
    check_free_space(tmp_path, Quota(min_free_bytes=0))
    with pytest.raises(LimitExceeded, match=r"must stay free; free some space, for example with `openskills"):
        check_free_space(tmp_path, Quota(min_free_bytes=read_free_bytes(tmp_path) + (1 << 50)))
