"""Requests as a session makes them, for tests of the rules: what was said, called and answered in a turn."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openskills.agent.models.model import ModelRequest, ModelResponse, TextDelta
from openskills.agent.rules.model import RuleModel
from openskills.catalog.catalog import Catalog
from openskills.settings import Settings
from openskills.sync import run
from tests.skill_writer import skill_writer

TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": name}} for name in ("skill_load", "skill_run")]
RULES_SAID = ("no language model", "not a language model", "not of a language model", "不是语言模型")

Messages = list[dict[str, Any]]


def catalog_in(directory: Path, **skills: str | tuple[str, str]) -> Catalog:
    """A catalog of skills by name (`_` for `-`): a description, or a description and a body."""
    (directory / "skills").mkdir(exist_ok=True)
    for name, given in skills.items():
        description, body = (given, "# Body") if isinstance(given, str) else given
        skill_writer(directory, "skills")(name.replace("_", "-"), description, body=body)
    return Catalog.from_paths(directory / "skills", settings=Settings.from_env({"HOME": str(directory)}))


def user(text: str, *files: str) -> dict[str, Any]:
    """A message of the user, with files as the runner names them."""
    told = f"\n\n[attached: {', '.join(files)}; commands find the user's files in work/inputs/]" if files else ""
    return {"role": "user", "content": f"{text}{told}"}


def called(identity: str, tool: str, result: str | None = None, **arguments: Any) -> Messages:
    """A call of the model, and its result if there is one."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    said = {"role": "assistant", "content": None, "tool_calls": [{"id": identity, "function": function}]}
    return [said] if result is None else [said, {"role": "tool", "tool_call_id": identity, "content": result}]


def loaded(skill: str, body: str) -> Messages:
    """A load whose result has the text of the skill."""
    text = f"loaded: {skill}\n\n[Loaded] {skill}\n\n{body}\nDocs loaded: none"
    return called("load-1", "skill_load", text, skill=skill)


def ended(identity: str, skill: str, command: str, **data: Any) -> Messages:
    """A run with its result."""
    return called(identity, "skill_run", result_of(**data), skill=skill, command=command)


def result_of(**data: Any) -> str:
    """What `skill_run` tells a model, of a command that ended well unless something else is said."""
    ending = {"stdout": "", "stderr": "", "exit_code": 0, "timed_out": False, "duration_ms": 5}
    return json.dumps({**ending, "isolation": "bubblewrap", "output_files": [], **data})


def answer(catalog: Catalog, messages: Sequence[Any], tools: Sequence[Any] = TOOLS) -> ModelResponse:
    """What the model says to these messages; its pieces are its whole."""

    async def ask() -> ModelResponse:
        *pieces, last = [event async for event in RuleModel(catalog).stream(ModelRequest(messages, tools))]
        assert isinstance(last, ModelResponse)
        texts = [piece.text for piece in pieces if isinstance(piece, TextDelta)]
        assert "".join(texts) == last.text
        return last

    return run(ask())


def arguments(found: ModelResponse) -> dict[str, Any]:
    """The arguments of the one call of an answer."""
    (call,) = found.calls
    return json.loads(call.arguments)
