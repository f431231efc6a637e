"""Tool names, profiles, and hints that name tools."""

import json
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from enum import StrEnum

from openskills.errors import InvalidArgument

LOAD, SELECT, LIST, UNLOAD = "skill_load", "skill_select_docs", "skill_list_docs", "skill_unload"
SEARCH = "skill_search"
RUN, EXEC = "skill_run", "skill_exec"
INTERACTIVE = ("skill_write_stdin", "skill_poll_session", "skill_kill_session")
FILES = ("read_file", "list_files", "search_files", "write_file")
KNOWLEDGE = (LOAD, SELECT, LIST, UNLOAD)
NAMES = (*KNOWLEDGE, SEARCH, RUN, EXEC, *INTERACTIVE, *FILES)
"""All tools, in the order in which they are sent to the model."""


class ToolProfile(StrEnum):
    """A set of tools: all of them, or only those for reading skills."""

    FULL = "full"
    KNOWLEDGE_ONLY = "knowledge_only"


def select_tools(
    profile: ToolProfile, allowed: Sequence[str] | None, *, search: bool, executor: bool, require_loaded: bool
) -> tuple[str, ...]:
    """The names of the tools: those of `allowed`, or else of the profile, with `skill_search` only if `search` is set.

    Raises `InvalidArgument` for unknown tools and for combinations that cannot work.
    """
    if allowed is None:
        names = NAMES if profile is ToolProfile.FULL else (*KNOWLEDGE, SEARCH)
        found = tuple(name for name in names if name != SEARCH or search)
    else:
        for name in allowed:
            if name not in NAMES:
                raise InvalidArgument("tools", f"unknown tool {name!r}; {_suggest(name, NAMES)}")
        found = tuple(name for name in NAMES if name in allowed)
    _check_combination(found, executor=executor, require_loaded=require_loaded)
    return found


def _suggest(name: str, available: Sequence[str]) -> str:
    # Models mix up the order of words: load_skill.
    same = [one for one in available if set(one.split("_")) == set(name.lower().split("_"))]
    near = same or get_close_matches(name[:100], available, n=2)
    return f"did you mean {' or '.join(near)}?" if near else f"available tools: {', '.join(available) or 'none'}"


def _check_combination(names: Sequence[str], *, executor: bool, require_loaded: bool) -> None:
    running = [name for name in names if name in (RUN, EXEC, *INTERACTIVE)]
    if running and not executor:
        raise InvalidArgument("tools", f"{running[0]} needs an executor; set one, or use the profile knowledge_only")
    if EXEC not in names and any(name in names for name in INTERACTIVE):
        raise InvalidArgument("tools", f"{', '.join(INTERACTIVE)} need {EXEC}; add it, or leave them out")
    if EXEC in names and INTERACTIVE[1] not in names:
        raise InvalidArgument("tools", f"{EXEC} needs {INTERACTIVE[1]} to read its output; add it")
    if require_loaded and LOAD not in names and any(name in names for name in (RUN, EXEC)):
        raise InvalidArgument("tools", f"{RUN} needs {LOAD}; add it, or set require_loaded=False")


def build_unknown_tool_error(name: str, available: Sequence[str]) -> InvalidArgument:
    """The error for a call of a tool that the session does not have, with the nearest names."""
    if name in NAMES:
        known = ", ".join(available) or "none"
        return InvalidArgument("tool", f"{name} is not available in this session; available tools: {known}")
    return InvalidArgument("tool", f"unknown tool {name[:100]!r}; {_suggest(name, available)}")


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
