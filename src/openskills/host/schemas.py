"""Inputs and outputs of skills against the schemas of their manifests. Compiled once per registration. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs

from openskills.errors import BadSkillOutput, InvalidArgument, InvalidSkill
from openskills.host.registration import Registration
from openskills.host.result import Failure

MOST_FAULTS = 10
"""Faults of one value that are told."""
LONGEST = 300
"""Characters of what is told about one of them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one place of a value; `field` is where, as in `input.numbers[2]`."""

    field: str
    message: str
    rule: str

    def plain(self) -> dict[str, str]:
        """As the wire has it."""
        return {"field": self.field, "message": self.message, "rule": self.rule}


class Checks:
    """The compiled schemas of one registration."""

    __slots__ = ("_input", "_output")

    def __init__(self, registration: Registration) -> None:
        """Raises `InvalidSkill` for a schema that is none."""
        self._input = _compiled(registration.input_schema, registration.id, "input_schema")
        self._output = _compiled(registration.output_schema, registration.id, "output_schema")

    def of_input(self, value: Mapping[str, Any]) -> Failure | None:
        """What is wrong with an input; nothing if it may be given to the skill."""
        if self._input is None or self._input.is_valid(value):
            return None
        faults = tuple(_faults(self._input, value, "input"))
        return _failure(InvalidArgument.code, InvalidArgument.reason, faults[0].message, faults)

    def of_output(self, data: Mapping[str, Any]) -> Failure | None:
        """What is wrong with the data of a skill; nothing if it keeps its own contract."""
        if self._output is None or self._output.is_valid(data):
            return None
        faults = tuple(_faults(self._output, data, "data"))
        said = f"the skill answered with data that its output_schema does not allow: {faults[0].message}"
        return _failure(BadSkillOutput.code, BadSkillOutput.reason, said, faults)


def _compiled(schema: Mapping[str, Any] | None, skill: str, name: str) -> Any:
    if schema is None:
        return None
    try:
        # Offline: a `$ref` to somewhere else is refused and never fetched.
        return jsonschema_rs.validator_for(dict(schema), offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSkill(f"{skill}: {name} is no JSON schema: {_cut(str(error))}") from None


def _faults(validator: Any, value: Mapping[str, Any], root: str) -> Iterator[Fault]:
    for error in islice(validator.iter_errors(value), MOST_FAULTS):
        field = _place(root, error.instance_path)
        rule = str(error.schema_path[-1]) if error.schema_path else "schema"
        yield Fault(field, f"{field}: {_cut(error.message)}", rule)


def _place(root: str, path: Sequence[str | int]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return _cut(root + "".join(steps))


def _failure(code: int, reason: str, message: str, faults: Sequence[Fault]) -> Failure:
    details = {
        "reason": reason,
        "retryable": False,
        "field": faults[0].field,
        "errors": [fault.plain() for fault in faults],
    }
    return Failure(code, message, details)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
