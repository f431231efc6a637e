"""Tests that need a program beyond Python say so, and never skip in CI; expensive tests run first."""

from pathlib import Path

import pytest

from tests.conftest import RequireProgram, find_program, has_room, not_tested, package_of
from tests.order import GROUPS, Group, order_tests


def test_a_program_that_is_there_is_given_with_its_path(require_program: RequireProgram) -> None:
    assert Path(require_program("git")).name == "git"


def test_a_missing_program_skips_with_the_package_to_install(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="'git'; on Debian: apt-get install git"):
        find_program("git", search_path=str(tmp_path), ci=False)


def test_a_missing_program_fails_in_ci(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="CI=true"):
        find_program("git", search_path=str(tmp_path), ci=True)


def test_a_program_that_ci_would_not_install_is_refused() -> None:
    with pytest.raises(LookupError, match=r"scripts/system-packages\.sh"):
        package_of("bwrap", "git:git\n")
    assert package_of("bwrap", "git:git\nbwrap:bubblewrap\n") == "bubblewrap"


def test_the_summary_names_each_missing_program_once_and_counts_what_only_root_can_do(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception) as missing:
        find_program("git", search_path=str(tmp_path), ci=False)
    reason = str(missing.value)
    assert not_tested([reason, "Skipped: needs root: to mount", reason, "Skipped: no Landlock here"]) == [
        "not tested, because the program git is missing: 2 tests (Debian: apt-get install git)",
        "not tested, because only root can: 1 test",
    ]
    assert not_tested([]) == []


def test_memory_is_used_for_temporary_files_only_where_there_is_enough(tmp_path: Path) -> None:
    assert has_room(str(tmp_path), 1)
    assert not has_room(str(tmp_path), 2**62)
    assert not has_room(str(tmp_path / "missing"), 1)


def test_a_group_is_at_the_beginning_of_the_part_of_one_worker() -> None:
    tests = [f"{letter}{number}" for letter in "abcd" for number in range(3)]
    groups = (Group(1, ("d",)), Group(9, ("b",)))
    assert order_tests(tests, 2, str, groups) == [
        *("b0", "b1", "b2", "a0", "a1", "a2"),
        *("d0", "d1", "d2", "c0", "c1", "c2"),
    ]


@pytest.mark.parametrize("workers", [1, 2, 5, 40])
def test_every_test_is_run_once_for_every_number_of_workers(workers: int) -> None:
    tests = [f"{letter}{number}" for letter in "abcde" for number in range(7)]
    groups = tuple(Group(seconds, (letter,)) for seconds, letter in enumerate("edc"))
    assert sorted(order_tests(tests, workers, str, groups)) == tests


def test_every_group_has_tests() -> None:
    tests = Path(__file__).parent
    files = [path.relative_to(tests.parent).as_posix() for path in tests.rglob("test_*.py")]
    assert not [path for group in GROUPS for path in group.paths if not any(file.startswith(path) for file in files)]
