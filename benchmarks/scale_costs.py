"""Several costs of things of one kind, each followed over their sizes, as a part of the page."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar

from running_part import Part, Surroundings
from sampling import Way
from scale_curve import Curve, chart_of, curves_table, raw_curves, targets_of, time_ways
from scale_sizes import sizes_of

T = TypeVar("T")
Costs = Mapping[str, tuple[Callable[[T, AsyncExitStack], Awaitable[Way]], float]]
"""By label: what makes the way that is timed, for one thing, and the largest exponent that it may have."""


@dataclass(frozen=True)
class Growing(Generic[T]):
    """What grows: how the part and its picture are called, what the sizes count, and every cost of it."""

    title: str
    about: str
    picture: str
    counted: str
    costs: Costs[T]

    async def measured(self, things: Mapping[int, T], at: Surroundings) -> Part:
        """Every cost, over all sizes."""
        sizes = sizes_of(at.extent)
        name = self.title.lower()
        curves: list[Curve] = []
        async with AsyncExitStack() as stack:
            for label, (make, bound) in self.costs.items():
                at.say(f"{name}: {label}")
                ways = {size: await make(thing, stack) for size, thing in things.items()}
                curves.append(
                    Curve(label, await time_ways(ways, max_turns=sizes.max_turns, seconds=sizes.seconds), bound)
                )
        return Part(
            self.title,
            self.about,
            targets_of(curves, self.counted),
            curves_table(curves, self.counted),
            raw=raw_curves(curves),
            charts=[chart_of(name, self.picture, self.counted, "seconds", curves)],
        )
