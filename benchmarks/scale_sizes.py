"""How far each cost is followed, and how much time that may take."""

from dataclasses import dataclass

from running_part import QUICK, TINY, Extent

MB = 1_000_000


@dataclass(frozen=True)
class Sizes:
    """The sizes that are measured; each gets at most `max_turns` turns, and none after it has had its `seconds`."""

    skills: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)
    sessions: tuple[int, ...] = (1, 10, 100, 1_000)
    clients: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    events: tuple[int, ...] = (10, 50, 250, 1_000, 5_000)
    output_bytes: tuple[int, ...] = (MB, 10 * MB, 100 * MB, 1_000 * MB)
    max_turns: int = 15
    seconds: float = 1.0
    load_seconds: float = 1.0
    """How long so many clients call at once."""


_ROUGH = Sizes(
    skills=(10, 100, 1_000, 10_000),
    sessions=(1, 10, 100),
    clients=(1, 8, 64),
    events=(10, 100, 1_000),
    output_bytes=(MB, 10 * MB, 100 * MB),
    max_turns=5,
    seconds=0.3,
    load_seconds=0.5,
)
_TINY = Sizes(
    skills=(10, 40),
    sessions=(1, 4),
    clients=(1, 2),
    events=(10, 40),
    output_bytes=(MB // 10, MB),
    max_turns=1,
    seconds=0.01,
    load_seconds=0.1,
)


def sizes_of(extent: Extent) -> Sizes:
    """The sizes of an extent."""
    return {QUICK: _ROUGH, TINY: _TINY}.get(extent, Sizes())
