"""Ways that are taken in turns, some of which may fail in the middle: that is a result, and no reason to stop."""

import math
from collections.abc import Mapping

from running_part import NotMeasured
from sampling import Series, Way, in_turns


async def in_turns_or_why(
    ways: Mapping[str, Way], rounds: int, missing: dict[str, str], *, before: int = 2
) -> dict[str, Series]:
    """Like `in_turns`, without the ways that raise `NotMeasured`; their reasons are added to `missing`, by name."""
    failed: dict[str, str] = {}
    found = await in_turns({name: _lasting(name, way, failed) for name, way in ways.items()}, rounds, before=before)
    missing |= failed
    return {name: series for name, series in found.items() if name not in failed}


def _lasting(name: str, way: Way, failed: dict[str, str]) -> Way:
    async def once() -> float:
        if name not in failed:
            try:
                return await way()
            except NotMeasured as reason:
                failed[name] = str(reason)
        return math.nan

    return once
