"""Counters of this process, safe to use from any thread."""

import threading
from collections.abc import Mapping
from typing import NamedTuple

from openskills.telemetry import otel
from openskills.telemetry.values import to_one_line

MAX_LABELS = 100
"""How many label sets one counter has; further ones are counted together as `overflow`."""
MAX_NAMES = 200
OVERFLOW = "overflow"

_Labels = tuple[tuple[str, str], ...]


class Count(NamedTuple):
    """The value of a counter for one set of labels."""

    name: str
    labels: Mapping[str, str]
    value: int


class CounterRegistry:
    """Counters by name and labels, with a limit on the number of label sets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[_Labels, int]] = {}

    def add(self, name: str, amount: int, labels: Mapping[str, object]) -> Count:
        """Add to a counter and return it. Raises `ValueError` for a negative amount."""
        if amount < 0:
            raise ValueError(f"{name}: the amount {amount} is negative; a counter only grows")
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
        """All counters, sorted by name and labels."""
        with self._lock:
            found = [(name, key, value) for name, values in self._values.items() for key, value in values.items()]
        return tuple(Count(name, dict(key), value) for name, key, value in sorted(found))


_process = CounterRegistry()


def count(name: str, amount: int = 1, **labels: str | bool | int | None) -> None:
    """Add to a counter, here and in OpenTelemetry if the application uses it.

    Labels must have few values: a reason, a tool, never a path or a text. Labels with the value None are ignored.
    """
    if amount:
        counted = _process.add(name, amount, labels)
        otel.add_to_counter(counted.name, amount, counted.labels)


def counters() -> tuple[Count, ...]:
    return _process.snapshot()


def _format_label(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else to_one_line(str(value))
