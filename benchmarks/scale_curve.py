"""A cost at several sizes, the exponent with which it grows, and how that reads."""

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from charts import Chart, Line
from report import Target, time_text
from running_part import plain_table, repeats_text
from sampling import Series, Way, growth

LINEAR, FLAT = 1.2, 0.25
"""The largest exponents that count as linear and as flat: so much the spread of the times, and caches that many
things do not fit into, can make of 1 and 0."""

Steps = Callable[[], Awaitable[dict[str, float]]]
"""Does some things once, and says how many seconds each took."""


@dataclass(frozen=True)
class Curve:
    """What one thing costs, by size. `bound` is the largest exponent that it may have."""

    label: str
    points: Mapping[int, Series]
    bound: float = LINEAR
    bytes: bool = False

    @property
    def medians(self) -> list[tuple[float, float]]:
        """Size and cost, from the smallest to the largest size."""
        return [(size, self.points[size].median) for size in sorted(self.points)]

    @property
    def exponent(self) -> float:
        """Of the power law that fits best to all sizes."""
        return exponent(self.medians)

    @property
    def last_exponent(self) -> float:
        """The same for the larger half of the sizes, where what everything costs anyway hides nothing: the promise."""
        return exponent(self.medians[max(len(self.points) // 2 - (len(self.points) < 5), 0) :])

    def text(self, size: int) -> str:
        """The cost at a size."""
        if size not in self.points:
            return ""
        return bytes_text(self.points[size].median) if self.bytes else time_text(self.points[size].median)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """How the cost grows with the size: 0 is flat, 1 is linear."""
    sizes = [size for size, _ in points]
    return math.log(growth(points)) / math.log(max(sizes) / min(sizes))


async def time_ways(ways: Mapping[int, Way], *, max_turns: int, seconds: float) -> dict[int, Series]:
    """Every size once in every round, as long as it has had neither its turns nor its time.

    The first turn does not count, unless it took so long that there is hardly another.
    """

    def alone(way: Way) -> Steps:
        async def once() -> dict[str, float]:
            return {"": await way()}

        return once

    return (await time_steps({size: alone(way) for size, way in ways.items()}, max_turns=max_turns, seconds=seconds))[
        ""
    ]


async def time_steps(steps: Mapping[int, Steps], *, max_turns: int, seconds: float) -> dict[str, dict[int, Series]]:
    """The same for work whose steps are timed one by one; by step, by size."""
    found: dict[int, list[dict[str, float]]] = {size: [] for size in steps}
    spent = dict.fromkeys(steps, 0.0)
    for size, once in steps.items():
        first = await once()
        if sum(first.values()) > seconds / 3:
            spent[size] = sum(first.values())
            found[size].append(first)
    while left := [size for size in steps if len(found[size]) < max_turns and spent[size] < seconds]:
        for size in left:
            found[size].append(await steps[size]())
            spent[size] += sum(found[size][-1].values())
    names = next(iter(found.values()))[0]
    return {
        name: {size: Series(tuple(turn[name] for turn in turns)) for size, turns in found.items()} for name in names
    }


def timing(act: Callable[[], object], *, times: int = 1) -> Way:
    """The way that does this, so many times; what it gives is thrown away after the clock has stopped."""

    async def once() -> float:
        begin = time.perf_counter()
        kept = [act() for _ in range(times)]
        seconds = time.perf_counter() - begin
        del kept
        return seconds / times

    return once


def targets_of(curves: Sequence[Curve], what: str) -> list[Target]:
    """What is promised about each: how it grows over the larger half of the sizes."""
    return [
        Target(
            f"{curve.label}, by {what}", curve.last_exponent, curve.bound, at_least=False, unit="(exponent)", digits=2
        )
        for curve in curves
    ]


def curves_table(curves: Sequence[Curve], what: str) -> str:
    """The costs by size, the exponents, and how often each was taken."""
    sizes = sorted({size for curve in curves for size in curve.points})
    head = [what, *(f"{size:,}" for size in sizes), "exponent", "exponent, larger half"]
    rows = [
        [curve.label, *map(curve.text, sizes), f"{curve.exponent:.2f}", f"{curve.last_exponent:.2f}"]
        for curve in curves
    ]
    taken = [len(one.seconds) for curve in curves for one in curve.points.values()]
    return f"{plain_table(head, rows)}\n\n{repeats_text(taken)}"


def chart_of(name: str, title: str, what: str, cost: str, curves: Sequence[Curve]) -> Chart:
    """Both axes logarithmic, so that a power law is a straight line; its exponent stands beside it."""
    lines = [Line(f"{curve.label}: {curve.exponent:.2f}", curve.medians) for curve in curves]
    return Chart(name, f"{title}, with fitted exponents", what, cost, lines, log_x=True, log_y=True)


def raw_curves(curves: Sequence[Curve]) -> dict[str, object]:
    """All of it as numbers."""
    return {
        curve.label: {
            "exponent": curve.exponent,
            "last_exponent": curve.last_exponent,
            "points": {
                str(size): {"median": one.median, "quartiles": one.quartiles, "turns": len(one.seconds)}
                for size, one in curve.points.items()
            },
        }
        for curve in curves
    }


def bytes_text(size: float) -> str:
    """Bytes with as many digits as mean something."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size:.0f} B"
