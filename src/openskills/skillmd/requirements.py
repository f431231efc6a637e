"""What a skill needs from the machine it is used on, as real skills declare it in `metadata`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openskills.skillmd.value import Value

_PLATFORMS = {"win32": "windows", "win": "windows", "macos": "darwin", "mac": "darwin", "osx": "darwin"}


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
    """
    found: dict[str, tuple[str, ...]] = {}
    for holder in (metadata, *metadata.values()):
        if isinstance(holder, Mapping):
            _add(holder, found)
            requires = holder.get("requires")
            if isinstance(requires, Mapping):
                _add(requires, found)
    if not found:
        return NO_REQUIREMENTS
    return Requirements(
        bins=found.get("bins", ()),
        any_bins=found.get("any_bins", ()),
        env=found.get("env", ()),
        platforms=tuple(_PLATFORMS.get(name.lower(), name.lower()) for name in found.get("platforms", ())),
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


def _add(block: Mapping[str, Value], found: dict[str, tuple[str, ...]]) -> None:
    for key, demand in _DEMANDS.items():
        if key in block:
            found[demand] = tuple(dict.fromkeys((*found.get(demand, ()), *words(block[key]))))
