"""Tool names, profiles.

Which tools a model gets. Pure, but for the modules that the tools live in.

What to say to a model that calls a tool which is not there. Pure.

How a model reads on in a text that was cut. Pure.
"""

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
"""Every tool there is, in the order in which a model is told about them."""


class ToolProfile(StrEnum):
    """A set of tools: with running commands and files, or only what is needed to read skills."""

    FULL = "full"
    KNOWLEDGE_ONLY = "knowledge_only"


def select_tools(
    profile: ToolProfile, allowed: Sequence[str] | None, *, search: bool, executor: bool, require_loaded: bool
) -> tuple[str, ...]:
    """The names of the tools: those of `allowed`, or else of the profile, `skill_search` among them when it is needed.

    Raises `InvalidArgument` for tools that do not exist or could never work together.
    """
    if allowed is not None:
        names = tuple(name for name in NAMES if name in _check_names(allowed))
        _check_combination(names, executor=executor, require_loaded=require_loaded)
        return names
    names = NAMES if profile is ToolProfile.FULL else (*KNOWLEDGE, SEARCH)
    found = tuple(name for name in names if name != SEARCH or search)
    _check_combination(found, executor=executor, require_loaded=require_loaded)
    return found


def _check_names(allowed: Sequence[str]) -> set[str]:
    for name in allowed:
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(NAMES)}"
            raise InvalidArgument("tools", f"there is none named {name!r}; {hint}")
    return set(allowed)


def _check_combination(names: Sequence[str], *, executor: bool, require_loaded: bool) -> None:
    running = [name for name in names if name in (RUN, EXEC, *INTERACTIVE)]
    if running and not executor:
        raise InvalidArgument("tools", f"{running[0]} needs an executor; give one, or use the profile knowledge_only")
    if EXEC not in names and any(name in names for name in INTERACTIVE):
        raise InvalidArgument("tools", f"{', '.join(INTERACTIVE)} need {EXEC}; add it, or leave them out")
    if EXEC in names and INTERACTIVE[1] not in names:
        raise InvalidArgument("tools", f"{EXEC} needs {INTERACTIVE[1]}, or nobody could see what it prints; add it")
    if require_loaded and LOAD not in names and any(name in names for name in (RUN, EXEC)):
        raise InvalidArgument(
            "tools", f"{RUN} needs {LOAD} while skills must be loaded first; add it, or switch that off"
        )


def build_unknown_tool_error(name: str, available: Sequence[str]) -> InvalidArgument:
    """The error, with the nearest tools that there are; no guess for a tool that is only not offered here."""
    if name in NAMES:
        return InvalidArgument(
            "tool", f"{name} is not available in this session; there are {', '.join(available) or 'none'}"
        )
    # Models mix up the order of words: load_skill.
    same = [one for one in available if set(one.split("_")) == set(name.lower().split("_"))]
    near = same or get_close_matches(name[:100], available, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(available) or 'none'}"
    return InvalidArgument("tool", f"there is no tool named {name[:100]!r}; {hint}")


def build_continuation_hint(tools: Collection[str]) -> Callable[[str, str, int, int], str]:
    """A sentence for a skill, a path in it, a line and a character of it, in terms of the tools that there are."""

    def sentence(skill: str, path: str, line: int, character: int) -> str:
        if SELECT in tools:
            where = f"{path}#L{line}" + (f"C{character}" if character > 1 else "")
            wanted = {"skill": skill, "docs": [where], "mode": "add"}
            return f"to read on, call {SELECT} with {json.dumps(wanted, ensure_ascii=False)}"
        if "read_file" in tools:
            wanted = {"file_name": f"skill://{skill}/{path}", "start_line": line}
            return f"to read on, call read_file with {json.dumps(wanted, ensure_ascii=False)}"
        return "the rest cannot be read with the tools of this conversation"

    return sentence
