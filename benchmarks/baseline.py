"""What was measured before, and whether a ratio has become worse since."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from report import Target

TOLERANCE = 0.15
"""By how much of it a ratio may become worse before that is a failure."""


def stored(docs: Path, name: str) -> dict[str, float]:
    """The values of the promises of a benchmark as they are on the page; nothing when it has not been written yet."""
    path = docs / "benchmarks" / f"{name}.json"
    if not path.exists():
        return {}
    promises: Sequence[Mapping[str, Any]] = json.loads(path.read_text("utf-8"))["promises"]
    return {str(one["promise"]): float(one["value"]) for one in promises if one["value"] is not None}


def regressions(before: Mapping[str, float], targets: Sequence[Target]) -> list[str]:
    """A sentence for each ratio that is worse than before by more than the tolerance. Other units are not compared."""
    found: list[str] = []
    for target in targets:
        known = before.get(target.promise)
        if known is None or known <= 0 or target.value is None or target.unit != "x":
            continue
        worse = 1 - target.value / known if target.at_least else target.value / known - 1
        if worse > TOLERANCE:
            found.append(f"{target.promise}: {known:.2f}x before, {target.value:.2f}x now ({worse:.0%} worse)")
    return found
