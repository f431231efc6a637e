"""Names of tools that other code refers to, profiles, and hints that name tools."""

import json
from collections.abc import Callable, Collection
from enum import StrEnum

from openskills.prompt.history import SkillAction

LOAD, SELECT, UNLOAD = str(SkillAction.LOAD), str(SkillAction.SELECT), str(SkillAction.UNLOAD)
LIST = "skill_list_docs"
SEARCH = "skill_search"
RUN, EXEC = "skill_run", "skill_exec"
INTERACTIVE = ("skill_write_stdin", "skill_poll_session", "skill_kill_session")
KNOWLEDGE = (LOAD, SELECT, LIST, UNLOAD)
MAIN_ARGUMENTS = ("skill", "command", "path", "query", "glob", "pattern", "session_id", "chars", "task")
"""The arguments of tools that tell a person what a call does, in the order in which they are shown."""


class ToolProfile(StrEnum):
    """A set of tools: all of them, or only those for reading skills."""

    FULL = "full"
    KNOWLEDGE_ONLY = "knowledge_only"


def build_continuation_hint(tools: Collection[str]) -> Callable[[str, str, int, int], str]:
    """A function that says how to read on in a cut text (skill, path, line, character) with the available tools."""

    def hint(skill: str, path: str, line: int, character: int) -> str:
        if SELECT in tools:
            where = f"{path}#L{line}" + (f"C{character}" if character > 1 else "")
            wanted = {"skill": skill, "docs": [where], "mode": "add"}
            return f"to read on, call {SELECT} with {json.dumps(wanted, ensure_ascii=False)}"
        if "read_file" in tools:
            wanted = {"file_name": f"skill://{skill}/{path}", "start_line": line}
            return f"to read on, call read_file with {json.dumps(wanted, ensure_ascii=False)}"
        return "the rest cannot be read with the tools of this conversation"

    return hint
