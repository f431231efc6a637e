"""Which tools a model gets. Pure, but for the modules that the tools live in."""

from collections.abc import Sequence
from difflib import get_close_matches
from enum import StrEnum

from openskills.errors import InvalidArgument

LOAD, SELECT, LIST, UNLOAD = "skill_load", "skill_select_docs", "skill_list_docs", "skill_unload"
SEARCH = "skill_search"
RUN, EXEC = "skill_run", "skill_exec"
TALK = ("skill_write_stdin", "skill_poll_session", "skill_kill_session")
FILES = ("read_file", "list_files", "search_files", "write_file")
KNOWLEDGE = (LOAD, SELECT, LIST, UNLOAD)
NAMES = (*KNOWLEDGE, SEARCH, RUN, EXEC, *TALK, *FILES)
"""Every tool there is, in the order in which a model is told about them."""


class Profile(StrEnum):
    """A set of tools: with running commands and files, or only what is needed to read skills."""

    FULL = "full"
    KNOWLEDGE_ONLY = "knowledge_only"


def chosen(
    profile: Profile, allowed: Sequence[str] | None, *, search: bool, executor: bool, require_loaded: bool
) -> tuple[str, ...]:
    """The names of the tools: those of `allowed`, or else of the profile, `skill_search` among them when it is needed.

    Raises `InvalidArgument` for tools that do not exist or could never work together.
    """
    if allowed is not None:
        names = tuple(name for name in NAMES if name in _known(allowed))
        _check(names, executor=executor, require_loaded=require_loaded)
        return names
    names = NAMES if profile is Profile.FULL else (*KNOWLEDGE, SEARCH)
    found = tuple(name for name in names if name != SEARCH or search)
    _check(found, executor=executor, require_loaded=require_loaded)
    return found


def _known(allowed: Sequence[str]) -> set[str]:
    for name in allowed:
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(NAMES)}"
            raise InvalidArgument("tools", f"there is none named {name!r}; {hint}")
    return set(allowed)


def _check(names: Sequence[str], *, executor: bool, require_loaded: bool) -> None:
    running = [name for name in names if name in (RUN, EXEC, *TALK)]
    if running and not executor:
        raise InvalidArgument("tools", f"{running[0]} needs an executor; give one, or use the profile knowledge_only")
    if EXEC not in names and any(name in names for name in TALK):
        raise InvalidArgument("tools", f"{', '.join(TALK)} need {EXEC}; add it, or leave them out")
    if EXEC in names and TALK[1] not in names:
        raise InvalidArgument("tools", f"{EXEC} needs {TALK[1]}, or nobody could see what it prints; add it")
    if require_loaded and LOAD not in names and any(name in names for name in (RUN, EXEC)):
        raise InvalidArgument(
            "tools", f"{RUN} needs {LOAD} while skills must be loaded first; add it, or switch that off"
        )
