"""How often things happened in this process. Any thread may count and read at any time."""

import threading
from collections.abc import Mapping
from typing import NamedTuple

from openskills.telemetry import otel
from openskills.telemetry.values import to_one_line

MAX_LABELS = 100
"""Sets of labels of one counter. What comes after them is counted together, as `overflow`."""
MAX_NAMES = 200
OVERFLOW = "overflow"

_Labels = tuple[tuple[str, str], ...]


class Count(NamedTuple):
    """One number: how often, or how much, for one set of labels."""

    name: str
    labels: Mapping[str, str]
    value: int


class CounterRegistry:
    """Numbers that only grow, by name and labels. However many labels somebody invents, they take little memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[_Labels, int]] = {}

    def add(self, name: str, amount: int, labels: Mapping[str, object]) -> Count:
        """Add to a counter; returns it as it is now. Raises `ValueError` for less than nothing."""
        if amount < 0:
            raise ValueError(f"{name}: a counter only grows; {amount} is negative")
        key = tuple(sorted((label, _format_label(value)) for label, value in labels.items() if value is not None))
        with self._lock:
            if name not in self._values and len(self._values) >= MAX_NAMES:
                name, key = OVERFLOW, ()
            values = self._values.setdefault(name, {})
            if key not in values and len(values) >= MAX_LABELS:
                key = ((OVERFLOW, "true"),)
            values[key] = value = values.get(key, 0) + amount
        return Count(name, dict(key), value)

    def snapshot(self) -> tuple[Count, ...]:
        """All of them at one moment, sorted by name and labels."""
        with self._lock:
            found = [(name, key, value) for name, values in self._values.items() for key, value in values.items()]
        return tuple(Count(name, dict(key), value) for name, key, value in sorted(found))


_process = CounterRegistry()


def count(name: str, amount: int = 1, **labels: str | bool | int | None) -> None:
    """Count something, here and in the metrics of an application that has OpenTelemetry. Nothing happens for 0.

    Labels have few values each: a reason, a tool, never a path or a text. One of None is no label.
    """
    if amount:
        counted = _process.add(name, amount, labels)
        otel.add_to_counter(counted.name, amount, counted.labels)


def counters() -> tuple[Count, ...]:
    """What was counted in this process so far."""
    return _process.snapshot()


def _format_label(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else to_one_line(str(value))
