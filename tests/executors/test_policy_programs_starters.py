"""The table of programs that start others."""

import pytest

from openskills.executors.policy_programs import (
    FILTERS,
    INTERPRETERS,
    LANGUAGES,
    STARTING_WORDS,
    is_wrapper,
    list_names,
)


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
    parts = [INTERPRETERS, STARTING_WORDS.keys() - {"bun"}, LANGUAGES, FILTERS, {"sqlite3"}]
    names = [name for part in parts for name in part]
    assert len(names) == len(set(names))
    assert not [name for name in names if is_wrapper(name)]
    assert all(name == name.casefold() for name in names)
