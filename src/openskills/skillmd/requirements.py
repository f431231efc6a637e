"""What a skill needs from the machine it is used on, as real skills declare it in `metadata`."""

from collections.abc import Iterator, Mapping, Sequence
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
    found = [block for block in _blocks(metadata) if block]
    if not found:
        return NO_REQUIREMENTS
    return Requirements(
        bins=_union(words(block.get("bins")) for block in found),
        any_bins=_union(words(block.get("anyBins", block.get("any_bins"))) for block in found),
        env=_union(words(block.get("env")) for block in found),
        platforms=_union(_platforms(block.get("os")) for block in found),
        always=any(block.get("always") == "true" for block in found),
    )


def words(value: Value) -> tuple[str, ...]:
    """A list written as a YAML list or as text with spaces or commas between the items."""
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    if isinstance(value, Sequence):
        return tuple(item.strip() for item in value if isinstance(item, str) and item.strip())
    return ()


_DEMANDS = frozenset({"requires", "bins", "anyBins", "any_bins", "env", "os", "always"})


def _blocks(metadata: Mapping[str, Value]) -> Iterator[Mapping[str, Value]]:
    for holder in (metadata, *metadata.values()):
        if isinstance(holder, Mapping) and not _DEMANDS.isdisjoint(holder):
            yield {key: holder[key] for key in _DEMANDS - {"requires"} if key in holder}
            requires = holder.get("requires")
            if isinstance(requires, Mapping):
                yield requires


def _platforms(value: Value) -> tuple[str, ...]:
    return tuple(_PLATFORMS.get(word.lower(), word.lower()) for word in words(value))


def _union(groups: Iterator[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for group in groups for word in group))
