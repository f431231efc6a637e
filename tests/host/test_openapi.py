"""The host as an OpenAPI document.

What the host says of one skill.

Skills as tools for models.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import pytest

from openskills import errors
from openskills.errors import InvalidArgument
from openskills.host import openapi as parts
from openskills.host.http import build_document, build_refusal, host_starting, new_trace
from openskills.host.model import Registration
from openskills.host.openapi import ERRORS, TOOL_FORMATS, build_openapi, build_tools, describe_skill
from openskills.host.registry.registry import RegistryEntry
from openskills.settings import Settings
from openskills.skillmd.problem import Problem

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
    return build_openapi(registrations, url="http://127.0.0.1:8000", keys_needed=keys_needed)


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
def test_whether_a_key_is_needed_is_reported(needed: bool) -> None:
    found = document(keys_needed=needed)
    assert ("security" in found) is needed
    assert found["paths"]["/healthz"]["get"]["security"] == []


def test_a_document_without_skills_is_one_too() -> None:
    assert document()["openapi"].startswith("3.1")


START = Path("/srv/host")
SETTINGS = Settings.from_env({})


def registration(**more: Any) -> Registration:
    found = Registration("echo", "cli:python", "/srv/host/skills_cli/echo.py", "0.1.0")
    return replace(found, **more)


def test_paths_of_the_machine_are_not_told() -> None:
    entry = RegistryEntry(
        "echo", registration(allowed_root=Path("/elsewhere/data")), origin=START / "skills_cli/echo.yaml"
    )
    told = describe_skill(entry, START, SETTINGS)
    assert (told["entry"], told["allowed_root"], told["origin"]) == (
        "skills_cli/echo.py",
        "data",
        "skills_cli/echo.yaml",
    )
    assert "/srv" not in str(told)


def test_values_of_variables_and_secrets_are_not_told() -> None:
    entry = RegistryEntry("echo", registration(environment={"MODE": "hunter22"}, secrets=("TOKEN",)))
    told = describe_skill(entry, START, SETTINGS)
    assert (told["env"], told["secrets"]) == (["MODE"], ["TOKEN"])
    assert "hunter22" not in str(told)


def test_a_broken_skill_is_reported_with_its_problems_only() -> None:
    problem = Problem("entry-missing", "entry: /srv/host/skills_cli/x.py is not there", line=3, path="/srv/host/a.yaml")
    told = describe_skill(
        RegistryEntry("x", None, (problem,), "broken", START / "a.yaml"), START, Settings.from_env({})
    )
    assert told == {
        "id": "x",
        "status": "broken",
        "origin": "a.yaml",
        "problems": [
            {
                "rule": "entry-missing",
                "severity": "error",
                "message": "entry: skills_cli/x.py is not there",
                "line": 3,
                "file": "a.yaml",
            }
        ],
    }


SCHEMA: dict[str, Any] = {"properties": {"query": {"type": "string"}}, "required": ["query"]}
TOOL_EXPORT_SEARCH = Registration("file_search", "cli:python", "x", "0.1.0", "Finds files.", input_schema=SCHEMA)
PLAIN = Registration("plain", "inproc", "a:b", "0.1.0", output_schema={"type": "object"})
WHOLE = {"type": "object", **SCHEMA}


def test_each_form_is_what_its_vendor_takes() -> None:
    assert build_tools([TOOL_EXPORT_SEARCH], "openai") == [
        {"type": "function", "name": "file-search", "description": "Finds files.", "parameters": WHOLE, "strict": False}
    ]
    assert build_tools([TOOL_EXPORT_SEARCH], "openai-chat") == [
        {
            "type": "function",
            "function": {"name": "file-search", "description": "Finds files.", "parameters": WHOLE},
        }
    ]
    assert build_tools([TOOL_EXPORT_SEARCH], "anthropic") == [
        {"name": "file-search", "description": "Finds files.", "input_schema": WHOLE}
    ]
    assert build_tools([TOOL_EXPORT_SEARCH], "mcp") == [
        {"name": "file-search", "description": "Finds files.", "inputSchema": WHOLE}
    ]


def test_a_skill_without_a_schema_takes_any_object() -> None:
    assert build_tools([PLAIN], "mcp")[0]["inputSchema"] == {
        "type": "object",
        "properties": {},
        "additionalProperties": True,
    }
    assert build_tools([PLAIN], "mcp")[0]["outputSchema"] == {"type": "object"}


@pytest.mark.parametrize("form", TOOL_FORMATS)
def test_names_fit_what_models_may_be_told(form: str) -> None:
    for tool in build_tools([TOOL_EXPORT_SEARCH, PLAIN], form):
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool.get("function", tool)["name"])


def names(*ids: str, known: tuple[str, ...] = ()) -> list[str]:
    made = build_tools([Registration(each, "inproc", "a:b", "0.1.0") for each in ids], "mcp", known=known)
    return [tool["name"] for tool in made]


def test_two_skills_never_have_the_same_name() -> None:
    assert names("a_b", "a-b", "c_d") == ["a_b", "a-b", "c-d"]
    assert names("a_b-c", "a-b_c") == ["a_b-c", "a-b_c"]


def test_a_name_never_means_a_skill_that_is_not_among_the_tools() -> None:
    assert names("a_b", known=("a_b", "a-b")) == ["a_b"]
    assert names("a_b", known=("a_b", "c-d")) == ["a-b"]


def test_a_form_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidArgument, match="openai, openai-chat, anthropic, mcp"):
        build_tools([], "gemini")


SCHEMAS = {"schemas": {"Result": parts.RESULT_SCHEMA, "Error": parts.ERROR_SCHEMA, "Failure": parts.FAILURE_SCHEMA}}


def test_every_code_of_our_errors_is_documented() -> None:
    known = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SkillError)]
    assert {kind.code for kind in known} <= set(parts.ERRORS)


@pytest.mark.parametrize(
    ("name", "body"),
    [("Result", build_document({}, new_trace()).body), ("Failure", build_refusal(host_starting(), new_trace()).body)],
)
def test_what_the_host_answers_is_what_the_schemas_say(name: str, body: bytes) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": SCHEMAS}
    jsonschema_rs.validator_for(schema, offline=True).validate(orjson.loads(body))


def test_a_success_is_not_a_failure() -> None:
    schema = {"$ref": "#/components/schemas/Failure", "components": SCHEMAS}
    assert not jsonschema_rs.validator_for(schema, offline=True).is_valid(
        orjson.loads(build_document({}, new_trace()).body)
    )


def test_answers_that_ask_to_come_back_say_when() -> None:
    responses = parts.failure_responses()
    assert "Retry-After" in responses["429"]["headers"]
    assert "Retry-After" not in responses["400"]["headers"]
    assert set(parts.failure_references(400, 401)) == {"400", "401"}
    document = parts.build_openapi((), url="http://127.0.0.1", keys_needed=False)
    assert set(document["components"]["parameters"]) == {"TraceId", "IdempotencyKey", "Mode"}
