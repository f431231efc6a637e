"""Measurements that are taken in turns: each gives several numbers, and one that fails is reported, not raised."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from report import time_text
from running_part import NotMeasured, plain_table
from sampling import Series, Way

Reading = Mapping[str, float]
"""What one measurement gives, by name; `seconds` is what it took."""
Take = Callable[[], Awaitable[Reading]]
"""Measures once; raises `NotMeasured` where that cannot be done."""


@dataclass(frozen=True)
class Turns:
    """What was measured, by way, and why others were not."""

    readings: Mapping[str, Sequence[Reading]]
    missing: Mapping[str, str]

    def series(self, way: str, number: str = "seconds") -> Series:
        """One of the numbers of a way. Raises `RuntimeError` for one that was not measured."""
        if way in self.missing:
            raise RuntimeError(self.missing[way])
        return Series(tuple(reading[number] for reading in self.readings[way]))

    def median(self, way: str, number: str = "seconds") -> float | None:
        """The one in the middle; None for what was not measured."""
        return self.series(way, number).median if way in self.readings else None

    def ratio(self, way: str, other: str, number: str = "seconds") -> float | None:
        """How many times of the other's median a way's is."""
        above, below = self.median(way, number), self.median(other, number)
        return None if above is None or below is None else above / below

    def why(self, *ways: str) -> str:
        """Why these were not measured."""
        return "; ".join(self.missing[way] for way in ways if way in self.missing)


def timed_takes(ways: Mapping[str, Way]) -> dict[str, Take]:
    """Ways as measurements that give nothing but how long they took."""

    def taking(way: Way) -> Take:
        async def once() -> Reading:
            return {"seconds": await way()}

        return once

    return {name: taking(way) for name, way in ways.items()}


async def take_turns(
    ways: Mapping[str, Take], rounds: int, *, before: int = 0, at_most: Mapping[str, int] | None = None
) -> Turns:
    """Every way once in every round, each round beginning with another one; `before` it, some that do not count.

    A slow way may be taken `at_most` so many times. One that fails is taken no more, and none of its numbers count.
    """
    readings: dict[str, list[Reading]] = {name: [] for name in ways}
    missing: dict[str, str] = {}
    names = list(ways)
    for number in range(before + rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            if name in missing or number >= before + (at_most or {}).get(name, rounds):
                continue
            try:
                reading = await ways[name]()
            except NotMeasured as reason:
                missing[name] = str(reason)
                continue
            if number >= before:
                readings[name].append(reading)
    return Turns({name: taken for name, taken in readings.items() if name not in missing}, missing)


def turns_table(series: Mapping[str, Series], base: str, found: Mapping[str, int] | None = None) -> str:
    """Medians, quartiles and how often each was taken, against one of them; `found` is how many skills each saw."""
    head = ["", "median", "interquartile range", "runs", f"vs. {base}"]
    rows: list[list[str]] = []
    for name, one in series.items():
        low, high = map(time_text, one.quartiles)
        ratio = one.median / series[base].median
        row = [name, time_text(one.median), f"{low} to {high}", str(len(one.seconds)), f"{ratio:.2f}x"]
        rows.append([*row, f"{found[name]:,}"] if found else row)
    return plain_table([*head, "skills found"] if found else head, rows)


def raw_turns(series: Mapping[str, Series]) -> dict[str, object]:
    """Medians, quartiles and the number of repeats, for programs."""
    return {
        name: {"median": one.median, "quartiles": one.quartiles, "repeats": len(one.seconds), "seconds": one.seconds}
        for name, one in series.items()
    }
