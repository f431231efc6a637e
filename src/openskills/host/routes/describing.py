"""What the host says of its skills: manifest, schemas, status and problems. Pure.

Callers need no paths of this machine, so files are told relative to where the host was started, or by their name alone.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from openskills.host.registration import Registration
from openskills.host.registry.entries import Entry
from openskills.skillmd.problem import Problem


def described(entry: Entry, start: Path) -> dict[str, Any]:
    """One skill, for `GET /skills` and `GET /skills/{id}`."""
    found: dict[str, Any] = {
        "id": entry.id,
        "status": entry.status,
        "problems": [_problem(problem, start) for problem in entry.problems],
        "origin": _near(entry.origin, start) if entry.origin is not None else None,
    }
    if entry.registration is not None:
        found |= _manifest(entry.registration, start)
    return found


def _manifest(registration: Registration, start: Path) -> dict[str, Any]:
    kind, _, runtime = registration.kind.partition(":")
    return {
        "kind": registration.kind,
        "type": kind,
        "runtime": runtime or None,
        "entry": _entry(registration, start),
        "version": registration.version,
        "description": registration.description,
        "timeout_ms": registration.timeout_ms,
        "allowed_root": _near(registration.allowed_root, start) if registration.allowed_root is not None else None,
        "writable": registration.writable,
        "input_schema": _copy(registration.input_schema),
        "output_schema": _copy(registration.output_schema),
        "env": sorted(registration.environment),
        "secrets": list(registration.secrets),
        "limits": asdict(registration.limits),
        "executor": registration.executor,
        "warm": str(registration.warm),
    }


def _entry(registration: Registration, start: Path) -> str:
    return _near(Path(registration.entry), start) if registration.kind.startswith("cli") else registration.entry


def _problem(problem: Problem, start: Path) -> dict[str, Any]:
    return {
        "rule": problem.rule,
        "severity": str(problem.severity),
        "message": problem.message.replace(f"{start}/", ""),
        "line": problem.line,
        "file": _near(Path(problem.path), start) if problem.path else None,
    }


def _near(path: Path, start: Path) -> str:
    return str(path.relative_to(start)) if path.is_relative_to(start) else path.name


def _copy(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if schema is None else dict(schema)
