"""Numbers that only grow, by labels; plain enough to be written to a file and added to those of other processes. Pure.

An increment is one look-up in a dictionary. prometheus-client's own objects cost several times as much, and share
between processes only through a variable of the environment that must be there before it is imported.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, TypeAlias

Labels: TypeAlias = tuple[str, ...]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds in seconds; what is longer goes into one more."""


class Counters:
    """Counts and distributions of one process, each under a name and labels; `most` different ones of a name."""

    def __init__(self, most: int = 5_000) -> None:
        self._most = most
        self.counts: dict[str, dict[Labels, float]] = {}
        self.spreads: dict[str, dict[Labels, list[float]]] = {}

    def add(self, name: str, labels: Labels, amount: float = 1.0) -> None:
        """Count something. When there are too many different labels, it is counted under `other`."""
        found = self.counts.setdefault(name, {})
        if labels not in found and len(found) >= self._most:
            labels = ("other",) * len(labels)
        found[labels] = found.get(labels, 0.0) + amount

    def observe(self, name: str, labels: Labels, seconds: float) -> None:
        """Count a length of time in its bucket, and to the sum, which comes last."""
        found = self.spreads.setdefault(name, {})
        spread = found.get(labels)
        if spread is None:
            if len(found) >= self._most:
                labels = ("other",) * len(labels)
            spread = found.setdefault(labels, [0.0] * (len(BUCKETS) + 2))
        spread[bisect_left(BUCKETS, seconds)] += 1.0
        spread[-1] += seconds

    def plain(self) -> dict[str, Any]:
        """As JSON has it. May be called from another thread while the numbers grow."""
        return {
            "counts": {
                name: [[*key, value] for key, value in list(of.items())] for name, of in list(self.counts.items())
            },
            "spreads": {
                name: [[list(key), list(value)] for key, value in list(of.items())]
                for name, of in list(self.spreads.items())
            },
        }


def added(parts: Iterable[dict[str, Any]]) -> Counters:
    """The numbers of several processes in one; each part is what `plain` gave."""
    total = Counters()
    for part in parts:
        for name, rows in part["counts"].items():
            for *labels, value in rows:
                total.add(name, tuple(labels), value)
        for name, rows in part["spreads"].items():
            for labels, values in rows:
                _add_spread(total, name, tuple(labels), values)
    return total


def _add_spread(total: Counters, name: str, labels: Labels, values: list[float]) -> None:
    found = total.spreads.setdefault(name, {}).setdefault(labels, [0.0] * (len(BUCKETS) + 2))
    # A file of another version may have other buckets.
    if len(values) == len(found):
        found[:] = [one + other for one, other in zip(found, values, strict=True)]
