"""Metrics of the host in the Prometheus text format. Labels are bounded, so that callers cannot create series.

Counters are plain dictionaries: prometheus-client is several times slower per increment and per scrape, and shares
counters between processes only through an environment variable. With several workers each writes its counters to a
file once a second, and a scrape adds up all files. Counts of dead workers remain, their gauges do not.
"""

import json
import os
import re
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from openskills.filesystem import replace_file
from openskills.host.model import Registration
from openskills.host.service import Invocation, InvokeRequest

Labels: TypeAlias = tuple[str, ...]

BUCKET_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds in seconds; longer times go into a last bucket."""


class HostCounters:
    """Counters and histograms by name and labels, with at most `max_series` label sets per name."""

    def __init__(self, max_series: int = 5_000) -> None:
        self._max_series = max_series
        self.counts: dict[str, dict[Labels, float]] = {}
        self.spreads: dict[str, dict[Labels, list[float]]] = {}

    def add(self, name: str, labels: Labels, amount: float = 1.0) -> None:
        """Add to a counter. Beyond the limit of label sets it counts as `other`."""
        found = self.counts.setdefault(name, {})
        if labels not in found and len(found) >= self._max_series:
            labels = ("other",) * len(labels)
        found[labels] = found.get(labels, 0.0) + amount

    def observe(self, name: str, labels: Labels, seconds: float) -> None:
        """Add a duration to a histogram; its last number is the sum."""
        found = self.spreads.setdefault(name, {})
        spread = found.get(labels)
        if spread is None:
            if len(found) >= self._max_series:
                labels = ("other",) * len(labels)
            spread = found.setdefault(labels, [0.0] * (len(BUCKET_BOUNDS) + 2))
        spread[bisect_left(BUCKET_BOUNDS, seconds)] += 1.0
        spread[-1] += seconds

    def to_dict(self) -> dict[str, Any]:
        """As JSON. May be called from another thread."""
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
    """Add up the results of `to_dict` of several processes."""
    total = HostCounters()
    for part in parts:
        for name, rows in part["counts"].items():
            for *labels, value in rows:
                total.add(name, tuple(labels), value)
        for name, rows in part["spreads"].items():
            histograms = total.spreads.setdefault(name, {})
            for labels, values in rows:
                found = histograms.setdefault(tuple(labels), [0.0] * (len(BUCKET_BOUNDS) + 2))
                # A file of another version may have other buckets.
                if len(values) == len(found):
                    found[:] = map(sum, zip(found, values, strict=True))
    return total


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STALE_SECONDS = 15.0
"""Seconds after which a worker that wrote nothing counts as dead."""

_COUNTS = {
    "openskills_invocations": ("Invocations that have ended.", ("skill", "runner", "code")),
    "openskills_bytes": ("Bytes of requests (in) and responses (out).", ("skill", "direction")),
    "openskills_shed": ("Calls rejected with 429.", ("limit",)),
    "openskills_history_lost": ("Rows of the history that were lost.", ()),
}
_HISTOGRAMS = {
    "openskills_invocation_seconds": ("Duration of invocations.", ("skill", "runner")),
    "openskills_queue_wait_seconds": ("Time that calls were queued.", ()),
}
_BOUND_LABELS = tuple(f'le="{bound}"' for bound in (*BUCKET_BOUNDS, "+Inf"))
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


_SKILL_LABEL = re.compile(r'[{,]skill="([^"\\]+)"')


def render_exposition(
    parts: Sequence[dict[str, Any]],
    is_shown: Callable[[str], bool] = bool,
    cluster: Mapping[str, Any] | None = None,
) -> bytes:
    """The text for the counters of all workers, without those of skills that are not shown.

    `cluster` is the report of a Ray cluster (`RayExecutor.status`); it is empty if the cluster does not answer.
    """
    total = merge_counters(parts)
    # Gauges of dead workers do not count.
    live = [part for part in parts if time.time() - part["at"] < STALE_SECONDS]
    lines = [*_render_counts(total), *_render_histograms(total), *_render_gauges(live)]
    lines = [line for line in lines if (found := _SKILL_LABEL.search(line)) is None or is_shown(found[1])]
    lines += [*(_render_nodes(cluster) if cluster is not None else ()), ""]
    return "\n".join(lines).encode("utf-8", "replace")


def _render_counts(total: HostCounters) -> Iterator[str]:
    for name, (text, labels) in _COUNTS.items():
        yield from _render_values(f"{name}_total", text, "counter", labels, total.counts.get(name, {}))


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
    flying = Counter[str]()
    for part in live:
        flying.update(part["in_flight"])
    by_skill = {(skill,): number for skill, number in flying.items()}
    yield from _render_values("openskills_in_flight", "Running and queued invocations.", "gauge", ("skill",), by_skill)
    waiting = sum(part["waiting"] for part in live)
    yield from _render_values("openskills_queue_length", "Queued calls.", "gauge", (), {(): waiting})
    yield from _render_values("openskills_workers", "Live workers.", "gauge", (), {(): len(live)})


def _render_nodes(cluster: Mapping[str, Any]) -> Iterator[str]:
    is_up = {(): int(bool(cluster))}
    yield from _render_values("openskills_cluster_up", "Whether the Ray cluster answers.", "gauge", (), is_up)
    nodes: Sequence[Mapping[str, Any]] = cluster.get("nodes", ())
    up = {node["node"]: int(not node["reason"] and not node["is_lost"]) for node in nodes}
    gauges = {
        "openskills_node_up": ("Whether a node can run commands.", up | dict.fromkeys(cluster.get("missing", ()), 0)),
        "openskills_node_workspaces": ("Open workspaces.", {node["node"]: node["workspaces"] for node in nodes}),
        "openskills_node_commands": ("Running commands.", {node["node"]: node["commands"] for node in nodes}),
        "openskills_node_disk_full": (
            "Whether a node gets no new workspaces, because its disk is full.",
            {node["node"]: int(node["is_full"]) for node in nodes},
        ),
    }
    for name, (text, values) in gauges.items():
        by_node = {(node,): value for node, value in values.items()}
        yield from _render_values(name, text, "gauge", ("node",), by_node)


def _render_values(
    name: str, text: str, kind: str, labels: Sequence[str], values: Mapping[Labels, float]
) -> Iterator[str]:
    yield from _render_head(name, text, kind)
    for key, value in sorted(values.items()):
        yield f"{name}{_add_braces(_render_labels(labels, key))} {value}"


def _render_head(name: str, text: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _render_labels(labels: Sequence[str], values: Labels) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(labels, values, strict=True))


def _add_braces(pairs: str) -> str:
    return f"{{{pairs}}}" if pairs else ""


_WRITE_INTERVAL = 1.0


class SharedCounters:
    """The counter files of all workers, and a thread that writes ours from `plain`.

    The directory belongs to one run of a host; the supervisor creates it empty.
    """

    def __init__(self, directory: Path, plain: Callable[[], dict[str, Any]]) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        # Process ids may be reused while the counters of the first still count.
        self._file = directory / f"worker-{os.getpid()}-{time.time_ns():x}.json"
        self._plain = plain
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="openskills-metrics", daemon=True)
        self._thread.start()

    def read_all(self) -> list[dict[str, Any]]:
        """The counters of all workers, ours first."""
        others = (path for path in sorted(self._directory.glob("worker-*.json")) if path != self._file)
        return [self._plain(), *(part for path in others if (part := _read_counters(path)) is not None)]

    def close(self) -> None:
        """Write a last time, and stop the thread."""
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
            # A full disk: other workers see older counters of ours.
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
    """The metrics of one worker: rates, errors, latencies and calls in flight. Implements `InvocationObserver`.

    `directory` is shared by all workers of a host; None for a single worker. `history_lost` returns how many rows the
    history has lost.
    """

    def __init__(self, directory: Path | None = None, *, history_lost: Callable[[], int] = lambda: 0) -> None:
        self._counters = HostCounters()
        self._skills: set[str] = set()
        self._in_flight: dict[str, int] = {}
        self._waiting = 0
        self._history_lost = history_lost
        self._count_busy: Callable[[], int] = lambda: sum(self._in_flight.values())
        self._shared = None if directory is None else SharedCounters(directory, self._to_dict)

    def on_start(self, registration: Registration, asked: InvokeRequest) -> None:  # noqa: ARG002 - of the protocol
        self._in_flight[registration.id] = self._in_flight.get(registration.id, 0) + 1

    def on_end(self, invocation: Invocation) -> None:
        result, registration = invocation.result, invocation.registration
        # All skills that do not exist count as one.
        skill, runner = UNKNOWN_SKILL, "none"
        if registration is not None:
            self._decrement(registration.id)
            skill, runner = self._skill_label(registration.id), registration.kind
        code = str(result.status) if result.status in _VALID_CODES else "other"
        self._counters.add("openskills_invocations", (skill, runner, code))
        self._counters.observe("openskills_invocation_seconds", (skill, runner), result.latency_ms / 1000.0)
        for direction, body in (("in", invocation.request), ("out", invocation.body)):
            if body:
                self._counters.add("openskills_bytes", (skill, direction), len(body))

    def on_queue_change(self, length: int) -> None:
        self._waiting = length

    def on_admit(self, waited: float) -> None:
        self._counters.observe("openskills_queue_wait_seconds", (), waited)

    def on_reject(self, reason: str) -> None:
        self._counters.add("openskills_shed", (reason,))

    def render(self, is_shown: Callable[[str], bool] = bool, cluster: Mapping[str, Any] | None = None) -> bytes:
        """The text for Prometheus (`CONTENT_TYPE`), of all workers; `is_shown` selects skills.

        See `render_exposition` for `cluster`.
        """
        return render_exposition(self._read_all(), is_shown, cluster)

    def count_with(self, count_busy: Callable[[], int]) -> None:
        """Let `list_workers` report what this function counts, which also has commands and tool calls."""
        self._count_busy = count_busy

    def list_workers(self) -> list[dict[str, Any]]:
        """The live worker processes, this one first: `pid`, calls `in_flight`, those `waiting`, `seen_seconds_ago`."""
        now = time.time()
        return [
            {
                "pid": part["pid"],
                "in_flight": part["busy"],
                "waiting": part["waiting"],
                "seen_seconds_ago": round(max(now - part["at"], 0.0), 1),
            }
            for part in self._read_all()
            if now - part["at"] < STALE_SECONDS
        ]

    def close(self) -> None:
        """Write the counters a last time, with nothing in flight."""
        self._in_flight.clear()
        self._count_busy = lambda: 0
        self._waiting = 0
        if self._shared is not None:
            self._shared.close()

    def _read_all(self) -> list[dict[str, Any]]:
        return [self._to_dict()] if self._shared is None else self._shared.read_all()

    def _skill_label(self, skill: str) -> str:
        if skill in self._skills:
            return skill
        # Manifests come and go: bounded for hosts that run for months.
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
        now = {"in_flight": dict(self._in_flight), "waiting": self._waiting, "at": time.time()}
        return {**plain, **now, "pid": os.getpid(), "busy": self._count_busy()}
