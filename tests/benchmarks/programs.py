"""Benchmarks as programs that tests run, in their smallest extent."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def measured(name: str, *arguments: str) -> dict[str, Any]:
    """What a benchmark prints; its exit code is about time, which is nothing that a test may fail on."""
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--tiny", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def row_of(found: dict[str, Any], promise: str) -> str:
    """The row that answers for a promise."""
    (row,) = [row for row in found["promises"] if row.startswith(f"| {promise} |")]
    return row
