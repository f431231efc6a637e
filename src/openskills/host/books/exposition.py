"""The numbers of a host as the text that Prometheus reads. Pure, but for the question which numbers are stale.

prometheus-client writes the same text in nine times the time: with some hundred skills a scrape would stop the event
loop for longer than most invocations take. Its parser reads ours in the tests.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from openskills.host.books.counters import BUCKETS, Counters, Labels, added

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STALE = 15.0
"""Seconds after which a worker that wrote nothing is taken for dead."""

_COUNTS = {
    "openskills_invocations": ("Invocations that have ended.", ("skill", "runner", "code")),
    "openskills_bytes": ("Bytes of requests (in) and responses (out).", ("skill", "direction")),
    "openskills_shed": ("Calls that were sent away with 429.", ("limit",)),
    "openskills_history_lost": ("Rows of the history that could not be kept.", ()),
}
_SPREADS = {
    "openskills_invocation_seconds": ("How long invocations took.", ("skill", "runner")),
    "openskills_queue_wait_seconds": ("How long calls waited for a place.", ()),
}
_BOUNDS = tuple(f'le="{bound}"' for bound in (*BUCKETS, "+Inf"))
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(parts: Sequence[dict[str, Any]]) -> bytes:
    """The text for the numbers of all workers, added up."""
    total = added(parts)
    # What a worker had under way when it died is not under way.
    live = [part for part in parts if time.time() - part["at"] < STALE]
    lines = [*_counts(total), *_spreads(total), *_gauges(live), ""]
    return "\n".join(lines).encode("utf-8", "replace")


def _counts(total: Counters) -> Iterator[str]:
    for name, (text, labels) in _COUNTS.items():
        yield from _head(f"{name}_total", text, "counter")
        for key, value in sorted(total.counts.get(name, {}).items()):
            yield f"{name}_total{_braced(_pairs(labels, key))} {value}"


def _spreads(total: Counters) -> Iterator[str]:
    for name, (text, labels) in _SPREADS.items():
        yield from _head(name, text, "histogram")
        for key, (*numbers, seconds) in sorted(total.spreads.get(name, {}).items()):
            pairs = _pairs(labels, key)
            before = f"{pairs}," if pairs else ""
            count = 0.0
            for bound, number in zip(_BOUNDS, numbers, strict=True):
                count += number
                yield f"{name}_bucket{{{before}{bound}}} {count}"
            yield f"{name}_count{_braced(pairs)} {count}"
            yield f"{name}_sum{_braced(pairs)} {seconds}"


def _gauges(live: Sequence[dict[str, Any]]) -> Iterator[str]:
    flying: dict[str, int] = {}
    for part in live:
        for skill, number in part["in_flight"].items():
            flying[skill] = flying.get(skill, 0) + number
    yield from _head("openskills_in_flight", "Invocations under way.", "gauge")
    for skill, number in sorted(flying.items()):
        yield f"openskills_in_flight{_braced(_pairs(('skill',), (skill,)))} {number}"
    yield from _head("openskills_queue_length", "Calls that wait for a place.", "gauge")
    yield f"openskills_queue_length {sum(part['waiting'] for part in live)}"
    yield from _head("openskills_workers", "Workers that are alive.", "gauge")
    yield f"openskills_workers {len(live)}"


def _head(name: str, text: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _pairs(labels: Sequence[str], values: Labels) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(labels, values, strict=True))


def _braced(pairs: str) -> str:
    return f"{{{pairs}}}" if pairs else ""
