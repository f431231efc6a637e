import pytest

from openskills.skillmd.parse import parse
from openskills.skillmd.rules.rule import Subject, describe_type, finding_at_key, finding_at_value
from openskills.skillmd.yaml import Value


def subject_of(text: str) -> Subject:
    parsed = parse(text)
    assert parsed.manifest
    return Subject(parsed, parsed.manifest)


def test_a_finding_stands_at_the_value_or_the_key_it_is_about() -> None:
    subject = subject_of("---\nname: x\nmetadata: {a: b}\n---\n")
    assert (finding_at_value(subject, "name", "?").line, finding_at_value(subject, "name", "?").column) == (2, 7)
    found = finding_at_key(subject, "?", "metadata", "a")
    assert (found.line, found.column) == (3, 12)


def test_a_finding_about_what_is_missing_stands_where_it_would_belong() -> None:
    subject = subject_of("---\n\nmetadata: {a: b}\n---\n")
    assert (finding_at_value(subject, "name", "?").line, finding_at_value(subject, "name", "?").column) == (2, 1)
    found = finding_at_key(subject, "?", "metadata", "gone")
    assert (found.line, found.column) == (3, 1)


@pytest.mark.parametrize(("value", "words"), [(None, "empty"), ("", "text"), ([], "a list"), ({}, "a map")])
def test_a_value_is_called_by_what_it_is(value: Value, words: str) -> None:
    assert describe_type(value) == words
