"""Benchmarks as programs that tests run, in their smallest extent."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def measured(name: str, *arguments: str, path: Path | None = None) -> dict[str, Any]:
    """What a benchmark prints; its exit code is about time, which is nothing that a test may fail on.

    With `path` it finds only the programs that are there.
    """
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--tiny", "--json", *arguments]
    environment = None if path is None else {**os.environ, "PATH": str(path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def row_of(found: dict[str, Any], promise: str) -> str:
    """The row that answers for a promise."""
    (row,) = [row for row in found["promises"] if row.startswith(f"| {promise} |")]
    return row


def evaluated(code: str, *arguments: str | Path) -> Any:
    """What a piece of code prints as JSON that runs where the modules of the benchmarks are found by their names."""
    argv = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(argv, cwd=ROOT / "benchmarks", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
