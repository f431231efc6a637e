"""Schemas are checked when a manifest is read."""

import pytest

from openskills.host.registry.fields import Fields
from openskills.host.registry.schema_fields import schema
from openskills.host.registry.yaml_text import read_document


def fields(text: str) -> Fields:
    return Fields(read_document(text.encode(), is_json=False))


def test_a_schema_has_the_types_that_yaml_means() -> None:
    found = fields("s:\n  type: object\n  properties: {n: {type: integer, minimum: 1}, w: {enum: ['1', no, true]}}\n")
    assert schema(found, "s") == {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}, "w": {"enum": ["1", "no", True]}},
    }
    assert found.problems == []


def test_no_schema_is_none_and_an_empty_one_allows_everything() -> None:
    assert schema(fields("a: 1"), "s") is None
    assert schema(fields("s: {}"), "s") == {}


@pytest.mark.parametrize(
    ("text", "complaint", "line"),
    [
        ("s:\n  type: objekt", "s: is no JSON schema at type", 2),
        (
            "s:\n  properties:\n    a: {minimum: x}",
            's: is no JSON schema at properties.a.minimum: "x" is not of type',
            3,
        ),
        ("s:\n  properties:\n    a: {pattern: '('}", "is no JSON schema at properties.a.pattern", 3),
        ("s: {$ref: '#/nowhere'}", "is no JSON schema", 1),
        ("s: {$ref: 'http://127.0.0.1:9/x.json'}", "is no JSON schema", 1),
        ("s: {$ref: 'file:///etc/passwd'}", "is no JSON schema", 1),
        ("s: {$schema: 'http://127.0.0.1:9/mine'}", "is no JSON schema", 1),
        ("s: [1]", "s: is a list; write a map", 1),
        ("s: true", "s: is true or false; write a map", 1),
    ],
)
def test_what_is_no_schema_is_told_with_its_place_and_nothing_is_fetched(text: str, complaint: str, line: int) -> None:
    found = fields(text)
    assert not schema(found, "s")
    (problem,) = (each for each in found.problems if each.severity == "error")
    assert complaint in problem.message
    assert problem.line == line
    assert len(problem.message) < 700


def test_a_schema_of_something_else_than_an_object_is_a_warning() -> None:
    found = fields("s: {type: array}")
    assert schema(found, "s") == {"type": "array"}
    assert [problem.rule for problem in found.problems] == ["schema-type"]


def test_a_schema_that_refers_to_itself_is_a_schema() -> None:
    found = fields("s: {$defs: {a: {$ref: '#/$defs/b'}, b: {$ref: '#/$defs/a'}}, $ref: '#/$defs/a'}")
    assert schema(found, "s")
    assert found.problems == []
