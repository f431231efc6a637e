"""The pieces of the OpenAPI document that do not depend on the skills."""

import jsonschema_rs
import orjson
import pytest

from openskills import errors
from openskills.host import openapi as parts
from openskills.host.http import build_document, build_refusal, host_starting, new_trace

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


def test_a_success_is_no_failure() -> None:
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
