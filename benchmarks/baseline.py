"""What was measured before, and whether it has become worse since.

Each promise in `docs/benchmarks/<name>.json` has, beside the `value` of its run, a `baseline`: the best value of all
runs since somebody accepted a worse one. Later runs are compared with that, so that many small steps down are found.

Worse is worse by more than the tolerance, 15 %, of a yardstick that depends on the unit:

| unit | yardstick | and at least |
|---|---|---|
| x | the stored ratio | |
| % | what the stored one lacks of perfect: of 100 where more is better (95: 5), of 0 where less is | 0.5 points |
| MB | the stored size, which hardly depends on the machine | 1 MB |
| (exponent) | 1, which is from flat to linear; what is stored below 0 counts as 0 | |

A promise whose stored `runs`, the last five values, differ by more than the tolerance may differ by as much again: that
is its noise. Times in milliseconds depend on the machine, counts that must be 0 have a bound: neither is compared.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from report import Target

TOLERANCE = 0.15
"""Of the yardstick: by how much something may become worse before that is a failure."""
RUNS = 5
"""How many values of a promise are kept to know its spread."""
EXPONENT = "(exponent)"
_LEAST = {"x": 0.0, "%": 0.5, "MB": 1.0, EXPONENT: 0.0}
"""The units that are compared, and the change in each that is too small to mean anything."""

Before = Mapping[str, float | None]
"""From a promise to its baseline; without a number where there is none to compare with."""


def stored(docs: Path, name: str) -> dict[str, float | None]:
    """The baselines of a benchmark; nothing when it has not been written yet."""
    return {str(one["promise"]): one.get("baseline", one["value"]) for one in _read(docs, name).get("promises", ())}


def runs(docs: Path, name: str) -> dict[str, list[float]]:
    """The last values of each promise, the oldest first."""
    return {str(one["promise"]): list(one.get("runs", ())) for one in _read(docs, name).get("promises", ())}


def promised(docs: Path, name: str) -> dict[str, list[Target]]:
    """What each part of a benchmark promised when it was written, without values."""
    found = _read(docs, name)
    known = {field.name for field in fields(Target)}
    targets = {
        str(one["promise"]): replace(Target(**{key: one[key] for key in known & set(one)}), value=None)
        for one in found.get("promises", ())
    }
    parts: Mapping[str, Any] = found.get("parts", {})
    # Numbers from before there were baselines, and those that are not of a suite, say nothing about their parts.
    names: dict[str, Sequence[str]] = {part: one["promises"] for part, one in parts.items() if "promises" in one}
    return {part: [targets[name] for name in those if name in targets] for part, those in names.items()}


def regressions(
    before: Before, targets: Sequence[Target], *, earlier: Mapping[str, Sequence[float]] | None = None
) -> dict[str, str]:
    """A sentence for each promise that is worse than its baseline.

    `earlier` has the last values of each promise; a difference within their spread is noise.
    """
    spread = {name: max(values) - min(values) for name, values in (earlier or {}).items() if len(values) > 1}
    found = {
        one.promise: _sentence(one, known, spread.get(one.promise, 0.0))
        for one in targets
        if (known := before.get(one.promise)) is not None
    }
    return {promise: sentence for promise, sentence in found.items() if sentence}


def vanished(before: Before, targets: Sequence[Target]) -> list[str]:
    """A sentence for each promise that has a baseline, but was not in this run."""
    now = {target.promise for target in targets}
    return [f"{name}: is in the baseline, but not in this run" for name in before if name not in now]


def renewed(before: Before, targets: Sequence[Target], *, accept: bool = False) -> dict[str, float | None]:
    """The baselines after this run: the better one of stored and new; with `accept` the new one.

    What was not measured keeps its baseline in any case.
    """
    return {target.promise: _better(target, before.get(target.promise), accept=accept) for target in targets}


def unmeasured(before: Before, targets: Sequence[Target]) -> list[str]:
    """A sentence for each promise that has a baseline and was not measured this time."""
    return [
        f"{one.promise}: not measured ({one.why or 'without a reason'}); its baseline stays {one.text(known)}"
        for one in targets
        if one.value is None and (known := before.get(one.promise)) is not None
    ]


def _sentence(target: Target, known: float, spread: float) -> str:
    yardstick = _yardstick(target, known)
    if target.value is None or yardstick is None:
        return ""
    known = max(known, 0.0) if target.unit == EXPONENT else known
    by = known - target.value if target.at_least else target.value - known
    # Hardly anything is above the tolerance only by the last bit of a float.
    if by <= max(_LEAST[target.unit], TOLERANCE * yardstick, spread) + 1e-9:
        return ""
    share = f"{by / yardstick:.0%} worse" if yardstick else "it was at its optimum"
    return f"{target.promise}: {target.text(known)} before, {target.text(target.value)} now ({share})"


def _yardstick(target: Target, known: float) -> float | None:
    """What a change is measured against; None where a comparison means nothing."""
    match target.unit:
        case "x":
            # A ratio of differences can be below zero when there is nothing to tell apart.
            return known if known > 0 else None
        case "%":
            return max(100 - known if target.at_least else known, 0.0)
        case "MB":
            return max(known, 0.0)
        case unit:
            return 1.0 if unit == EXPONENT else None


def _better(target: Target, known: float | None, *, accept: bool) -> float | None:
    if target.unit not in _LEAST:
        return None
    value = target.value
    if value is None or _yardstick(target, value) is None:
        return known
    if known is None or accept or _yardstick(target, known) is None:
        return value
    return max(known, value) if target.at_least else min(known, value)


def _read(docs: Path, name: str) -> Mapping[str, Any]:
    path = docs / "benchmarks" / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}
