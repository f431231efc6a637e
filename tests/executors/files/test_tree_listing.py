"""Which files match, and that looking for them can neither be led astray nor be made endless."""

import os
import socket
from pathlib import Path

import pytest

from openskills.executors.files.globs import compile_globs
from openskills.executors.files.tree import list_files, list_files_if_few
from openskills.executors.spec import WorkspaceListing
from tests.executors.hostile_files import deep


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("out/deep", "work/inputs", "runs", "skills/pdf"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def found(root: Path, *globs: str, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
    descriptor = os.open(root, os.O_RDONLY)
    try:
        return list_files(descriptor, compile_globs(globs), since=since, limit=limit)
    finally:
        os.close(descriptor)


def paths(result: WorkspaceListing) -> list[str]:
    return [info.path for info in result.files]


def test_files_that_match_are_found_in_the_order_of_their_paths(root: Path) -> None:
    for name in ("out/b.txt", "out/a.txt", "out/deep/c.txt", "out/.hidden", "work/x.txt"):
        (root / name).write_text(name)
    result = found(root, "out/**")
    assert paths(result) == ["out/.hidden", "out/a.txt", "out/b.txt", "out/deep/c.txt"]
    assert result.files[1].size == len("out/a.txt")
    assert result.complete
    assert not result.skipped
    assert paths(found(root, "out/*.txt", "work/**")) == ["out/a.txt", "out/b.txt", "work/x.txt"]
    assert paths(found(root, "out/a.txt")) == ["out/a.txt"]
    assert paths(found(root, "out/none", "nowhere/**", "out/a.txt/x")) == []


def test_a_file_that_matches_two_patterns_is_found_once(root: Path) -> None:
    (root / "out/a.txt").touch()
    assert paths(found(root, "out/*", "out/*.txt", "**")) == ["out/a.txt"]


def test_a_file_that_is_arriving_is_not_found(root: Path) -> None:
    (root / "out/.arriving-12").touch()
    assert paths(found(root, "**", "out/.arriving-12", "out/.arriving-*")) == []


def test_links_and_special_files_are_named_and_not_opened(root: Path) -> None:
    (root / "out/link").symlink_to("/etc/passwd")
    (root / "out/tree").symlink_to("/etc")
    os.mkfifo(root / "out/fifo")
    server = socket.socket(socket.AF_UNIX)
    descriptor = os.open(root / "out", os.O_RDONLY)
    server.bind(f"/proc/self/fd/{descriptor}/socket")
    result = found(root, "out/**")
    server.close()
    os.close(descriptor)
    assert not result.files
    assert sorted(result.skipped) == [
        "out/fifo is a FIFO",
        "out/link is a link",
        "out/socket is a socket",
        "out/tree is a link",
    ]


def test_a_directory_that_became_a_link_is_not_entered(root: Path) -> None:
    (root / "out/deep").rmdir()
    (root / "out").rmdir()
    (root / "out").symlink_to("/etc")
    result = found(root, "out/**", "out/passwd")
    assert not result.files
    assert result.skipped == ("out is a link",)


def test_the_links_that_staging_makes_are_not_worth_a_word(root: Path) -> None:
    for name in ("out", "work", "inputs"):
        (root / "skills/pdf" / name).symlink_to(f"../../{name}")
    (root / "out/a").touch()
    result = found(root, "**")
    assert paths(result) == ["out/a"]
    assert not result.skipped


def test_a_name_that_is_not_utf8_is_said_and_loses_nothing_else(root: Path) -> None:
    (root / "out/\udcff.txt").touch()
    (root / "out/line\nbreak\x1b[31m").touch()
    result = found(root, "out/*")
    assert paths(result) == ["out/line\nbreak\x1b[31m"]
    assert result.skipped == ("out/\\xff.txt has a name that is not UTF-8",)


def test_looking_ends_at_the_limit(root: Path) -> None:
    for number in range(50):
        (root / f"out/{number:02}").touch()
    result = found(root, "out/**", limit=10)
    assert paths(result) == [f"out/{number:02}" for number in range(10)]
    assert not result.complete
    assert found(root, "out/**", limit=50).complete
    assert not found(root, "out/**", limit=0).files


def test_only_what_was_changed_since_is_found(root: Path) -> None:
    (root / "out/a").touch()
    stamp = (root / "out/a").stat().st_ctime_ns
    assert paths(found(root, "out/*", since=stamp)) == ["out/a"]
    assert paths(found(root, "out/*", since=stamp + 1)) == []


def test_directories_beyond_every_path_end_the_search_there(root: Path) -> None:
    (root / "out/z").touch()
    with deep(root / "out", 5_000):
        result = found(root, "out/**")
    assert paths(result) == ["out/z"]
    assert not result.complete
    assert "is too deep" in result.skipped[0]


def test_a_directory_that_no_pattern_needs_is_not_read(root: Path) -> None:
    (root / "work/sub").mkdir()
    (root / "work/sub/link").symlink_to("/")
    assert not found(root, "out/**", "work/*", "*/x").skipped
    assert found(root, "work/sub/*").skipped  # read, so it is named


def test_a_directory_with_very_many_files_is_looked_through(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    descriptor = os.open(tmp_path / "out", os.O_RDONLY)
    for number in range(20_000):
        os.close(os.open(str(number), os.O_CREAT, 0o600, dir_fd=descriptor))
    os.close(descriptor)
    assert len(found(tmp_path, "**/**/**/*", limit=100_000).files) == 20_000
    result = found(tmp_path, "out/**", limit=100)
    assert len(result.files) == 100
    assert not result.complete


def test_a_small_listing_is_the_same_and_one_that_takes_more_is_none(root: Path) -> None:
    for name in ("out/a", "out/deep/b", "work/c"):
        (root / name).touch()
    descriptor = os.open(root, os.O_RDONLY)
    try:
        for globs in (["out/**"], ["**/[ab]"], ["out/nothing"], ["work/*"]):
            whole = list_files(descriptor, compile_globs(globs), since=None, limit=2)
            assert list_files_if_few(descriptor, compile_globs(globs), since=None, limit=2, entries=20) == whole
        # The two names in out/, and the one in out/deep.
        assert list_files_if_few(descriptor, compile_globs(["out/**"]), since=None, limit=9, entries=3) is not None
        assert list_files_if_few(descriptor, compile_globs(["out/**"]), since=None, limit=9, entries=2) is None
    finally:
        os.close(descriptor)
