import pytest

from openskills.executors.processes.character_width import width


@pytest.mark.parametrize(
    ("char", "cells"),
    [
        ("a", 1),
        ("é", 1),
        ("─", 1),
        ("漢", 2),
        ("ｱ", 1),
        ("Ａ", 2),
        ("한", 2),
        ("😀", 2),
        ("\u0301", 0),
        ("\u200d", 0),
        ("\ufe0f", 0),
        ("\u1161", 0),
        ("\xad", 1),
        ("\ufffd", 1),
    ],
)
def test_a_character_takes_as_many_cells_as_terminals_give_it(char: str, cells: int) -> None:
    assert width(char) == cells
