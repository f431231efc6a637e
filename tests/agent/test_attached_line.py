"""The line about files, written and read again."""

import pytest

from openskills.agent.attached_line import add_files_line, split_files_line

END = "; commands find the user's files in work/inputs/]"


def test_files_are_called_as_they_are_found_with_the_users_name_where_it_is_another() -> None:
    assert add_files_line("look", []) == "look"
    told = add_files_line("look", [("a.csv", "a.csv"), ("a_2.csv", "north/a.csv"), ("b.csv", "C:\\b.csv")])
    assert told == f'look\n\n[attached: a.csv, a_2.csv (north/a.csv), b.csv ("C:\\\\b.csv"){END}'
    assert split_files_line(told) == ("look", ("a.csv", "a_2.csv", "b.csv"))


@pytest.mark.parametrize(
    "name",
    ["a, b.csv", "a; b].csv", 'say "hi".txt', "(1).csv", "[x].csv", " a", "back\\slash", "数据，一.csv", "a (2).csv"],
)
def test_a_name_that_could_be_misread_is_read_as_it_was_written(name: str) -> None:
    told = add_files_line("look", [("first.csv", "x"), (name, name), ("last.csv", name)])
    assert split_files_line(told) == ("look", ("first.csv", name, "last.csv"))


def test_a_name_of_the_user_is_one_line_and_not_too_long() -> None:
    told = add_files_line("look", [("x.csv", "a\nb" * 500)])
    assert told.count("\n") == 2
    assert len(told) < 300
    assert split_files_line(told)[1] == ("x.csv",)


@pytest.mark.parametrize("text", ["", "hello", "[attached: ; commands find x]", '[attached: "; commands find x]'])
def test_any_text_is_taken(text: str) -> None:
    assert split_files_line(text)[1] in ((), ("",))
