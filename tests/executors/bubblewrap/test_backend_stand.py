"""What all sandboxes of one maker share is found once, or what is missing is named with its fix."""

import os
import sys
from pathlib import Path

import pytest

from openskills.executors.bubblewrap.backend import SandboxTools

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap needs Linux")


def test_the_programs_are_found_on_the_search_path_and_in_the_system(tmp_path: Path) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\n")
    bwrap.chmod(0o755)
    stand = SandboxTools(str(tmp_path), ())
    assert stand.bwrap == str(bwrap)
    assert os.access(stand.setpriv, os.X_OK)
    stand.close()


def test_a_program_of_the_current_directory_is_not_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bwrap", "setpriv"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    stand = SandboxTools(".:", (), bwrap=Path("/bin/true"))
    assert Path(stand.setpriv).parent != tmp_path
    stand.close()


def test_a_chosen_bubblewrap_and_filter_are_taken(tmp_path: Path) -> None:
    stand = SandboxTools("", (tmp_path,), bwrap=Path("/bin/true"), rules=b"rules")
    assert stand.bwrap == "/bin/true"
    with os.fdopen(stand.filter.open_reader(), "rb") as rules:
        assert rules.read() == b"rules"
    assert stand.read_only == (tmp_path,)
    stand.close()


def test_closing_gives_the_descriptors_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    stand = SandboxTools("", (tmp_path,), bwrap=Path("/bin/true"))
    assert len(os.listdir("/proc/self/fd")) > before
    stand.close()
    assert len(os.listdir("/proc/self/fd")) == before
