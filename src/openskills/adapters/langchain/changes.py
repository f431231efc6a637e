"""The channels of a thread that remember loaded skills: updates say what changed, reducers apply them.

Tool calls of one message run at the same time and see the same state. So none of them writes a whole list back; each
writes its change, and LangGraph applies the changes in the order of the calls.
"""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypeVar

from typing_extensions import TypedDict

Entry = TypeVar("Entry")


class LoadedChange(TypedDict, total=False):
    """A change of the list of loaded skills. Unloading comes first, so that one change can make room for itself.

    Nothing is loaded beyond `limit`; without one there is no limit.
    """

    unload: NotRequired[Sequence[str]]
    load: NotRequired[Sequence[str]]
    limit: NotRequired[int]


def merge_loaded(current: Sequence[str] | None, update: LoadedChange | Sequence[str] | None) -> list[str]:
    """Apply a change to the names of the loaded skills; a plain list of names adds them."""
    loaded = list(current or ())
    if not update:
        return loaded
    change = update if isinstance(update, Mapping) else LoadedChange(load=list(update))
    gone = set(change.get("unload", ()))
    loaded = [name for name in loaded if name not in gone]
    limit = change.get("limit")
    for name in change.get("load", ()):
        if name not in loaded and (limit is None or len(loaded) < limit):
            loaded.append(name)
    return loaded


def merge_entries(current: Mapping[str, Entry] | None, update: Mapping[str, Entry | None] | None) -> dict[str, Entry]:
    """Apply a change to a map: new values replace old ones, None removes."""
    merged = dict(current or {})
    for key, value in (update or {}).items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def merge_names(current: Sequence[str] | None, update: Sequence[str] | None) -> list[str]:
    """Add names that are not there yet."""
    return list(dict.fromkeys((*(current or ()), *(update or ()))))
