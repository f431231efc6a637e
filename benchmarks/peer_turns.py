"""Ways that are taken in turns, some of which may fail in the middle: that is a result, and no reason to stop."""

from collections.abc import Mapping

from readings import take_turns, timed_takes
from sampling import Series, Way


async def in_turns_or_why(
    ways: Mapping[str, Way], rounds: int, missing: dict[str, str], *, before: int = 2
) -> dict[str, Series]:
    """Like `in_turns`, without the ways that raise `NotMeasured`; their reasons are added to `missing`, by name."""
    turns = await take_turns(timed_takes(ways), rounds, before=before)
    missing |= turns.missing
    return {name: turns.series(name) for name in turns.readings}
