"""The table of programs that start others."""

import pytest

from openskills.executors.policy import is_wrapper
from openskills.executors.policy_programs import AWKS, EXEC_PROGRAMS, INTERPRETERS, LANGUAGES, list_names


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("python3.11", "python"),
        ("python3.11-dbg", "python"),
        ("perl5.36-x86_64-linux-gnu", "perl"),
        ("lua5.4", "lua"),
        ("vim.basic", "vim"),
        ("nc.openbsd", "nc"),
        ("R", "r"),
        ("sqlite3", "sqlite3"),
    ],
)
def test_a_program_is_known_with_its_version_and_its_variant(name: str, known: str) -> None:
    assert known in list_names(name)


@pytest.mark.parametrize("name", ["dc3dd", "man2html", "less.py", "git-lfs", "7z", "awkward"])
def test_a_name_that_only_begins_like_another_is_another_program(name: str) -> None:
    assert list_names(name) == (name,)


def test_a_program_is_in_one_part_of_the_table_only() -> None:
    parts = [set(INTERPRETERS), set(EXEC_PROGRAMS), set(LANGUAGES), set(AWKS), {"sed", "sqlite3"}]
    names = [name for part in parts for name in part]
    assert len(names) == len(set(names))
    assert not [name for name in names if is_wrapper(name)]
    assert all(name == name.casefold() for name in names)


def test_an_option_that_starts_something_is_not_at_the_same_time_one_with_a_harmless_value() -> None:
    everything = [*EXEC_PROGRAMS.values(), *(one.code for one in INTERPRETERS.values())]
    everything += [after for one in everything for after in one.subcommands.values() if after is not None]
    assert not [one for one in everything if set(one.letters) & set(one.valued + one.attached)]
    assert not [one for one in INTERPRETERS.values() if not set(one.file) <= set(one.code.valued)]
