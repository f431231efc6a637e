"""Manifests in JSON are read strictly."""

import pytest

from openskills.host.registry.document import plain
from openskills.host.registry.json_text import read_json


def test_values_keep_the_types_of_json_and_have_lines() -> None:
    document = read_json('{"id": "x",\n "timeout_ms": 5, "input_schema": {"enum": [true, null, 1.5, "1"]}}')
    assert {name: plain(node) for name, node in document.fields.items()} == {
        "id": "x",
        "timeout_ms": 5,
        "input_schema": {"enum": [True, None, 1.5, "1"]},
    }
    assert document.places["timeout_ms",] == (2, 16)


def test_json_that_is_no_yaml_is_read_without_lines() -> None:
    document = read_json('{\n\t"id":\t"\\ud83d\\ude00"}')
    assert plain(document.fields["id"]) == "😀"
    assert document.places == {}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "json-syntax"),
        ("{", "json-syntax"),
        ('{"a": 1} x', "json-syntax"),
        ("[1]", "manifest-mapping"),
        ("5", "manifest-mapping"),
        ('{"a": NaN}', "json-number"),
        ('{"a": -Infinity}', "json-number"),
        ('{"a": 1e999}', "json-number"),
        ('{"a": ' + "9" * 5000 + "}", "json-number"),
        ('{"a": 1, "a": 2}', "key-twice"),
        ('{"a": {"b": 1, "b": 1}}', "key-twice"),
        ('{"a": "\\ud800"}', "text-surrogate"),
        ('{"\\udfff": 1}', "text-surrogate"),
        ('{"a": ' + "[" * 40 + "]" * 40 + "}", "json-depth"),
        ("[" * 200_000, "json-depth"),
        ('{"a": [' + "1," * 11_000 + "1]}", "json-keys"),
    ],
)
def test_what_json_does_not_allow_or_a_manifest_cannot_need_is_one_problem(text: str, rule: str) -> None:
    document = read_json(text)
    assert [problem.rule for problem in document.problems] == [rule]
    assert not document.fields


def test_a_fault_of_syntax_has_its_line() -> None:
    (problem,) = read_json('{\n"a": 1,\n]').problems
    assert (problem.line, problem.column) == (3, 1)
