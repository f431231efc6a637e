"""`allowed-tools` as a rule: what loaded skills leave the model."""

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

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


class Rule(TypedDict):
    """What a loaded skill allows; None when that cannot be known now. `of_caller`: it holds whatever is unloaded."""

    name: str
    allowed_tools: list[str] | None
    of_caller: NotRequired[bool]


def rules_of(
    skills: Iterable[Mapping[str, Any]], loaded: Iterable[str], passed_on: Iterable[Mapping[str, Any]] = ()
) -> list[Rule]:
    """The rules of what is loaded, and those that a caller passed on. Skills that name no tools restrict nothing.

    A skill that is loaded and of which nothing is known might restrict everything, so it does.
    """
    known = {skill["name"]: skill["allowed_tools"] for skill in skills}
    own = [Rule(name=name, allowed_tools=known.get(name)) for name in loaded]
    callers = [Rule(name=one["name"], allowed_tools=one["allowed_tools"], of_caller=True) for one in passed_on]
    return [rule for rule in (*own, *callers) if rule["allowed_tools"] is None or rule["allowed_tools"]]


def refusal(tool: str, arguments: Mapping[str, Any], rules: Sequence[Rule], free: Collection[str]) -> str | None:
    """Why a call must not happen, or None."""
    if not rules or tool in free:
        return None
    patterns = [pattern for rule in rules for pattern in rule["allowed_tools"] or ()]
    if any(_allows(pattern, tool, arguments) for pattern in patterns):
        return None
    names = ", ".join(f"'{rule['name']}'" for rule in rules)
    unload = (
        "" if any(rule.get("of_caller") for rule in rules) else ", or `unload_skill` if the skill is no longer needed"
    )
    if not patterns:
        return f"Error: What the loaded skill(s) {names} allow cannot be read now. Do without `{tool}`{unload}."
    return (
        f"Error: The tool `{tool}` is not among the allowed tools of the loaded skill(s) {names}: "
        f"{', '.join(dict.fromkeys(patterns))}. Use one of them{unload}."
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
