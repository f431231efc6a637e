"""Checks of `doctor` that start no process."""

import sys
from pathlib import Path

from openskills.cli.doctor import DoctorCheck, run_checks
from openskills.settings import Settings


def found(tmp_path: Path, **variables: str) -> dict[str, DoctorCheck]:
    settings = Settings.from_env({"HOME": str(tmp_path), "PATH": str(tmp_path / "bin"), **variables})
    return {check.name: check for check in run_checks(settings)}


def test_programs_are_those_on_the_path_of_the_settings(tmp_path: Path) -> None:
    before = found(tmp_path)["git"]
    assert not before.ok
    assert before.fix == "on Debian: apt-get install git"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    after = found(tmp_path)["git"]
    assert after.ok
    assert after.detail.startswith(str(tmp_path / "bin" / "git"))


def test_a_directory_that_does_not_exist_yet_can_be_made(tmp_path: Path) -> None:
    check = found(tmp_path, OPENSKILL_CACHE_DIR=str(tmp_path / "a" / "b"))["cache"]
    assert (check.ok, check.required) == (True, True)
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_way_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = found(tmp_path, OPENSKILL_CACHE_DIR=str(tmp_path / "file" / "below"))["cache"]
    assert not check.ok
    assert str(tmp_path / "file") in check.detail
    assert "OPENSKILL_CACHE_DIR" in (check.fix or "")


def test_what_is_required_is_there_where_tests_run(tmp_path: Path) -> None:
    checked = found(tmp_path)
    assert all(check.ok for check in checked.values() if check.required)
    assert {"Python", "PyYAML", "libyaml", "httpx2", "watchfiles", "tokens"} <= set(checked)


def test_every_check_that_can_fail_says_what_to_do(tmp_path: Path) -> None:
    assert [name for name, check in found(tmp_path).items() if not check.ok and not check.fix] == []


def test_another_program_of_our_name_first_on_the_path_is_a_warning(tmp_path: Path) -> None:
    assert found(tmp_path)["command"].ok
    (tmp_path / "bin").mkdir()
    foreign = tmp_path / "bin" / "openskills"
    foreign.write_text("#!/bin/sh\n")
    foreign.chmod(0o755)
    check = found(tmp_path)["command"]
    assert (check.ok, check.required) == (False, False)
    assert f"comes first on the PATH: {foreign}" in check.detail
    assert "-m openskills" in (check.fix or "")


def test_a_link_to_our_command_is_ours(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "openskills").symlink_to(Path(sys.executable).parent / "openskills")
    assert found(tmp_path)["command"].ok
