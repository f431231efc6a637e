"""Temporary directories of hosts that live, that ended, and that were killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openskills.host.own_directory import PREFIX, OwnDirectory, remove_those_of_the_dead
from tests.conftest import needs_root
from tests.host.host_process import host_process
from tests.host.hosting import eventually

OWNER = """
import sys
from pathlib import Path
from openskills.host.own_directory import OwnDirectory
made = OwnDirectory(Path(sys.argv[1]))
(made.path / "deep" / "er").mkdir(parents=True)
(made.path / "deep" / "file").write_text("x")
print(made.path, flush=True)
sys.stdin.read()
"""


def killed(parent: Path) -> Path:
    """The directory of a process that was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        made = Path(owner.stdout.readline().decode().strip())
        assert remove_those_of_the_dead(parent) == 0
        assert made.is_dir()
        owner.kill()
    return made


def test_it_is_for_this_user_alone_and_goes_with_everything_in_it(tmp_path: Path) -> None:
    made = OwnDirectory(tmp_path)
    (made.path / "file").write_text("x")
    (whole,) = tmp_path.iterdir()
    assert whole.stat().st_mode & 0o777 == 0o700
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_killed_process_is_removed_and_of_a_living_one_is_not(tmp_path: Path) -> None:
    dead, living = killed(tmp_path), OwnDirectory(tmp_path)
    assert remove_those_of_the_dead(tmp_path) == 1
    assert not dead.parent.exists()
    assert living.path.is_dir()
    living.remove()


def test_a_living_host_keeps_its_directory_when_a_skill_has_cleared_it(tmp_path: Path) -> None:
    living = OwnDirectory(tmp_path)
    living.path.rmdir()
    assert remove_those_of_the_dead(tmp_path) == 0
    (whole,) = tmp_path.iterdir()
    assert (whole / "lease").exists()
    living.remove()


def test_what_nobody_has_signed_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}old").mkdir()
    (tmp_path / f"{PREFIX}begun").mkdir()
    (tmp_path / f"{PREFIX}begun" / "lease").touch()
    (tmp_path / f"{PREFIX}file").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "lease").write_text("1")
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "other")
    before = sorted(tmp_path.rglob("*"))
    assert remove_those_of_the_dead(tmp_path) == 0
    assert sorted(tmp_path.rglob("*")) == before


@needs_root("only root can make something somebody else's")
@pytest.mark.parametrize("part", [".", "lease"])
def test_what_belongs_to_another_user_is_left_alone(tmp_path: Path, part: str) -> None:
    whole = killed(tmp_path).parent
    os.chown(whole / part, 65534, 65534)
    assert remove_those_of_the_dead(tmp_path) == 0
    assert whole.is_dir()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_host_that_starts_removes_the_homes_of_one_that_was_killed(tmp_path: Path, workers: str) -> None:
    temporary = tmp_path / "temporary"
    for directory in (temporary, tmp_path / "a", tmp_path / "b", tmp_path / "c"):
        directory.mkdir()
    with host_process(tmp_path / "a", "--workers", workers, TMPDIR=str(temporary)) as first:
        assert first.invoke("echo", {"text": "x"}).status_code == 200
        left = set(temporary.glob(f"{PREFIX}*"))
        assert left
        first.process.kill()
        first.process.wait(60)
    with host_process(tmp_path / "b", TMPDIR=str(temporary)) as second:
        assert second.invoke("echo", {"text": "x"}).status_code == 200
        eventually(lambda: not left & set(temporary.glob(f"{PREFIX}*")), 30)
        living = set(temporary.glob(f"{PREFIX}*"))
        assert living
        with host_process(tmp_path / "c", TMPDIR=str(temporary)) as third:
            assert third.invoke("echo", {"text": "x"}).status_code == 200
            assert living <= set(temporary.glob(f"{PREFIX}*"))
    assert set(temporary.glob(f"{PREFIX}*")) == set()
