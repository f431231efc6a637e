"""`allowed-tools` as a rule: what loaded skills leave the model."""

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from openskills.adapters.langchain.metadata import SkillMetadata
from openskills.adapters.langchain.tool_names import name_here

ALWAYS_ALLOWED = frozenset(
    {
        *("load_skill", "unload_skill", "ls", "read_file", "write_file", "edit_file", "glob", "grep"),
        *("write_todos", "task", "compact_conversation"),
    }
)
"""The built-in tools. Those that run commands or delete are not among them: a skill has to name them."""

_PATTERN = re.compile(r"(?P<tool>[^(]+)(?:\((?P<only>.*)\))?", re.DOTALL)
_SHELL = re.compile(r"[;&|<>$`\\\n\r(){}]")


def refusal(
    tool: str, arguments: Mapping[str, Any], loaded: Iterable[SkillMetadata], free: Collection[str]
) -> str | None:
    """Why a call must not happen, or None. Skills that name no tools restrict nothing."""
    restricting = [skill for skill in loaded if skill["allowed_tools"]]
    if not restricting or tool in free:
        return None
    patterns = [pattern for skill in restricting for pattern in skill["allowed_tools"]]
    if any(_allows(pattern, tool, arguments) for pattern in patterns):
        return None
    names = ", ".join(f"'{skill['name']}'" for skill in restricting)
    return (
        f"Error: The tool `{tool}` is not among the allowed tools of the loaded skill(s) {names}: "
        f"{', '.join(dict.fromkeys(patterns))}. Use one of them, or `unload_skill` if the skill is no longer needed."
    )


def _allows(pattern: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    match = _PATTERN.fullmatch(pattern.strip())
    if match is None or tool not in {match["tool"].strip(), name_here(match["tool"].strip())}:
        return False
    only = match["only"]
    return only is None or only.strip() in {"", "*"} or _fits(only.strip(), arguments)


def _fits(only: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a command is one that the pattern means: `git *`, or `git:*` for everything that begins with `git`."""
    command = arguments.get("command")
    # What a shell would take apart could hide another command behind an allowed one.
    if not isinstance(command, str) or _SHELL.search(command):
        return False
    text = command.strip()
    if only.endswith(":*"):
        begin = only[:-2]
        return text == begin or text.startswith(f"{begin} ")
    return fnmatch.fnmatchcase(text, only)
