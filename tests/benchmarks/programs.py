"""Benchmarks as programs that tests run, in their smallest extent."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.servers.warm_openskills import run_script

ROOT = Path(__file__).resolve().parents[2]


def measured(name: str, *arguments: str, path: Path | None = None) -> dict[str, Any]:
    """What a benchmark prints; its exit code is about time, which is nothing that a test may fail on.

    With `path` it finds only the programs that are there.
    """
    program, options = ROOT / "benchmarks" / f"{name}.py", ("--tiny", "--json", *arguments)
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_"))}
    environment = {**given, "LANG": "C.UTF-8", **({} if path is None else {"PATH": str(path)})}
    done = run_script(program, *options, cwd=Path.cwd(), env=environment, strict=False, timeout=None, kind="program")
    assert done.returncode in (0, 1), done.stderr.decode()
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
