import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from openskills.executors.bubblewrap.backend import REACH_PROGRAM
from tests.conftest import needs_root

as_root = needs_root("only root can")


def entered(covers: list[Path], directories: list[Path], *argv: str) -> subprocess.CompletedProcess[str]:
    lists = (json.dumps([str(path) for path in paths]) for paths in (covers, directories))
    command = [sys.executable, "-I", "-S", str(REACH_PROGRAM), *lists, *argv]
    return subprocess.run(command, capture_output=True, text=True)


@as_root
def test_what_is_covered_is_gone_but_for_what_is_shown_and_only_inside(tmp_path: Path) -> None:
    (tmp_path / "shown" / "deep").mkdir(parents=True)
    (tmp_path / "beside").write_text("x")
    done = entered([tmp_path], [tmp_path / "shown"], "/bin/ls", "-R", str(tmp_path))
    assert "deep" in done.stdout
    assert "beside" not in done.stdout
    assert (tmp_path / "beside").exists()


@as_root
def test_mounts_that_have_nothing_to_do_with_it_are_left_out() -> None:
    done = entered([], [Path("/usr")], "/bin/cat", "/proc/self/mountinfo")
    points = [line.split()[4] for line in done.stdout.splitlines()]
    assert "/proc" in points
    assert not [point for point in points if point.startswith(("/sys", "/dev/shm"))]
    assert {point for point in ("/dev", "/dev/pts") if os.path.ismount(point)} <= set(points)


@as_root
@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="there is no shared memory")
def test_a_directory_in_shared_memory_stays() -> None:
    with TemporaryDirectory(dir="/dev/shm") as directory:
        Path(directory, "file").touch()
        assert entered([], [Path(directory)], "/bin/ls", directory).stdout == "file\n"


@as_root
def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = entered([tmp_path], [tmp_path / "missing"], "/bin/true")
    assert done.returncode == 1
    assert "missing" in done.stderr
