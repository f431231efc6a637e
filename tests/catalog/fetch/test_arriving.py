"""What arrives appears whole or not at all."""

import os
import shutil
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from openskills.catalog.fetch.arriving import MONTH, alone, arriving, forget, found, scratch
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


def fill(parent: Path, *names: str, days: float = 0) -> None:
    then = time.time() - days * 24 * 3600
    for name in names:
        (parent / name / "skill").mkdir(parents=True)
        (parent / name / "skill" / "SKILL.md").write_text("x")
        os.utime(parent / name, (then, then))


def names_in(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.iterdir() if path.name != ".lock")


def test_what_nobody_used_for_a_month_is_removed_and_what_is_used_or_kept_stays(tmp_path: Path) -> None:
    fill(tmp_path, "used", "forgotten", "kept", days=40)
    fill(tmp_path, "recent", days=20)
    (tmp_path / "link").symlink_to(tmp_path / "used")
    os.utime(tmp_path / "link", (0, 0), follow_symlinks=False)
    assert found(tmp_path / "used") == tmp_path / "used" / "skill"
    forget(tmp_path, after=MONTH, keep=frozenset({"kept"}))
    assert names_in(tmp_path) == ["kept", "recent", "used"]
    assert (tmp_path / "used" / "skill" / "SKILL.md").exists()


def test_what_is_old_is_not_removed_while_somebody_looks_for_it(tmp_path: Path) -> None:
    fill(tmp_path, "old", days=40)
    with alone(tmp_path) as has_lock:
        assert has_lock
        removing = threading.Thread(target=forget, args=(tmp_path,), kwargs={"after": MONTH})
        removing.start()
        removing.join(0.05)
        assert removing.is_alive()
        os.utime(tmp_path / "old")
    removing.join()
    assert found(tmp_path / "old")


@pytest.mark.parametrize("emptied", ["x", "x/skill"])
def test_an_emptied_place_is_none_and_makes_way(emptied: str, tmp_path: Path) -> None:
    fill(tmp_path, "x")
    shutil.rmtree(tmp_path / emptied)
    (tmp_path / emptied).mkdir()
    assert found(tmp_path / "x") is None
    with arriving(tmp_path / "x") as temporary:
        fill(temporary, "again")
    assert found(tmp_path / "x") == tmp_path / "x" / "again"
    assert names_in(tmp_path) == ["x"]


def test_where_no_lock_can_be_had_nothing_is_removed_and_all_is_found(tmp_path: Path) -> None:
    fill(tmp_path, "x", "y", days=40)
    (tmp_path / ".lock").mkdir()
    assert found(tmp_path / "x")
    forget(tmp_path, after=MONTH)
    assert names_in(tmp_path) == ["x", "y"]


def test_scratch_is_gone_at_the_end(tmp_path: Path) -> None:
    with scratch(tmp_path / "a") as directory:
        (directory / "x").write_text("")
    assert list((tmp_path / "a").iterdir()) == []
