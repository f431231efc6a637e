"""Agents that can load skills, each in its own way, and what their models have to call for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from deepagents.middleware.filesystem import FilesystemMiddleware
from langchain_core.messages import ToolMessage
from langchain_ways import BARE, RUNTIME, UPSTREAM, Told, agents, backend_of, ways

Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


def agent_of(name: str, root: Path, model: Told, **options: Any) -> Any:
    """An agent over the skills in `skills` below a directory.

    deepagents reads skills as files, with its middleware for files, as its documentation composes the two. The floor
    has a tool that reads a file, and no list of skills.
    """
    if name == BARE:
        return agents.create_agent(model, tools=_plain_tools(root), **options)
    own = [ways(root)[name]()]
    files = [FilesystemMiddleware(backend=backend_of(root))] if name == UPSTREAM else []
    return agents.create_agent(model, middleware=[*files, *own], **options)


def load(name: str, skill: str) -> Call:
    """What a model calls to have a skill."""
    if name == UPSTREAM:
        return "read_file", {"file_path": f"/skills/{skill}/SKILL.md", "limit": 100_000}
    if name == RUNTIME:
        return "skill_load", {"skill": skill}
    return ("read_skill", {"skill": skill}) if name == BARE else ("load_skill", {"skill_name": skill})


def unload(name: str, skill: str) -> Call:
    """What it calls to be rid of it; where nothing can be unloaded, something as small, for an equal step."""
    if name == UPSTREAM:
        return "ls", {"path": f"/skills/{skill}"}
    if name == RUNTIME:
        return "skill_unload", {"skill": skill}
    return ("list_files", {"skill": skill}) if name == BARE else ("unload_skill", {"skill_name": skill})


def check(state: Any) -> None:
    """Raises when a call of the conversation failed: then it is none to be compared."""
    for message in state["messages"]:
        if isinstance(message, ToolMessage) and message.status == "error":
            raise RuntimeError(f"a call failed: {message.text}")


def _plain_tools(root: Path) -> list[Callable[[str], str]]:
    def read_skill(skill: str) -> str:
        """Read the text of a skill."""
        return (root / "skills" / skill / "SKILL.md").read_text("utf-8")

    def list_files(skill: str) -> str:
        """List the files of a skill."""
        return "\n".join(sorted(path.name for path in (root / "skills" / skill).iterdir()))

    return [read_skill, list_files]
