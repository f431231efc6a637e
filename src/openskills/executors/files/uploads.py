"""Names for files that came with a conversation. Pure."""

import os
import unicodedata
from collections.abc import Collection

from openskills.files import ARRIVING
from openskills.paths import MAX_COMPONENT

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_LONGEST_ENDING = 32
_TAKEN_FOR_MORE = ("-", "~")


def upload_name(name: str, taken: Collection[str] = ()) -> str:
    """A file name for something that somebody else has named, different from all that are taken in any case.

    Only the last part of a path is kept, of backslashes, too. Control and invisible characters become `_`, a name of
    more than 255 bytes loses its middle, and what is no name becomes `upload_1`, `upload_2`, … What a command would
    take for an option or a home directory (`-rf`, `~root`) begins with `_`. A name that is taken gets `_2`, `_3`, …
    before its ending.
    """
    used = {other.casefold() for other in taken}
    shown = "".join("_" if unicodedata.category(char) in _UNSEEN else char for char in name)
    base = shown.replace("\\", "/").rpartition("/")[2].strip()
    if base.startswith(ARRIVING):
        base = base.removeprefix(".")
    if base.startswith(_TAKEN_FOR_MORE):
        base = f"_{base}"
    if not base.strip("."):
        return next(found for number in _from(1) if (found := f"upload_{number}") not in used)
    stem, ending = _parts(base)
    if (found := _fitting(stem, "", ending)).casefold() not in used:
        return found
    return next(found for number in _from(2) if (found := _fitting(stem, f"_{number}", ending)).casefold() not in used)


def _from(first: int) -> range:
    return range(first, first + 1_000_000)


def _parts(base: str) -> tuple[str, str]:
    stem, dot, ending = base.rpartition(".")
    if not dot or not stem.strip(".") or len(os.fsencode(ending)) > _LONGEST_ENDING:
        return base, ""
    return stem, f".{ending}"


def _fitting(stem: str, number: str, ending: str) -> str:
    room = MAX_COMPONENT - len(os.fsencode(number + ending))
    return os.fsencode(stem)[:room].decode("utf-8", "ignore") + number + ending
