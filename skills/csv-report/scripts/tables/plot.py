"""What a chart shows: columns chosen, rows with the same x put together, labels in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice

from tables.reading import Fault, as_number

COMBINE = ("sum", "mean", "min", "max", "count")
MAX_LABELS = 200_000
EMPTY = "(empty)"

_LOOKED_AT = 1000
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}(?:-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?)?")


@dataclass(frozen=True)
class Wanted:
    """What the user asked for: columns by name or number, and how rows with the same x are put together."""

    x: str | None
    y: Sequence[str]
    combine: str
    kind: str
    bars: int


@dataclass
class Plot:
    """One label for each place on the x axis, and the values of each series, None where there is none.

    `places` are numbers on the x axis; without them the labels stand side by side.
    """

    x_name: str
    y_name: str
    labels: list[str]
    series: list[tuple[str, list[float | None]]]
    places: list[float] | None = None
    timed: bool = False
    notes: list[str] = field(default_factory=list[str])


@dataclass
class Heap:
    """The numbers of the rows with the same x."""

    count: int = 0
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.low, self.high = min(self.low, value), max(self.high, value)

    def combined(self, how: str) -> float | None:
        if how == "count":
            return float(self.count)
        found = {"sum": self.total, "mean": self.total / max(1, self.count), "min": self.low, "max": self.high}
        return found[how] if self.count else None


def plot_of(header: list[str], rows: Iterator[list[str]], wanted: Wanted) -> Plot:
    """Read the rows and put them together. Raises `Fault` for a column that is not there, and without numbers."""
    head = list(islice(rows, _LOOKED_AT))
    x, ys = chosen(header, head, wanted)
    heaps, unread = gathered(chain(head, rows), x, ys)
    names = [header[y] for y in ys] or ["rows"]
    series = [
        (name, [heap[place].combined(wanted.combine) for heap in heaps.values()]) for place, name in enumerate(names)
    ]
    several = any(heap.count > 1 for group in heaps.values() for heap in group)
    said = f"{wanted.combine} of {', '.join(names)}" if several else ", ".join(names)
    plot = Plot(header[x], "number of rows" if not ys else said, list(heaps), series)
    if unread:
        plot.notes.append(f"{unread:,} cells are not numbers and were left out")
    if not any(value is not None for _, values in series for value in values):
        raise Fault(3, f"there are no numbers in {', '.join(names)}" if heaps else "there are no rows to draw")
    return in_order(plot, wanted)


def chosen(header: list[str], head: list[list[str]], wanted: Wanted) -> tuple[int, list[int]]:
    """The column of the x axis and those of the y axis: as told, or the first that are of use."""
    ys = [column(name, header, "--y") for name in wanted.y]
    numeric = [number for number in range(len(header)) if is_numeric(number, head)]
    if wanted.x is not None:
        x = column(wanted.x, header, "--x")
    else:
        free = [number for number in range(len(header)) if number not in ys]
        x = next((number for number in free if number not in numeric), free[0] if free else 0)
    if not ys and wanted.combine != "count":
        ys = [number for number in numeric if number != x][:1]
        if not ys:
            raise Fault(3, "there is no column of numbers to draw; name one with --y, or use --combine count")
    return x, ys


def column(wanted: str, header: list[str], option: str) -> int:
    """The place of a column that was given by name or number."""
    if wanted in header:
        return header.index(wanted)
    folded = [name.casefold() for name in header]
    if wanted.casefold() in folded:
        return folded.index(wanted.casefold())
    if wanted.isdecimal() and len(wanted) < 6 and 1 <= int(wanted) <= len(header):
        return int(wanted) - 1
    names = ", ".join(header[:20]) + (", …" if len(header) > 20 else "")
    raise Fault(2, f"{option}: unknown column {wanted!r}; the table has: {names}")


def is_numeric(number: int, head: list[list[str]]) -> bool:
    seen = [text for row in head if (text := cell(row, number))]
    return bool(seen) and sum(as_number(text) is not None for text in seen) >= 0.9 * len(seen)


def cell(row: list[str], number: int) -> str:
    return row[number].strip() if number < len(row) else ""


def gathered(rows: Iterator[list[str]], x: int, ys: list[int]) -> tuple[dict[str, list[Heap]], int]:
    """The numbers for each label, and how many cells were left out. Without columns of numbers, rows are counted."""
    heaps: dict[str, list[Heap]] = {}
    unread = 0
    for row in rows:
        label = cell(row, x) or EMPTY
        if label not in heaps:
            if len(heaps) == MAX_LABELS:
                raise Fault(3, f"--x: there are more than {MAX_LABELS:,} different values")
            heaps[label] = [Heap() for _ in ys or [x]]
        if not ys:
            heaps[label][0].add(1.0)
        for place, y in enumerate(ys):
            text = cell(row, y)
            value = as_number(text)
            if value is not None:
                heaps[label][place].add(value)
            elif text:
                unread += 1
    return heaps, unread


def in_order(plot: Plot, wanted: Wanted) -> Plot:
    """Along the x axis by number or time where all labels are such; bars beyond the limit are left out, and said."""
    known = [number for number, label in enumerate(plot.labels) if label != EMPTY]
    for reading in (as_number, as_moment):
        places = {number: place for number in known if (place := reading(plot.labels[number])) is not None}
        if known and len(places) == len(known):
            if len(known) < len(plot.labels):
                plot.notes.append(f"rows without {plot.x_name} are left out")
            order = sorted(known, key=places.__getitem__)
            pick(plot, order)
            plot.timed = reading is as_moment
            plot.places = [places[number] for number in order] if wanted.kind == "line" else None
            break
    if wanted.kind == "bar" and len(plot.labels) > wanted.bars:
        first = plot.series[0][1]
        largest = sorted(range(len(first)), key=lambda number: -abs(first[number] or 0.0))[: wanted.bars]
        plot.notes.append(f"the {wanted.bars} largest of {len(first):,} are shown")
        pick(plot, sorted(largest))
    return plot


def pick(plot: Plot, order: list[int]) -> None:
    """Keep these places, in this order."""
    plot.labels = [plot.labels[number] for number in order]
    plot.series = [(name, [values[number] for number in order]) for name, values in plot.series]


def as_moment(text: str) -> float | None:
    """Days since the year 1 of `2026-01`, `2026-01-31` and `2026-01-31 12:00`; None for everything else."""
    if not _MOMENT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text + "-01" if len(text) == len("2026-01") else text)
    except ValueError:
        return None
    return moment.toordinal() + (moment.hour * 3600 + moment.minute * 60 + moment.second) / 86400
