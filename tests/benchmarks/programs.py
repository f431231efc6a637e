"""Benchmarks as programs that tests run, in their smallest extent."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.servers.warm_openskills import run_script

ROOT = Path(__file__).resolve().parents[2]


# For code that stands for itself, which finds the modules of the benchmarks by their names.
_FIRST = "import sys\nsys.path[0] = {directory!r}\n"


def measured(name: str, *arguments: str, path: Path | None = None) -> dict[str, Any]:
    """What a benchmark prints; its exit code is about time, which is nothing that a test may fail on.

    With `path` it finds only the programs that are there.
    """
    program, options = ROOT / "benchmarks" / f"{name}.py", ("--tiny", "--json", *arguments)
    variables = {} if path is None else {"PATH": str(path)}
    return json.loads(_ran(program, *options, cwd=Path.cwd(), variables=variables, allowed=(0, 1)))


def row_of(found: dict[str, Any], promise: str) -> str:
    """The row that answers for a promise."""
    (row,) = [row for row in found["promises"] if row.startswith(f"| {promise} |")]
    return row


def evaluated(code: str, *arguments: str | Path) -> Any:
    """What a piece of code prints as JSON that runs where the modules of the benchmarks are found by their names."""
    directory = ROOT / "benchmarks"
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".py") as program:
        program.write(_FIRST.format(directory=str(directory)) + code)
        program.flush()
        return json.loads(_ran(Path(program.name), *map(str, arguments), cwd=directory))


def _ran(
    program: Path,
    *arguments: str,
    cwd: Path,
    variables: Mapping[str, str] | None = None,
    allowed: tuple[int, ...] = (0,),
) -> bytes:
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_"))}
    env = {**given, "LANG": "C.UTF-8", **(variables or {})}
    done = run_script(program, *arguments, cwd=cwd, env=env, strict=False, timeout=None, kind="program")
    assert done.returncode in allowed, done.stderr.decode()
    return done.stdout
