"""Times that are taken in turns, so that a busy moment of the machine hits everybody, and what can be said of them."""

import math
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

Way = Callable[[], Awaitable[float]]
"""Does a thing once, and says how many seconds that took."""


@dataclass(frozen=True)
class Series:
    """The times of one way, in seconds."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The time in the middle."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Half of the times lie between these two."""
        return self.at(0.25), self.at(0.75)

    def at(self, share: float) -> float:
        """The time that this share of the times does not pass."""
        ordered = sorted(self.seconds)
        return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


async def in_turns(ways: Mapping[str, Way], rounds: int, *, before: int = 2) -> dict[str, Series]:
    """Every way once in every round, each round beginning with another one; `before` it, some rounds that do not count.

    So nobody always comes after the same neighbour, whose leftovers it would pay for.
    """
    taken: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(before + rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            seconds = await ways[name]()
            if number >= before:
                taken[name].append(seconds)
    return {name: Series(tuple(seconds)) for name, seconds in taken.items()}


def timed(act: Callable[[], Awaitable[object]]) -> Way:
    """The way that does this."""

    async def once() -> float:
        begin = time.perf_counter()
        await act()
        return time.perf_counter() - begin

    return once


def growth(points: Sequence[tuple[float, float]]) -> float:
    """How many times the cost becomes from the smallest to the largest size: a power law fitted to (size, cost).

    1 is flat; as many times as the size becomes is linear.
    """
    sizes = [math.log(size) for size, _ in points]
    costs = [math.log(cost) for _, cost in points]
    slope = statistics.linear_regression(sizes, costs).slope
    return math.exp(slope * (max(sizes) - min(sizes)))
