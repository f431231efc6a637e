"""Inputs and outputs of skills against the schemas of their manifests."""

from typing import Any

import pytest

from openskills.errors import InvalidSkill
from openskills.host.registration import Registration
from openskills.host.schemas import MOST_FAULTS, Checks

NUMBERS: dict[str, Any] = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "number"}, "minItems": 1}},
    "required": ["numbers"],
    "additionalProperties": False,
}


def checks(**schemas: Any) -> Checks:
    return Checks(Registration("calculator", "inproc", "x:y", "0.1.0", **schemas))


def test_an_input_that_fits_is_let_through() -> None:
    assert checks(input_schema=NUMBERS).of_input({"numbers": [1, 2.5]}) is None


def test_without_schemas_everything_is_let_through() -> None:
    assert checks().of_input({"a": 1}) is None
    assert checks().of_output({"a": 1}) is None


def test_a_fault_names_the_place_and_the_rule() -> None:
    failure = checks(input_schema=NUMBERS).of_input({"numbers": [1, "two"]})
    assert failure is not None
    assert (failure.code, failure.details["reason"], failure.details["field"]) == (
        400,
        "INVALID_ARGUMENT",
        "input.numbers[1]",
    )
    assert failure.message == 'input.numbers[1]: "two" is not of type "number"'
    assert failure.details["errors"][0]["rule"] == "type"


def test_every_fault_is_told_up_to_a_limit() -> None:
    failure = checks(input_schema=NUMBERS).of_input({"numbers": ["x"] * 100, "more": 1})
    assert failure is not None
    assert len(failure.details["errors"]) == MOST_FAULTS


def test_a_value_of_megabytes_is_not_repeated() -> None:
    failure = checks(input_schema=NUMBERS).of_input({"numbers": "x" * 1_000_000})
    assert failure is not None
    assert len(failure.message) < 500


def test_data_that_breaks_the_skills_own_contract_is_a_bad_output() -> None:
    failure = checks(output_schema=NUMBERS).of_output({"numbers": []})
    assert failure is not None
    assert (failure.code, failure.details["reason"]) == (502, "BAD_SKILL_OUTPUT")


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:1/schema.json"}, {"pattern": "("}])
def test_a_schema_that_is_none_or_is_elsewhere_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidSkill, match="calculator: input_schema is no JSON schema"):
        checks(input_schema=schema)
