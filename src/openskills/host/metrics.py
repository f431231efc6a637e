"""Prometheus.

Numbers that only grow, by labels; plain enough to be written to a file and added to those of other processes. Pure.

An increment is one look-up in a dictionary. prometheus-client's own objects cost several times as much, and share
between processes only through a variable of the environment that must be there before it is imported.

The numbers of a host as the text that Prometheus reads. Pure, but for the question which numbers are stale.

prometheus-client writes the same text in nine times the time: with some hundred skills a scrape would stop the event
loop for longer than most invocations take. Its parser reads ours in the tests.

Numbers of several processes, each in a file of its own in one directory.

What the host counts, for Prometheus. Labels are bounded: nobody outside can make new series.

With several workers each writes its numbers to a file of a directory once a second, and who is asked adds up all files.
Counts of a worker that has died stay; what it had under way does not.
"""

import json
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from openskills.filesystem import replace_file
from openskills.host.model import InvokeResult

Labels: TypeAlias = tuple[str, ...]

BUCKET_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds in seconds; what is longer goes into one more."""


class HostCounters:
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
            spread = found.setdefault(labels, [0.0] * (len(BUCKET_BOUNDS) + 2))
        spread[bisect_left(BUCKET_BOUNDS, seconds)] += 1.0
        spread[-1] += seconds

    def to_dict(self) -> dict[str, Any]:
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


def merge_counters(parts: Iterable[dict[str, Any]]) -> HostCounters:
    """The numbers of several processes in one; each part is what `plain` gave."""
    total = HostCounters()
    for part in parts:
        for name, rows in part["counts"].items():
            for *labels, value in rows:
                total.add(name, tuple(labels), value)
        for name, rows in part["spreads"].items():
            for labels, values in rows:
                _add_histogram(total, name, tuple(labels), values)
    return total


def _add_histogram(total: HostCounters, name: str, labels: Labels, values: list[float]) -> None:
    found = total.spreads.setdefault(name, {}).setdefault(labels, [0.0] * (len(BUCKET_BOUNDS) + 2))
    # A file of another version may have other buckets.
    if len(values) == len(found):
        found[:] = [one + other for one, other in zip(found, values, strict=True)]


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STALE_SECONDS = 15.0
"""Seconds after which a worker that wrote nothing is taken for dead."""

_COUNTS = {
    "openskills_invocations": ("Invocations that have ended.", ("skill", "runner", "code")),
    "openskills_bytes": ("Bytes of requests (in) and responses (out).", ("skill", "direction")),
    "openskills_shed": ("Calls that were sent away with 429.", ("limit",)),
    "openskills_history_lost": ("Rows of the history that could not be kept.", ()),
}
_HISTOGRAMS = {
    "openskills_invocation_seconds": ("How long invocations took.", ("skill", "runner")),
    "openskills_queue_wait_seconds": ("How long calls waited for a place.", ()),
}
_BOUND_LABELS = tuple(f'le="{bound}"' for bound in (*BUCKET_BOUNDS, "+Inf"))
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render_exposition(parts: Sequence[dict[str, Any]]) -> bytes:
    """The text for the numbers of all workers, added up."""
    total = merge_counters(parts)
    # What a worker had under way when it died is not under way.
    live = [part for part in parts if time.time() - part["at"] < STALE_SECONDS]
    lines = [*_render_counts(total), *_render_histograms(total), *_render_gauges(live), ""]
    return "\n".join(lines).encode("utf-8", "replace")


def _render_counts(total: HostCounters) -> Iterator[str]:
    for name, (text, labels) in _COUNTS.items():
        yield from _render_head(f"{name}_total", text, "counter")
        for key, value in sorted(total.counts.get(name, {}).items()):
            yield f"{name}_total{_add_braces(_render_labels(labels, key))} {value}"


def _render_histograms(total: HostCounters) -> Iterator[str]:
    for name, (text, labels) in _HISTOGRAMS.items():
        yield from _render_head(name, text, "histogram")
        for key, (*numbers, seconds) in sorted(total.spreads.get(name, {}).items()):
            pairs = _render_labels(labels, key)
            before = f"{pairs}," if pairs else ""
            count = 0.0
            for bound, number in zip(_BOUND_LABELS, numbers, strict=True):
                count += number
                yield f"{name}_bucket{{{before}{bound}}} {count}"
            yield f"{name}_count{_add_braces(pairs)} {count}"
            yield f"{name}_sum{_add_braces(pairs)} {seconds}"


def _render_gauges(live: Sequence[dict[str, Any]]) -> Iterator[str]:
    flying: dict[str, int] = {}
    for part in live:
        for skill, number in part["in_flight"].items():
            flying[skill] = flying.get(skill, 0) + number
    yield from _render_head("openskills_in_flight", "Invocations under way.", "gauge")
    for skill, number in sorted(flying.items()):
        yield f"openskills_in_flight{_add_braces(_render_labels(('skill',), (skill,)))} {number}"
    yield from _render_head("openskills_queue_length", "Calls that wait for a place.", "gauge")
    yield f"openskills_queue_length {sum(part['waiting'] for part in live)}"
    yield from _render_head("openskills_workers", "Workers that are alive.", "gauge")
    yield f"openskills_workers {len(live)}"


def _render_head(name: str, text: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _render_labels(labels: Sequence[str], values: Labels) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(labels, values, strict=True))


def _add_braces(pairs: str) -> str:
    return f"{{{pairs}}}" if pairs else ""


_WRITE_INTERVAL = 1.0


class SharedCounters:
    """The files of all workers, and a thread that keeps ours up to date: `plain` gives what is in it.

    The directory belongs to one run of a host; who starts the workers makes an empty one.
    """

    def __init__(self, directory: Path, plain: Callable[[], dict[str, Any]]) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        # A number of a process may be used again while the numbers of the first still count.
        self._file = directory / f"worker-{os.getpid()}-{time.time_ns():x}.json"
        self._plain = plain
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="openskills-metrics", daemon=True)
        self._thread.start()

    def read_all(self) -> list[dict[str, Any]]:
        """What everybody has, ours first."""
        others = (path for path in sorted(self._directory.glob("worker-*.json")) if path != self._file)
        return [self._plain(), *(part for path in others if (part := _read_counters(path)) is not None)]

    def close(self) -> None:
        """Write a last time, and end the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_WRITE_INTERVAL):
            self._write()
        self._write()

    def _write(self) -> None:
        try:
            replace_file(self._file, json.dumps(self._plain()).encode())
        except OSError:
            # A full disk: others see older numbers of ours, and nobody is stopped from working.
            return


def _read_counters(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


UNKNOWN_SKILL = "unknown"
_MAX_SKILLS = 1_000
_VALID_CODES = range(100, 600)


class Metrics:
    """The numbers of one worker. `directory` is where all workers of a host put theirs; `None`: there is only one.

    `history_lost` says how many rows the history has lost.
    """

    def __init__(self, directory: Path | None = None, *, history_lost: Callable[[], int] = lambda: 0) -> None:
        self._counters = HostCounters()
        self._skills: set[str] = set()
        self._in_flight: dict[str, int] = {}
        self._waiting = 0
        self._history_lost = history_lost
        self._shared = None if directory is None else SharedCounters(directory, self._to_dict)

    def record_start(self, skill: str) -> None:
        """An invocation of a skill that is registered has begun; `ended` must follow."""
        self._in_flight[skill] = self._in_flight.get(skill, 0) + 1

    def record_end(
        self, result: InvokeResult, runner_type: str, *, skill: str = "", bytes_in: int = 0, bytes_out: int = 0
    ) -> None:
        """An invocation has ended. `runner_type` is empty where no skill was found: all those are counted as one.

        `skill` is the id of the registration, where the result has what was asked for.
        """
        runner = runner_type or "none"
        if runner_type:
            self._decrement(skill or result.skill_id)
            skill = self._skill_label(skill or result.skill_id)
        else:
            skill = UNKNOWN_SKILL
        code = str(result.status) if result.status in _VALID_CODES else "other"
        self._counters.add("openskills_invocations", (skill, runner, code))
        self._counters.observe("openskills_invocation_seconds", (skill, runner), result.latency_ms / 1000.0)
        if bytes_in:
            self._counters.add("openskills_bytes", (skill, "in"), bytes_in)
        if bytes_out:
            self._counters.add("openskills_bytes", (skill, "out"), bytes_out)

    def on_queue_change(self, length: int) -> None:
        """So many calls wait now."""
        self._waiting = length

    def on_admit(self, waited: float) -> None:
        """A call has got its place after so many seconds."""
        self._counters.observe("openskills_queue_wait_seconds", (), waited)

    def on_reject(self, reason: str) -> None:
        """A call was sent away."""
        self._counters.add("openskills_shed", (reason,))

    def render(self) -> bytes:
        """The text for Prometheus (`CONTENT_TYPE`), of all workers."""
        parts = [self._to_dict()] if self._shared is None else self._shared.read_all()
        return render_exposition(parts)

    def close(self) -> None:
        """Write the numbers a last time. What was under way is over."""
        self._in_flight.clear()
        self._waiting = 0
        if self._shared is not None:
            self._shared.close()

    def _skill_label(self, skill: str) -> str:
        if skill in self._skills:
            return skill
        # Skills come and go when manifests are edited; a host that runs for months must not keep a series for each.
        if len(self._skills) >= _MAX_SKILLS:
            return "other"
        self._skills.add(skill)
        return skill

    def _decrement(self, skill: str) -> None:
        left = self._in_flight.get(skill, 0) - 1
        if left > 0:
            self._in_flight[skill] = left
        else:
            self._in_flight.pop(skill, None)

    def _to_dict(self) -> dict[str, Any]:
        lost = self._history_lost()
        plain = self._counters.to_dict()
        plain["counts"]["openskills_history_lost"] = [[lost]]
        return {**plain, "in_flight": dict(self._in_flight), "waiting": self._waiting, "at": time.time()}
