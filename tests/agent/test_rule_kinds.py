"""What the words of a command are examples of."""

import pytest

from openskills.agent.rule_kinds import Kind, is_placeholder, slots_of, takes_files


def kinds(command: str) -> list[tuple[Kind, str]]:
    """Everything in a command that is not plain."""
    return [(slot.kind, " ".join(slot.examples)) for slot in slots_of(command) if slot.kind is not Kind.PLAIN]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python3 scripts/a.py table.csv --output r.md", [(Kind.FILE, "table.csv"), (Kind.OUTPUT, "r.md")]),
        ("python3 a.py count notes.txt", [(Kind.FILE, "notes.txt")]),
        ("python3 a.py invoice-reader", [(Kind.WORD, "invoice-reader")]),
        ("python3 a.py 5 mile km", [(Kind.NUMBERS, "5"), (Kind.WORD, "mile"), (Kind.WORD, "km")]),
        ("python3 a.py 'x^2 = 4' \"sqrt(2)\"", [(Kind.FORMULA, "'x^2 = 4' \"sqrt(2)\"")]),
        ("python3 a.py 'two words' --top 20", [(Kind.TEXT, "'two words'"), (Kind.VALUE, "20")]),
        ("python3 a.py -- -40 F C", [(Kind.NUMBERS, "-40"), (Kind.WORD, "F"), (Kind.WORD, "C")]),
        ("python3 a.py part.001 part.002", [(Kind.FILE, "part.001 part.002")]),
        ("python3 a.py FILE... <who>", [(Kind.FILE, "FILE..."), (Kind.UNKNOWN, "<who>")]),
        ("python3 a.py a.csv | head -n 3 b.csv", [(Kind.FILE, "a.csv")]),
        ("./scripts/a.sh references/x.md out/y $OUTPUT_DIR/z", []),
        ("", []),
    ],
)
def test_each_word_is_an_example_of_something_or_plain(command: str, found: list[tuple[Kind, str]]) -> None:
    assert kinds(command) == found


def test_commands_for_files_are_known() -> None:
    assert takes_files("python3 a.py --input=t.csv")
    assert not takes_files("python3 a.py 1 2 3")


def test_placeholders_are_told_from_examples() -> None:
    assert is_placeholder("<file>")
    assert is_placeholder("FILE...")
    assert not is_placeholder("file.csv")
