"""All tools by name, and the selection of those that a session has."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from openskills.errors import InvalidArgument
from openskills.tools.files import LIST_FILES, READ_FILE, WRITE_FILE
from openskills.tools.interactive import SKILL_EXEC, SKILL_KILL_SESSION, SKILL_POLL_SESSION, SKILL_WRITE_STDIN
from openskills.tools.names import EXEC, INTERACTIVE, KNOWLEDGE, LOAD, RUN, SEARCH, ToolProfile
from openskills.tools.run import SKILL_RUN
from openskills.tools.search_files import SEARCH_FILES
from openskills.tools.skills import SKILL_LIST_DOCS, SKILL_LOAD, SKILL_SEARCH, SKILL_SELECT_DOCS, SKILL_UNLOAD
from openskills.tools.tool import AnyTool

TOOLS: Mapping[str, AnyTool] = {
    tool.name: tool
    for tool in (
        SKILL_LOAD,
        SKILL_SELECT_DOCS,
        SKILL_LIST_DOCS,
        SKILL_UNLOAD,
        SKILL_SEARCH,
        SKILL_RUN,
        SKILL_EXEC,
        SKILL_WRITE_STDIN,
        SKILL_POLL_SESSION,
        SKILL_KILL_SESSION,
        READ_FILE,
        LIST_FILES,
        SEARCH_FILES,
        WRITE_FILE,
    )
}
"""In the order in which they are sent to the model."""


def select_tools(
    profile: ToolProfile, allowed: Sequence[str] | None, *, search: bool, executor: bool, require_loaded: bool
) -> tuple[str, ...]:
    """The names of the tools: those of `allowed`, or else of the profile, with `skill_search` only if `search` is set.

    Raises `InvalidArgument` for unknown tools and for combinations that cannot work.
    """
    if allowed is None:
        names = tuple(TOOLS) if profile is ToolProfile.FULL else (*KNOWLEDGE, SEARCH)
        found = tuple(name for name in names if name != SEARCH or search)
    else:
        for name in allowed:
            if name not in TOOLS:
                raise InvalidArgument("tools", f"unknown tool {name!r}; {_suggest(name, tuple(TOOLS))}")
        found = tuple(name for name in TOOLS if name in allowed)
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
    if name in TOOLS:
        known = ", ".join(available) or "none"
        return InvalidArgument("tool", f"{name} is not available in this session; available tools: {known}")
    return InvalidArgument("tool", f"unknown tool {name[:100]!r}; {_suggest(name, available)}")
