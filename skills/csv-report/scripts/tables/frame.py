"""Where things are in a chart: the numbers of the axes, and the place of a value on the sheet."""

from __future__ import annotations

import math
import unicodedata
from datetime import date

from tables.plot import Plot
from tables.reading import Fault

FONT = 12
_LARGEST, _FINEST = 1e300, 1e-12
_FEW_DAYS, _FEW_MONTHS = 60, 12
_MONTHS = (1, 2, 3, 6, *(12 * years for years in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)))


class Frame:
    """The sheet, the area of the chart in it, the numbers at the y axis and the labels at the x axis."""

    def __init__(self, plot: Plot, kind: str, width: int, height: int) -> None:
        self.plot, self.width, self.height = plot, width, height
        self.y_ticks = ticks(*extent(plot, kind), max(3, height // 70))
        self.y_labels = shown(self.y_ticks)
        self.names = [cut(label) for label in plot.labels]
        self.right, self.top = width - 24.0, 64.0 if len(plot.series) > 1 else 44.0
        self.left = 34 + max(map(width_of, self.y_labels))
        widest = max(map(width_of, self.names))
        self.tilted = plot.places is None and (widest + 6) * len(self.names) > self.right - self.left
        if self.tilted:
            # The first label leans out to the left.
            self.left = max(self.left, 0.82 * width_of(self.names[0]) + 24)
        self.room = (self.right - self.left) / len(plot.labels)
        self.bottom = height - 46 - (min(140.0, 0.6 * widest + 4) if self.tilted else FONT)
        if self.right - self.left < 100 or self.bottom - self.top < 80:
            raise Fault(2, "--width, --height: there is no room for the chart; make them larger")
        self.low, self.high = span(plot.places)

    def x(self, number: int) -> float:
        """The middle of a place on the x axis."""
        if self.plot.places is None:
            return self.left + (number + 0.5) * self.room
        return self.at(self.plot.places[number])

    def at(self, place: float) -> float:
        """Where a number of the x axis is."""
        # By halves, because the whole distance may be too large for a number.
        part = (place / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.left + part * (self.right - self.left)

    def y(self, value: float) -> float:
        """Where a number of the y axis is."""
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)

    def x_marks(self) -> list[tuple[float, str]]:
        """What may stand below the x axis: round numbers and the beginnings of months, or what the table says."""
        if self.plot.timed and self.high - self.low > _FEW_DAYS and len(self.names) > _FEW_MONTHS:
            return [(self.at(place), text) for place, text in months(self.low, self.high)]
        if self.plot.places is None or self.plot.timed:
            return [(self.x(number), name) for number, name in enumerate(self.names)]
        inner = [value for value in ticks(self.low, self.high, 8) if self.low <= value <= self.high]
        return [(self.at(value), text) for value, text in zip(inner, shown(inner))]  # noqa: B905 - Python 3.9


def span(places: list[float] | None) -> tuple[float, float]:
    """The first and last number of the x axis."""
    low, high = (places[0], places[-1]) if places else (0.0, 1.0)
    if low == high:
        return low - 0.5 - abs(low) / 2, high + 0.5 + abs(high) / 2
    if not drawable(low, high):
        raise Fault(3, f"--x: numbers from {low:g} to {high:g} cannot be drawn on one axis")
    return low, high


def extent(plot: Plot, kind: str) -> tuple[float, float]:
    """The lowest and highest value of the y axis. Bars begin at zero, or their lengths would lie."""
    values = [value for _, series in plot.series for value in series if value is not None]
    low, high = min(values), max(values)
    if kind == "bar" or 0 <= low <= 0.4 * high or 0.4 * low <= high <= 0:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        low, high = (low - abs(low) / 2, high + abs(high) / 2) if low else (0.0, 1.0)
    if not drawable(low, high):
        raise Fault(3, f"--y: values from {low:g} to {high:g} cannot be drawn on one axis")
    return low, high


def drawable(low: float, high: float) -> bool:
    """Whether there are numbers enough between two for an axis."""
    largest = max(abs(low), abs(high))
    return high - low > 1 / _LARGEST and largest < _LARGEST and high - low > _FINEST * largest


def ticks(low: float, high: float, wanted: int) -> list[float]:
    """Round numbers, evenly apart, from at or below `low` to at or above `high`."""
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (1, 2, 2.5, 5, 10) if step * power >= rough * 0.999999) * power
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.14g}") for number in range(first, last + 1)]


def months(low: float, high: float) -> list[tuple[float, str]]:
    """The beginnings of months or years between two days, as many as have room, and what they are called."""
    step = next(step for step in _MONTHS if (high - low) / 30.4 <= _FEW_MONTHS * step)
    first = date.fromordinal(int(low))
    found: list[tuple[float, str]] = []
    for number in range((first.year * 12 + first.month - 1) // step * step, 10_000 * 12, step):
        year, month = divmod(number, 12)
        place = date(year, month + 1, 1).toordinal() if year else 0
        if place > high:
            break
        if place >= low:
            found.append((float(place), f"{year:04d}" if step % 12 == 0 else f"{year:04d}-{month + 1:02d}"))
    return found


def shown(values: list[float]) -> list[str]:
    """Numbers of an axis, all with as many places as one of them needs."""
    largest = max(map(abs, values), default=0.0)
    if largest >= 1e9 or largest < 1e-4:
        return [f"{value:.6g}" for value in values]
    places = max(len(f"{value:.9f}".rstrip("0").partition(".")[2]) for value in values)
    return [f"{value:,.{places}f}" for value in values]


def width_of(text: str) -> float:
    """About how wide a text is, in pixels."""
    return sum(1.0 if unicodedata.east_asian_width(one) in "WF" else 0.58 for one in text) * FONT


def cut(text: str, most: int = 24) -> str:
    """A text that is not longer than there is room for."""
    return text if len(text) <= most else text[: most - 1] + "…"
