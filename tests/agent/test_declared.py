"""Loads that a caller declares."""

import pytest

from openskills.agent.declared import Load, checked
from openskills.errors import InvalidArgument


def test_the_same_load_counts_once() -> None:
    assert checked([Load("a"), Load("a"), Load("b")], 0) == (Load("a"), Load("b"))


@pytest.mark.parametrize(
    ("loads", "said"),
    [
        ([Load(" ")], "without a name"),
        ([Load("a", ("x.md",), include_all_docs=True)], "one of them"),
        ([Load("a"), Load("a", ("x.md",))], "twice"),
        ([Load("a"), Load("b"), Load("c")], "more than the 2"),
    ],
)
def test_what_contradicts_itself_is_refused(loads: list[Load], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        checked(loads, 2)
