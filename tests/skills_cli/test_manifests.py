"""The manifests of the hosted skills: what they say is what the skills are."""

import ast
import json
import re
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest

from openskills.host.registry.manifest import ManifestDefaults, parse_manifest
from tests.skills_cli.calling import DATA, IDS, ROOT, SKILLS, call, manifest

DOCUMENTED = {
    "echo": ({"text"}, {"text"}, {"echoed"}),
    "file_search": ({"query", "root_dir", "glob", "limit"}, {"query"}, {"matches"}),
    "calculator": ({"numbers", "ops", "compare"}, {"numbers", "ops"}, {"results", "comparison"}),
    "log_transform": (
        {"input_path", "format", "output", "rules", "limit"},
        {"input_path"},
        {"records", "output_path", "stats"},
    ),
}
"""Inputs, required inputs and outputs of each hosted skill."""

EXAMPLES: dict[str, dict[str, Any]] = {
    "echo": {"text": "hello"},
    "file_search": {"query": "openSkill", "glob": "**/*.md", "limit": 5},
    "calculator": {"numbers": [10.5, 9.9, 11.2], "ops": ["mean", "median"]},
    "log_transform": {"input_path": "./data/logs/app.log", "format": "text", "output": "stdout", "limit": 50},
}
"""The documented examples of each hosted skill."""


def described(schema: Any, at: str = "") -> list[str]:
    """The properties of a schema that have no description."""
    missing: list[str] = []
    for name, part in schema.get("properties", {}).items():
        place = f"{at}.{name}"
        missing += [] if "description" in part else [place]
        missing += described(part, place)
    return missing


@pytest.mark.parametrize("skill", IDS)
def test_the_manifest_is_one_that_the_host_takes(skill: str) -> None:
    parsed = parse_manifest(
        (SKILLS / f"{skill}.yaml").read_bytes(), name=skill, is_json=False, defaults=ManifestDefaults()
    )
    assert not parsed.problems
    registration = parsed.registration
    assert registration is not None
    assert (registration.id, registration.kind) == (skill, "cli:python")
    assert (ROOT / registration.entry).is_file()


@pytest.mark.parametrize("skill", IDS)
def test_fields_are_those_of_the_document(skill: str) -> None:
    inputs, required, outputs = DOCUMENTED[skill]
    said = manifest(skill)
    assert set(said["input_schema"]["properties"]) == inputs
    assert set(said["input_schema"]["required"]) == required
    assert set(said["output_schema"]["properties"]) == outputs


@pytest.mark.parametrize("skill", IDS)
def test_schemas_are_schemas_and_every_input_is_described(skill: str) -> None:
    said = manifest(skill)
    for name in ("input_schema", "output_schema"):
        jsonschema_rs.meta.validate(said[name])
    assert not described(said["input_schema"])


@pytest.mark.parametrize("skill", IDS)
def test_the_example_of_the_document_is_answered(skill: str) -> None:
    jsonschema_rs.validator_for(manifest(skill)["input_schema"]).validate(EXAMPLES[skill])
    reply = call(skill, EXAMPLES[skill], root=DATA)
    assert reply.data
    assert reply.result["skill_id"] == skill


@pytest.mark.parametrize("skill", IDS)
def test_manifest_and_program_agree_on_the_version(skill: str) -> None:
    assert call(skill, EXAMPLES[skill]).meta["version"] == manifest(skill)["version"]


@pytest.mark.parametrize("skill", IDS)
def test_what_is_loaded_ahead_exists_and_is_what_the_skill_uses(skill: str) -> None:
    sources = [SKILLS / f"{skill}.py", *(SKILLS.glob("log_formats/*.py") if skill == "log_transform" else ())]
    text = "\n".join(path.read_text("utf-8") for path in sources)
    for module in manifest(skill)["preload"]:
        assert re.search(rf"^(from {re.escape(module)}[ .]|import {re.escape(module)}\b)", text, re.MULTILINE), module


def test_no_program_of_a_skill_is_longer_than_400_lines_or_unfinished() -> None:
    for path in SKILLS.rglob("*.py"):
        text = path.read_text("utf-8")
        ast.parse(text)
        assert len(text.splitlines()) <= 400
        assert not re.search(r"\b(TODO|FIXME|XXX)\b", text)


@pytest.mark.parametrize("skill", IDS)
def test_a_skill_runs_in_a_new_interpreter(skill: str) -> None:
    request = json.dumps({"input": EXAMPLES[skill]}).encode()
    line = [sys.executable, "-W", "error", str(SKILLS / f"{skill}.py")]
    done = subprocess.run(line, input=request, capture_output=True, cwd=ROOT, env={"OPENSKILL_ALLOWED_ROOT": str(DATA)})
    assert (done.returncode, json.loads(done.stdout)["success"]) == (0, True)
