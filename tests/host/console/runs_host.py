"""A host with skills to try: functions with schemas, a program, and a skill with scripts."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from openskills.host.model import Call, Outcome, SkillOutputEvent, success_outcome
from tests.host.console.conftest import ConsoleHost, open_console
from tests.host.hosting import Waiting, manifest

ORDER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["customer", "amount"],
    "properties": {
        "customer": {"type": "string", "description": "Who pays.", "minLength": 2},
        "amount": {"type": "number", "minimum": 0, "default": 10},
        "urgent": {"type": "boolean", "default": False},
        "size": {"enum": ["small", "large"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}},
        "address": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
        "payment": {
            "oneOf": [
                {
                    "title": "Card",
                    "type": "object",
                    "required": ["number"],
                    "properties": {"number": {"type": "string"}},
                },
                {
                    "title": "Invoice",
                    "type": "object",
                    "required": ["days"],
                    "properties": {"days": {"type": "integer"}},
                },
            ]
        },
        "scan": {"type": "string", "contentEncoding": "base64"},
        "serial": {"type": "integer"},
        "__proto__": {"type": "string"},
        "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
        "delivery": {
            "oneOf": [
                {"title": "Pickup", "required": ["kind"], "properties": {"kind": {"const": "pickup"}}},
                {
                    "title": "Post",
                    "type": "object",
                    "required": ["kind", "street"],
                    "properties": {"kind": {"const": "post"}, "street": {"type": "string"}},
                },
            ]
        },
        "extra": {},
        "colour": {"oneOf": [{"const": "red"}, {"const": "blue"}]},
    },
    "additionalProperties": False,
}


async def order(call: Call) -> Outcome:
    """Shows what it got."""
    if call.listener is not None:
        call.listener(SkillOutputEvent("stdout", {"text": "\x1b[32mchecking\x1b[0m the order"}))
        call.listener(SkillOutputEvent("progress", {"done": 1, "total": 2, "message": "half"}))
    return success_outcome({"ordered": dict(call.input)}, notes={"isolation": "none"})


SCRIPTS = {
    "report": """\
import sys
print("\\x1b[32mreading\\x1b[0m inputs")
print("careful", file=sys.stderr)
open("out/report.md", "w").write("# Report\\n\\n<script>alert(1)</script> **bold**\\n")
open("out/table.csv", "w").write("month,amount\\n<b>May</b>,3\\n")
open("out/page.html", "w").write("<h1>Page</h1><script>parent.document.title = 'owned'</script>")
open("out/dot.png", "wb").write(bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cfc0f01f0005000201a5f645400000000049454e44ae426082"))
""",
    "menu": """\
import sys
sys.stdout.write("\\x1b[?1049h\\x1b[2J\\x1b[3;5Hchoose one\\x1b[4;5H> ")
sys.stdout.flush()
answer = sys.stdin.readline().strip()
sys.stdout.write(f"\\x1b[5;5Hyou chose {answer}")
sys.stdout.flush()
sys.stdin.readline()
""",
}


@contextmanager
def open_runs_console(directory: Path, browser: Browser, **changes: Any) -> Generator[ConsoleHost]:
    """A console with the hosted skills `order` and `waiting`, and the skill `reporter`."""
    reporter = directory / "skills" / "reporter"
    (reporter / "scripts").mkdir(parents=True, exist_ok=True)
    (reporter / "SKILL.md").write_text(
        "---\nname: reporter\ndescription: Makes reports.\n---\nRun scripts/report.py.\n"
    )
    for name, text in SCRIPTS.items():
        (reporter / "scripts" / f"{name}.py").write_text(text)
    schema = json.dumps(ORDER_SCHEMA)
    manifest(directory, "order", f"description: Orders things.\ninput_schema: {schema}\n")
    with open_console(directory, browser, functions={"order": order, "waiting": Waiting()}, **changes) as found:
        yield found
