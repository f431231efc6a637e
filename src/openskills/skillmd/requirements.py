"""What a skill needs from the machine it is used on, as real skills declare it in `metadata`."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from openskills.skillmd.value import Value

_PLATFORMS = {
    **{name: name for name in ("linux", "darwin", "windows", "freebsd", "openbsd", "netbsd", "android", "ios")},
    "win32": "windows",
    "win": "windows",
    "macos": "darwin",
    "mac": "darwin",
    "osx": "darwin",
}
MAX_NAMES = 100
"""How many programs, variables or systems a skill may ask for; more is no demand but an attack."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Requirements:
    """Programs, environment variables and operating systems; empty means "no demand".

    All of `bins` and `env` must be there, one of `any_bins`, and the platform must be one of `platforms`
    (`linux`, `darwin`, `windows`). `always` says that the author wants the skill shown regardless.
    """

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    always: bool = False

    def __bool__(self) -> bool:
        return bool(self.bins or self.any_bins or self.env or self.platforms)


NO_REQUIREMENTS = Requirements()


def read_requirements(metadata: Mapping[str, Value]) -> Requirements:
    """Collect what `metadata` asks for.

    Two shapes are in use: `metadata.requires` (or `bins`, `env`, `os` right in `metadata`), and the same one level
    down under a client's own key, as in `metadata.openclaw.requires.bins`. Both are read; their demands add up.
    What cannot be the name of a variable or of an operating system is no demand: `env: production` outside of
    `requires` means something else.
    """
    found: dict[str, dict[str, None]] = {}
    for holder in (metadata, *metadata.values()):
        # Nearly all metadata is text, and seeing that is much quicker than asking for a map.
        if holder.__class__ is not str and isinstance(holder, Mapping):
            _add(holder, found, _is_constant)
            requires = holder.get("requires")
            if isinstance(requires, Mapping):
                _add(requires, found, _is_variable)
    if not found:
        return NO_REQUIREMENTS
    named = {demand: tuple(islice(names, MAX_NAMES)) for demand, names in found.items()}
    return Requirements(
        bins=named.get("bins", ()),
        any_bins=named.get("any_bins", ()),
        env=named.get("env", ()),
        platforms=named.get("platforms", ()),
        always="true" in found.get("always", ()),
    )


def words(value: Value) -> tuple[str, ...]:
    """A list written as a YAML list or as text with spaces or commas between the items."""
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    if isinstance(value, Sequence):
        return tuple(item.strip() for item in value if isinstance(item, str) and item.strip())
    return ()


_DEMANDS = {
    "bins": "bins",
    "anyBins": "any_bins",
    "any_bins": "any_bins",
    "env": "env",
    "os": "platforms",
    "always": "always",
}


def _add(block: Mapping[str, Value], found: dict[str, dict[str, None]], is_variable: Callable[[str], bool]) -> None:
    for key, demand in _DEMANDS.items():
        if key not in block:
            continue
        named: Iterable[str] = words(block[key])
        if key == "env":
            named = filter(is_variable, named)
        elif key == "os":
            named = (_PLATFORMS[name.lower()] for name in named if name.lower() in _PLATFORMS)
        found.setdefault(demand, {}).update(dict.fromkeys(named))


def _is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None


def _is_constant(name: str) -> bool:
    return _is_variable(name) and name.isupper()
