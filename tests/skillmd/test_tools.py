import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.skillmd.tools import read_tools
from openskills.skillmd.value import Value
from tests.skillmd.strategies import relaxed


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
