import pytest

from openskills.executors.processes.hints import Interaction, interaction


@pytest.mark.parametrize(
    "output",
    [
        "What is your name?",
        "What is your name? ",
        "Password:",
        "some log\nName: ",
        "Name:\n\n\n",
        "Press ENTER to continue",
        "Type your answer and go on",
        "Overwrite it [y/N] ",
        "Are you sure (yes/no)",
        "\x1b[1;32mName:\x1b[0m \x1b[K",
        "\x1b]0;a title\x07Name: ",
        "10%\r20%\r\x1b[KReally?",
        "Name:\r\n",
        "Python 3.11\r\n>>> ",
        "\x1b[?2004huser@host:~$ ",
    ],
)
def test_a_question_is_a_prompt(output: str) -> None:
    found = interaction(output)
    assert found is not None
    assert (found.kind, found.needs_input) == ("prompt", True)


@pytest.mark.parametrize(
    "output",
    [
        "Enter the number of your choice",
        "please CHOOSE A NUMBER",
        "Select a number (1-3) ",
        "1. red\n2. blue\n",
        "Pick one\n 1) red\n 2) blue\n> ",
        "\x1b[1m9)\x1b[0m nine\n10) ten\nYour choice:",
    ],
)
def test_a_numbered_list_is_a_selection(output: str) -> None:
    found = interaction(output)
    assert found is not None
    assert found.kind == "selection"


@pytest.mark.parametrize(
    "output",
    [
        "",
        " \r\n\t\n",
        "\x1b[2J\x1b[H",
        "done\n",
        "Name: \nworking\n",
        "1. only one\n",
        "3.14 and\n2.72\n",
        "a -> b\n$ ls\n-> c> \nfinished",
        "50%\rName: \rdone",
        "\x1b[c\x1b[6n",
        "\x1b]52;c;?\x07",
    ],
)
def test_what_asks_nothing_is_no_prompt(output: str) -> None:
    assert interaction(output) is None


def test_the_hint_is_the_line_without_anything_a_terminal_would_obey() -> None:
    found = interaction("one\n\x1b[31mYour\x07 name\x1b[0m:\x1b]0;evil\x07 ")
    assert found == Interaction("prompt", "Your name:")


def test_a_long_line_gives_a_short_hint() -> None:
    found = interaction("x" * 1_000_000 + "?")
    assert found is not None
    assert len(found.hint) == 200


@pytest.mark.parametrize("unit", ["\x1b[", "\x1b]", "\x1b[0;", "\r", "\n", " ", "1.", "\x1b", "\x1b[999999", "a\n"])
def test_a_megabyte_of_anything_is_judged_by_its_end(unit: str) -> None:
    hostile = unit * (1_000_000 // len(unit))
    assert interaction(hostile + "\nName: ") is not None
    assert interaction(hostile + "\nName: \nand on it goes\n") is None
