"""Statistics of many numbers, exact: every number is an integer times one power of ten."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from exact.values import Fault, Value, approximate

MAX_NUMBERS = 2_000_000
MAX_PLACES = 300
"""Digits before and after the point."""
MAX_MODES = 10

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?")


@dataclass(frozen=True)
class Sample:
    """Sorted numbers, each `integers[i] / 10**places`."""

    integers: list[int]
    places: int

    def number(self, integer: Fraction | int) -> Fraction:
        return Fraction(integer) / 10**self.places


def scaled(texts: Iterable[tuple[str, str]], *, skip: bool) -> tuple[Sample, int]:
    """Texts, each with the place where it stands, as numbers; how many were none, when those are to be skipped."""
    pairs: list[tuple[int, int]] = []
    skipped = 0
    for where, text in texts:
        pair = parsed(text)
        if pair is None:
            if not skip:
                raise Fault(f"{where}: {text[:40]!r} is not a number; use --skip to leave out such cells")
            skipped += 1
            continue
        pairs.append(pair)
        if len(pairs) > MAX_NUMBERS:
            raise Fault(f"more than {MAX_NUMBERS:,} numbers")
    places = max((-exponent for _, exponent in pairs), default=0)
    places = max(places, 0)
    return Sample(sorted(whole * 10 ** (exponent + places) for whole, exponent in pairs), places), skipped


def parsed(text: str) -> tuple[int, int] | None:
    """An integer and the exponent of ten that belongs to it."""
    found = _NUMBER.fullmatch(text.strip())
    if not found or not (found[2] or found[3]):
        return None
    part = (found[3] or "").rstrip("0")
    exponent = int(found[4] or 0) - len(part)
    if abs(exponent) > MAX_PLACES or len(found[2]) + len(part) > MAX_PLACES:
        raise Fault(f"{text[:40]!r} has more than {MAX_PLACES} places")
    return int(found[1] + (found[2] + part or "0")), exponent


def statistics(sample: Sample) -> dict[str, Value]:
    """The usual figures. Quartiles by the inclusive method: the data are all there is."""
    values, count = sample.integers, len(sample.integers)
    total = sum(values)
    mean = Fraction(total, count)
    # The sum of squared distances, without a difference of large numbers being rounded.
    spread = (Fraction(sum(value * value for value in values)) - mean * total) / 100**sample.places
    figures: dict[str, Value] = {
        "count": Fraction(count),
        "sum": sample.number(total),
        "min": sample.number(values[0]),
        "quartile 1": sample.number(quantile(values, Fraction(1, 4))),
        "median": sample.number(quantile(values, Fraction(1, 2))),
        "quartile 3": sample.number(quantile(values, Fraction(3, 4))),
        "max": sample.number(values[-1]),
        "range": sample.number(values[-1] - values[0]),
        "mean": sample.number(mean),
        "variance (population)": spread / count,
        "deviation (population)": root(spread / count),
    }
    if count > 1:
        figures["variance (sample)"] = spread / (count - 1)
        figures["deviation (sample)"] = root(spread / (count - 1))
    return figures


def quantile(values: list[int], part: Fraction) -> Fraction:
    place = part * (len(values) - 1)
    low = place.__floor__()
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def root(value: Fraction) -> Value:
    return approximate(value).sqrt() if value else Decimal(0)


def modes(sample: Sample) -> tuple[list[Fraction], int]:
    """The most frequent numbers, and how often each is there; none when all are there equally often."""
    counts = Counter(sample.integers)
    most = max(counts.values())
    found = [value for value, count in counts.items() if count == most]
    if len(found) == len(counts) and len(counts) > 1:
        return [], most
    return [sample.number(value) for value in found[:MAX_MODES]], most
