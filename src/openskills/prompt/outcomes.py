"""What the stored result of a skill tool says. Pure; nothing raises.

The stored text is short: `loaded: pdf` and lines `evicted: docx`, or the JSON of a selection, or `unloaded: pdf`. What
does not look like that (an error, or what somebody put in the place of a result to save room) says nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import cast

from openskills.prompt.messages import items, json_object
from openskills.session.changes import ALL
from openskills.skillmd.parse import normal_name

_LOADED, _UNLOADED, _EVICTED = "loaded:", "unloaded:", "evicted:"
_YES = ("true", "1", "yes", "on", "t", "y")
_DECODER = json.JSONDecoder()
_SHORT = 1_000


class Verb(StrEnum):
    """The tools whose results say where a text stands."""

    LOAD = "skill_load"
    SELECT = "skill_select_docs"
    UNLOAD = "skill_unload"


_TOOLS = frozenset(str(verb) for verb in Verb)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A call that succeeded. `docs` is the selection it left, `(ALL,)` for every document, None if it left it alone."""

    verb: Verb
    skill: str
    docs: tuple[str, ...] | None = None
    evicted: tuple[str, ...] = ()


def outcome(tool: str, arguments: object, text: str) -> Outcome | None:
    """What a result says, given the tool and its arguments; None when it says nothing.

    An empty `tool` means that nobody knows which it was: then only `loaded: x` and `unloaded: x` are understood.
    """
    if tool and tool not in _TOOLS:
        return None
    short = len(text) <= _SHORT and (arguments is None or (isinstance(arguments, str) and len(arguments) <= _SHORT))
    return _read_again(tool, arguments, text) if short else _read(tool, arguments, text)


def _read(tool: str, arguments: object, text: str) -> Outcome | None:
    if tool == Verb.LOAD or (not tool and text.startswith(_LOADED)):
        return _load(json_object(arguments), text)
    if tool == Verb.SELECT:
        return _select(text)
    if tool == Verb.UNLOAD or (not tool and text.startswith(_UNLOADED)):
        return _unload(text)
    return None


# The same few results are read for every request of a conversation.
_read_again = lru_cache(maxsize=1_024)(_read)


def _load(asked: Mapping[str, object], text: str) -> Outcome | None:
    first, _, rest = text.partition("\n")
    skill = first.removeprefix(_LOADED).strip()
    if not first.startswith(_LOADED) or not skill or not _is_about(asked, skill):
        return None
    if rest.lstrip("\n").startswith("[Loaded] "):
        # What was shown came back with a cut: it is nobody's stub any more.
        return None
    return Outcome(Verb.LOAD, skill, _asked_docs(asked), _evicted(rest))


def _select(text: str) -> Outcome | None:
    try:
        found, end = _DECODER.raw_decode(text) if text.startswith("{") else (None, 0)
    except (ValueError, RecursionError):
        return None
    value = json_object(found)
    skill = value.get("skill")
    if not isinstance(skill, str) or not skill:
        return None
    docs = (ALL,) if value.get("include_all_docs") is True else _paths(value.get("selected_docs"))
    return None if docs is None else Outcome(Verb.SELECT, skill, docs, _evicted(text[end:]))


def _unload(text: str) -> Outcome | None:
    first = text.partition("\n")[0]
    skill = first.removeprefix(_UNLOADED).strip()
    return Outcome(Verb.UNLOAD, skill) if first.startswith(_UNLOADED) and skill else None


def _is_about(asked: Mapping[str, object], skill: str) -> bool:
    """Whether the call was about this skill. A stub that was cut short names another one."""
    name = asked.get("skill")
    return not isinstance(name, str) or normal_name(name.strip()) == normal_name(skill)


def _asked_docs(asked: Mapping[str, object]) -> tuple[str, ...] | None:
    """The selection of a load, as `skill_load` understands it."""
    if str(asked.get("include_all_docs")).lower() in _YES:
        return (ALL,)
    docs = asked.get("docs")
    paths = (docs,) if isinstance(docs, str) else _paths(docs)
    if paths is None:
        return None
    return (ALL,) if ALL in paths else tuple(path.removeprefix("./") for path in paths)


def _paths(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    return tuple(path for path in items(cast("list[object]", value)) if isinstance(path, str))


def _evicted(rest: str) -> tuple[str, ...]:
    if _EVICTED not in rest:
        return ()
    lines = takewhile(lambda line: line.startswith(_EVICTED), rest.strip("\n").split("\n"))
    return tuple(line.removeprefix(_EVICTED).strip() for line in lines)
