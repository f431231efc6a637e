"""What a path in a workspace means, whatever the links under a skill's root make of it. Pure."""

from collections.abc import Sequence
from functools import lru_cache

from openskills.errors import ForbiddenPath
from openskills.executors.layout import INPUTS, OUT, RUNS, SKILLS, WORK
from openskills.paths import relative

WRITABLE = (WORK, OUT, RUNS)
"""Where files may be put."""

_UNDER_A_SKILL = {"out": (OUT,), "work": (WORK,), "inputs": tuple(INPUTS.split("/"))}


def place(path: str, *, field: str = "path") -> str:
    """The one spelling of a path in the workspace, relative to it.

    `inputs/x` is `work/inputs/x`, `skills/<name>/out/x` is `out/x`, and so on for `work` and `inputs` there. Raises
    `ForbiddenPath` for what climbs out, `InvalidArgument` for what is no path.
    """
    return _place(path, field)


# Every command asks for the same few.
@lru_cache(1024)
def _place(path: str, field: str) -> str:
    return "/".join(place_parts(relative(path, field=field).parts))


def writable_place(path: str, *, field: str = "path") -> str:
    """The same for something that is to be put there or removed; raises `ForbiddenPath` for a place of skills, for
    the workspace's own directories, and for what lies beside them."""
    found = place(path, field=field)
    top, _, rest = found.partition("/")
    if top == SKILLS:
        raise ForbiddenPath(f"{field}: {path!r} is in {SKILLS}/; skills are read-only")
    if top not in WRITABLE:
        raise ForbiddenPath(f"{field}: {path!r} is in none of the workspace's directories {', '.join(WRITABLE)}")
    if not rest:
        raise ForbiddenPath(f"{field}: {path!r} is a directory of the workspace itself; name something in it")
    return found


def place_parts(parts: Sequence[str]) -> tuple[str, ...]:
    """The same for the parts of a path or pattern that have been checked already."""
    if len(parts) >= 3 and parts[0] == SKILLS and parts[2] in _UNDER_A_SKILL:
        return (*_UNDER_A_SKILL[parts[2]], *parts[3:])
    if parts[0] == "inputs":
        return (*_UNDER_A_SKILL["inputs"], *parts[1:])
    return tuple(parts)
