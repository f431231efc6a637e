"""Our own side: a session over a directory of skills, in which a scripted conversation is played."""

import json
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from context_talk import LOAD, LOOK, LOOKED, SYSTEM, Documented, Step, Turn

from openskills.catalog.catalog import Catalog
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.settings import Settings


class Talk:
    """A session, and the transcript that a program around it keeps."""

    def __init__(self, session: SkillSession, catalog: Catalog) -> None:
        self.session = session
        self.catalog = catalog
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
        self._calls = 0

    async def play(self, turns: Sequence[Turn]) -> list[list[dict[str, Any]]]:
        """The requests of a whole conversation."""
        requests: list[list[dict[str, Any]]] = []
        for turn in turns:
            self.messages.append({"role": "user", "content": turn.user})
            requests.append(self.request())
            for step in turn.steps:
                await self._call(step)
                requests.append(self.request())
            self.messages.append({"role": "assistant", "content": "Done."})
        return requests

    async def hold(self, turn: Turn) -> None:
        """Play a turn as far as its last request, which is built once."""
        await self.play([turn])
        self.messages.pop()
        self.request()

    def request(self) -> list[dict[str, Any]]:
        """What would be sent now."""
        return self.session.context(self.messages)

    async def _call(self, step: Step) -> None:
        self._calls += 1
        identity, name, given = f"call_{self._calls}", *_call_of(step)
        call = {"id": identity, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = LOOKED
        if step.kind != LOOK:
            result = await self.session.call(name, given, call_id=identity)
            if result.error is not None:
                raise RuntimeError(result.text)
            text = result.text
        self.messages.append({"role": "tool", "tool_call_id": identity, "content": text})


@asynccontextmanager
async def talk_over(skills: Path, home: Path, options: SessionOptions | None = None) -> AsyncGenerator[Talk]:
    """A new session over these skills, which only reads them."""
    settings = Settings.from_env({"HOME": str(home), "PATH": os.defpath})
    catalog = Catalog.from_paths(skills, settings=settings)
    async with SkillRuntime(catalog, settings=settings, options=options) as runtime, runtime.session("s") as session:
        yield Talk(session, catalog)


def names_of(skills: Path, count: int) -> list[str]:
    """The first skills by name."""
    return sorted(entry.name for entry in skills.iterdir())[:count]


def documented(skills: Path, count: int) -> list[Documented]:
    """The first skills that have documents to select."""
    folders = [folder for folder in sorted(skills.iterdir()) if (folder / "references").is_dir()][:count]
    return [
        Documented(folder.name, sorted(f"references/{doc.name}" for doc in (folder / "references").iterdir()))
        for folder in folders
    ]


def _call_of(step: Step) -> tuple[str, dict[str, Any]]:
    if step.kind == LOOK:
        return "lookup", {"table": "figures"}
    if step.kind == LOAD:
        return "skill_load", {"skill": step.skill}
    return "skill_select_docs", {"skill": step.skill, "docs": step.docs, "mode": "add"}
