"""The hosted skills as programs: stdin to stdout in a process of their own, with every answer checked."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from tests.servers.warm_openskills import run_script

ROOT = Path(__file__).resolve().parents[2]
SKILLS = ROOT / "skills_cli"
DATA = ROOT / "data"
TIMEOUT = 120
IDS = ("echo", "file_search", "calculator", "log_transform")

NORMALIZED: dict[str, Any] = {
    "type": "object",
    "required": ["success", "skill_id", "trace_id", "data", "error", "meta"],
    "additionalProperties": False,
    "properties": {
        "success": {"type": "boolean"},
        "skill_id": {"type": "string", "minLength": 1},
        "trace_id": {"type": "string", "minLength": 1},
        "data": {"type": ["object", "null"]},
        "error": {
            "type": ["object", "null"],
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "number"},
                "message": {"type": "string", "minLength": 1, "maxLength": 2000},
                "details": {"type": "object", "required": ["reason"]},
            },
        },
        "meta": {
            "type": "object",
            "required": ["latency_ms", "version"],
            "properties": {
                "latency_ms": {"type": "number", "minimum": 0},
                "version": {"type": "string"},
                "truncated": {"type": "boolean"},
            },
        },
    },
    "oneOf": [
        {"properties": {"success": {"const": True}, "error": {"type": "null"}, "data": {"type": "object"}}},
        {"properties": {"success": {"const": False}, "error": {"type": "object"}, "data": {"type": "null"}}},
    ],
}
_IS_NORMALIZED = jsonschema_rs.validator_for(NORMALIZED)


@dataclass(frozen=True)
class Reply:
    """What came back: the result, and the events on stderr."""

    result: dict[str, Any]
    events: list[dict[str, Any]]

    @property
    def data(self) -> dict[str, Any]:
        """What a skill that did its work has found."""
        assert self.result["success"], self.result["error"]
        return self.result["data"]

    @property
    def meta(self) -> dict[str, Any]:
        """What it says beside that."""
        return self.result["meta"]

    @property
    def refusal(self) -> tuple[str, str]:
        """The word and the sentence of a skill that refused."""
        assert not self.result["success"], self.result
        error = self.result["error"]
        assert error["code"] == {"INVALID_ARGUMENT": 400, "FORBIDDEN_PATH": 403, "INTERNAL": 500}[reason_of(error)]
        return reason_of(error), error["message"]


def reason_of(error: Mapping[str, Any]) -> str:
    """The word of an error."""
    return error["details"]["reason"]


def manifest(skill: str) -> dict[str, Any]:
    """The manifest of a skill."""
    return yaml.safe_load((SKILLS / f"{skill}.yaml").read_text("utf-8"))


def call(skill: str, input: Mapping[str, Any], root: Path = DATA, **variables: str) -> Reply:  # noqa: A002
    """Call a skill with an input; a result with data fits the schema of its manifest."""
    reply = send(skill, json.dumps({"input": input}).encode(), root, **variables)
    if reply.result["success"]:
        jsonschema_rs.validator_for(manifest(skill)["output_schema"]).validate(reply.data)
    return reply


def send(skill: str, stdin: bytes, root: Path = DATA, **variables: str) -> Reply:
    """Start a skill as the document does, give it these bytes, and check the form of what it says."""
    environment = {"PATH": os.defpath, "OPENSKILL_ALLOWED_ROOT": str(root), **variables}
    done = run_script(SKILLS / f"{skill}.py", cwd=ROOT, env=environment, stdin=stdin, timeout=TIMEOUT)
    line, _, rest = done.stdout.partition(b"\n")
    assert line, done.stderr
    assert not rest
    result = json.loads(line.decode("utf-8"), parse_constant=_no_number)
    _IS_NORMALIZED.validate(result)
    assert done.returncode == (0 if result["success"] else 1)
    return Reply(result, [json.loads(event) for event in done.stderr.splitlines()])


def _no_number(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")
