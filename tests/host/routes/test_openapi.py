"""The host as an OpenAPI document."""

from typing import Any

import jsonschema_rs
import pytest

from openskills.host.registration import Registration
from openskills.host.routes.openapi import openapi
from openskills.host.routes.openapi_parts import ERRORS

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/tree"}, "self": {"$ref": "#"}},
    "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
}
SEARCH = Registration(
    "file_search",
    "cli:python",
    "x",
    "0.1.0",
    "Finds files.",
    input_schema={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    output_schema={"type": "object", "required": ["matches"]},
)
WALK = Registration("walk-tree", "inproc", "a:b", "0.1.0", input_schema=TREE)


def document(*registrations: Registration, keys_needed: bool = False) -> dict[str, Any]:
    return openapi(registrations, url="http://127.0.0.1:8000", keys_needed=keys_needed)


def test_each_skill_has_a_path_with_its_own_input_and_its_own_name() -> None:
    found = document(SEARCH, WALK)
    invoke = found["paths"]["/skills/file_search:invoke"]["post"]
    assert (invoke["operationId"], invoke["description"]) == ("invoke_file_search", "Finds files.")
    body = invoke["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["input"] == {"$ref": "#/components/schemas/file_search.input"}
    assert found["components"]["schemas"]["file_search.input"]["required"] == ["query"]
    assert "/skills/walk-tree:stream" in found["paths"]


def test_names_of_operations_are_unique() -> None:
    operations = [each["operationId"] for path in document(SEARCH, WALK)["paths"].values() for each in path.values()]
    assert len(set(operations)) == len(operations)


def test_every_status_that_the_host_has_is_documented() -> None:
    responses = document(SEARCH)["paths"]["/skills/file_search:invoke"]["post"]["responses"]
    assert set(responses) == {"200", "202", "default", *map(str, ERRORS)}


def test_a_schema_that_refers_to_itself_means_the_same_in_the_document() -> None:
    found = document(WALK)
    schema = {**found["components"]["schemas"]["walk-tree.input"], "components": found["components"]}
    validator = jsonschema_rs.validator_for(schema, offline=True)
    values: list[Any] = [{"tree": [[], [[]]]}, {"tree": [1]}, {"self": {"tree": 1}}, {"self": {"self": {}}}]
    for value in values:
        assert validator.is_valid(value) == jsonschema_rs.validator_for(TREE).is_valid(value)


@pytest.mark.parametrize("needed", [True, False])
def test_whether_a_key_is_needed_is_told(needed: bool) -> None:
    found = document(keys_needed=needed)
    assert ("security" in found) is needed
    assert found["paths"]["/healthz"]["get"]["security"] == []


def test_a_document_without_skills_is_one_too() -> None:
    assert document()["openapi"].startswith("3.1")
