"""What arrives appears whole or not at all."""

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

import pytest

from openskills.catalog.fetch.arriving import arriving, in_use, keep_only, private, put
from openskills.errors import SourceUnavailable


def test_a_directory_appears_when_the_block_ends(tmp_path: Path) -> None:
    into = tmp_path / "cache" / "deep" / "x"
    with arriving(into) as temporary:
        (temporary / "a").write_text("1")
        assert not into.exists()
    assert (into / "a").read_text() == "1"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (into, into.parent, into.parent.parent)] == [0o700] * 3


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with suppress(KeyError), arriving(tmp_path / "x") as temporary:
        (temporary / "a").write_text("1")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_whoever_was_faster_wins(tmp_path: Path) -> None:
    with arriving(tmp_path / "x") as mine:
        (mine / "a").write_text("mine")
        with arriving(tmp_path / "x") as theirs:
            (theirs / "a").write_text("theirs")
    assert (tmp_path / "x" / "a").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_disk_that_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceUnavailable, match=r"cannot write to .*file/sub"), arriving(tmp_path / "file/sub/x"):
        pass


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    for data in (b"one", b"two"):
        put(tmp_path / "a", data)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"two")]


def test_everything_else_is_removed_except_what_is_on_its_way(tmp_path: Path) -> None:
    for name in ("keep", "old", ".arriving-x"):
        private(tmp_path / name / "sub")
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "keep")
    keep_only(tmp_path, {"keep"})
    assert {path.name for path in tmp_path.iterdir()} == {"keep", ".arriving-x"}
    assert (tmp_path / "keep" / "sub").is_dir()


def test_what_nobody_used_for_a_month_is_removed_and_what_is_in_use_stays(tmp_path: Path) -> None:
    long_ago = time.time() - 40 * 24 * 3600
    for name in ("used", "forgotten", "recent"):
        (tmp_path / name / "skill").mkdir(parents=True)
    for name in ("used", "forgotten"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    in_use(tmp_path / "used")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recent", "used"]
    in_use(tmp_path / "used")
    assert (tmp_path / "used" / "skill").is_dir()
