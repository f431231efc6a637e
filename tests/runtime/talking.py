"""A model and its framework, in tests: a transcript that grows by calls, as a program around a session keeps it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openskills.catalog.catalog import Catalog
from openskills.executors.protocol import Executor
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.session.store import SessionStore
from openskills.tools.tool import ToolResult
from tests.tools.contexts import settings_in


class Transcript:
    """What a program stores of a conversation: messages, with the results of tools as the tools gave them."""

    def __init__(self, session: SkillSession) -> None:
        self.session = session
        self.messages: list[dict[str, Any]] = []
        self._calls = 0

    def user(self, text: str) -> list[dict[str, Any]]:
        """The user says something, and a request is built."""
        self.messages.append({"role": "user", "content": text})
        return self.session.context(self.messages)

    async def call(self, *calls: tuple[str, Mapping[str, Any]]) -> list[ToolResult]:
        """The model calls tools in one message; their results follow in its order."""
        numbered = [(f"call_{self._calls + place}", name, given) for place, (name, given) in enumerate(calls)]
        self._calls += len(calls)
        self.messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": identity, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                    for identity, name, given in numbered
                ],
            }
        )
        results = [await self.session.call(name, given, call_id=identity) for identity, name, given in numbered]
        for (identity, _, _), result in zip(numbered, results, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": identity, "content": result.text})
        return results

    async def load(self, skill: str, **more: Any) -> ToolResult:
        """The model loads a skill."""
        (result,) = await self.call(("skill_load", {"skill": skill, **more}))
        return result

    def answer(self, text: str = "done") -> None:
        """The model says something to the user."""
        self.messages.append({"role": "assistant", "content": text})

    def request(self) -> list[dict[str, Any]]:
        """What would be sent now."""
        return self.session.context(self.messages)


def runtime_in(
    directory: Path,
    *,
    executor: str | Executor | None = None,
    options: SessionOptions | None = None,
    store: SessionStore | None = None,
) -> SkillRuntime:
    """A runtime for the skills in `directory/skills`, with everything that it keeps below `directory`."""
    # The user that a sandbox runs commands as has to get there.
    directory.chmod(0o755)
    (directory / "skills").mkdir(exist_ok=True)
    settings = settings_in(directory)
    catalog = Catalog.from_paths(directory / "skills", settings=settings)
    return SkillRuntime(catalog, executor, settings=settings, options=options, store=store)


def text_of(messages: list[dict[str, Any]]) -> str:
    """Everything that a model reads in these messages."""
    return "\n".join(str(message.get("content") or "") for message in messages)
