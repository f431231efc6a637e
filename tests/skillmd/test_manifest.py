""""""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.skillmd.manifest import (
    MAX_NAMES,
    NO_REQUIREMENTS,
    Requirements,
    read_requirements,
    read_tools,
    split_words,
)
from openskills.skillmd.yaml import Value
from tests.skillmd.strategies import relaxed


def test_requirements_right_in_the_metadata_are_read() -> None:
    found = read_requirements({"bins": "qpdf, pdftk", "env": ["API_KEY"], "os": "linux macos"})
    assert found == Requirements(bins=("qpdf", "pdftk"), env=("API_KEY",), platforms=("linux", "darwin"))


def test_requirements_under_a_client_and_under_requires_add_up_without_doubles() -> None:
    found = read_requirements(
        {
            "requires": {"bins": ["git"], "anyBins": ["rg", "grep"]},
            "openclaw": {
                "os": ["darwin", "win32"],
                "always": "true",
                "requires": {"bins": ["git", "op"], "env": "TOKEN"},
            },
        }
    )
    assert found == Requirements(("git", "op"), ("rg", "grep"), ("TOKEN",), ("darwin", "windows"), always=True)


def test_the_primary_variable_of_a_client_is_optional_unless_it_is_required() -> None:
    found = read_requirements({"openclaw": {"primaryEnv": "GH_TOKEN", "requires": {"env": ["A_KEY"]}}})
    assert (found.env, found.optional_env) == (("A_KEY",), ("GH_TOKEN",))
    both = read_requirements({"openclaw": {"primaryEnv": "A_KEY", "requires": {"env": ["A_KEY"]}}})
    assert (both.env, both.optional_env) == (("A_KEY",), ())


@pytest.mark.parametrize(
    "metadata", [{}, {"author": "x", "version": "1"}, {"client": {"emoji": "x"}}, {"requires": "x"}]
)
def test_metadata_that_asks_for_nothing_gives_no_requirements(metadata: dict[str, Value]) -> None:
    found = read_requirements(metadata)
    assert not found
    assert found == NO_REQUIREMENTS


def test_values_of_the_wrong_type_are_not_demands() -> None:
    assert not read_requirements({"bins": {"a": "b"}, "env": [["x"], None, " "], "os": None})


def test_words_are_read_from_text_and_from_lists() -> None:
    assert split_words("a, b  c") == ("a", "b", "c")
    assert split_words(["a b", " c "]) == ("a b", "c")
    assert split_words(None) == ()
    assert split_words({"a": "b"}) == ()


def test_words_that_name_no_variable_and_no_system_are_not_requirements() -> None:
    assert not read_requirements({"env": "production", "os": ["any"]})
    assert not read_requirements({"requires": {"env": ["bad name!", ""]}})
    assert read_requirements({"env": "API_KEY"}).env == ("API_KEY",)
    assert read_requirements({"requires": {"env": ["lower_case"]}}).env == ("lower_case",)


def test_demands_are_bounded() -> None:
    many = {"bins": " ".join(f"b{number}" for number in range(20_000))}
    assert len(read_requirements({"requires": many}).bins) == MAX_NAMES


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read Write", ("Read", "Write")),
        ("Read, Write,,\tEdit\n", ("Read", "Write", "Edit")),
        ("Bash(git commit *) Read", ("Bash(git commit *)", "Read")),
        ("Bash(a, b), mcp__x__y", ("Bash(a, b)", "mcp__x__y")),
        ("Bash(a (b c) d) Read", ("Bash(a (b c) d)", "Read")),
        ("Bash(git Read", ("Bash(git Read",)),
        (") Read (", (")", "Read", "(")),
        ("", ()),
        (["Read", "Bash(git *), Write", " ", None, ["x"]], ("Read", "Bash(git *)", "Write")),
        ({"Read": "x"}, ()),
        (None, ()),
    ],
)
def test_tools_are_split_at_blanks_and_commas_outside_parentheses(written: Value, tools: tuple[str, ...]) -> None:
    assert read_tools(written) == tools


@relaxed
@given(st.text(alphabet="ab(), \t"))
def test_reading_what_was_read_changes_nothing_and_no_letter_is_lost(text: str) -> None:
    tools = read_tools(text)
    assert "".join(tools).replace(" ", "").replace(",", "").replace("\t", "") == text.replace(" ", "").replace(
        ",", ""
    ).replace("\t", "")
    if text.count("(") == text.count(")"):
        assert read_tools(list(tools)) == tools
