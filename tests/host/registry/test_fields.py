"""Fields with their types, and what is said about wrong ones."""

import re
from collections.abc import Callable

import pytest

from openskills.host.registry.fields import VARIABLE, Fields
from openskills.host.registry.yaml_text import read_document


def fields(text: str, *, is_json: bool = False) -> Fields:
    return Fields(read_document(text.encode(), is_json=is_json))


def messages(found: Fields) -> list[str]:
    return [problem.message for problem in found.problems]


def test_right_values_are_read_and_absent_or_null_ones_have_their_default() -> None:
    found = fields("t: 1.0\nw: b\nn: 5\nf: false\nl: 2K\nnames: [A, B, A]\nenv: {X: 1, Y: yes}\nnull_: ~\n")
    assert found.text("t") == "1.0"
    assert found.word("w", ("a", "b"), "a") == "b"
    assert found.whole("n", 1, 1, 9) == 5
    assert found.flag("f", True) is False
    assert found.limit("l", None, most=5000) == 2048
    assert found.names("names", VARIABLE, "name") == ("A", "B")
    assert found.texts("env") == {"X": "1", "Y": "yes"}
    assert (found.text("null_", "d"), found.whole("absent", 3, 1, 9), found.flag("absent", True)) == ("d", 3, True)
    assert (found.limit("absent", 7, most=9), found.limit("null_", 7, most=9)) == (7, None)
    assert found.is_null("null_")
    assert not found.is_null("absent")
    assert messages(found) == []


WRONG: list[tuple[str, Callable[[Fields], object], object, str]] = [
    ("x: [1]", lambda found: found.text("x", "d"), "d", "x: is a list; write text"),
    ("x: {a: 1}", lambda found: found.text("x", "d"), "d", "x: is a map; write text"),
    ("x: aaaa", lambda found: found.text("x", "d", longest=3), "d", "x: is longer than 3 characters"),
    (
        "x: ba",
        lambda found: found.word("x", ("bar", "foo"), "foo"),
        "foo",
        "'ba' is not one of bar, foo; did you mean bar",
    ),
    ("x: A", lambda found: found.matching("x", "[a-z]", "small letter", "d"), "d", "x: 'A' is no small letter"),
    ("x: -5", lambda found: found.whole("x", 2, 1, 9), 2, "x: -5 is no whole number from 1 to 9"),
    ("x: '5'", lambda found: found.whole("x", 2, 1, 9), 2, "x: '5' is no whole number"),
    ("x: 5.0", lambda found: found.whole("x", 2, 1, 9), 2, "x: 5.0 is no whole number"),
    ("x: true", lambda found: found.whole("x", 2, 1, 9), 2, "x: true is no whole number"),
    ("x: [5]", lambda found: found.whole("x", 2, 1, 9), 2, "x: a list is no whole number"),
    ("x: yes", lambda found: found.flag("x", False), False, "x: 'yes' is neither true nor false"),
    ("x: 1", lambda found: found.flag("x", False), False, "x: 1 is neither true nor false"),
    ("x: 0", lambda found: found.limit("x", 2, most=9), 2, "x: 0 is no number from 1 to 9"),
    ("x: 1Q", lambda found: found.limit("x", 2, most=9), 2, "x: '1Q' is no number from 1 to 9"),
    ("x: 1K", lambda found: found.limit("x", 2, most=9), 2, "x: '1K' is no number from 1 to 9"),
    ("x: true", lambda found: found.limit("x", 2, most=9), 2, "x: true is no number"),
    ("x: A", lambda found: found.names("x", VARIABLE, "name"), (), "x: is text; write a list of names"),
    ("x: [1A]", lambda found: found.names("x", VARIABLE, "name"), (), "x: '1A' is no name"),
    ("x: [[A]]", lambda found: found.names("x", VARIABLE, "name"), (), "x: a list is no name"),
    ("x: [A]", lambda found: found.texts("x"), {}, "x: is a list; write a map"),
    ("x: {1A: v}", lambda found: found.texts("x"), {}, "x: '1A' is no name of a variable"),
    ("x: {A: [v]}", lambda found: found.texts("x"), {}, "x: A is a list; write text"),
]


@pytest.mark.parametrize(("text", "read", "default", "complaint"), WRONG)
def test_a_wrong_value_is_a_problem_with_field_and_line_and_the_default_counts(
    text: str, read: Callable[[Fields], object], default: object, complaint: str
) -> None:
    found = fields(f"# first line\n{text}")
    assert read(found) == default
    (problem,) = found.problems
    assert complaint in problem.message
    assert problem.line == 2


def test_numbers_of_json_are_no_text() -> None:
    found = fields('{"version": 1.0}', is_json=True)
    assert found.text("version", "d") == "d"
    assert messages(found) == ["version: is a number; write text"]


def test_a_list_without_end_is_refused() -> None:
    found = fields("x: [" + "A," * 300 + "]")
    assert found.names("x", VARIABLE, "name") == ()
    assert "has 300 items" in messages(found)[0]


def test_what_stands_where_the_name_of_a_secret_belongs_is_not_repeated() -> None:
    found = fields("secrets: [GOOD, TOKEN=hunter2, sk-hunter2, {KEY: hunter2}]")
    assert found.names("secrets", VARIABLE, "name of a variable", secret=True) == ("GOOD",)
    assert [re.sub(r"\d", "N", message) for message in messages(found)] == [
        "secrets: item N is no name of a variable"
    ] * 3
    assert "hunter2" not in str(found.problems)


def test_an_unknown_field_is_a_warning_with_the_nearest_name() -> None:
    found = fields("timout_ms: 5\n" + "z" * 500 + ": 1\n")
    found.unknown(("timeout_ms", "entry"))
    assert messages(found)[0] == "timout_ms: is no field of a manifest and is ignored; did you mean timeout_ms?"
    assert len(messages(found)[1]) < 200
    assert {problem.severity.value for problem in found.problems} == {"warning"}


def test_fields_below_a_map_say_so() -> None:
    document = read_document(b"limits:\n  processes: none\n", is_json=False)
    found = Fields(document, "limits")
    found.limit("processes", 1, most=5)
    assert str(found.problems[0]).startswith(":2:14: error: limits.processes: 'none' is no number")


def test_nothing_is_below_what_is_no_map() -> None:
    found = Fields(read_document(b"limits: 5\n", is_json=False), "limits")
    assert found.limit("processes", 3, most=5) == 3
