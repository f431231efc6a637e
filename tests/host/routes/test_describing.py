"""What the host says of one skill."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from openskills.host.registration import Registration
from openskills.host.registry.entries import Entry
from openskills.host.routes.describing import described
from openskills.skillmd.problem import Problem

START = Path("/srv/host")


def registration(**more: Any) -> Registration:
    found = Registration("echo", "cli:python", "/srv/host/skills_cli/echo.py", "0.1.0")
    return replace(found, **more)


def test_paths_of_the_machine_are_not_told() -> None:
    entry = Entry("echo", registration(allowed_root=Path("/elsewhere/data")), origin=START / "skills_cli/echo.yaml")
    told = described(entry, START)
    assert (told["entry"], told["allowed_root"], told["origin"]) == (
        "skills_cli/echo.py",
        "data",
        "skills_cli/echo.yaml",
    )
    assert "/srv" not in str(told)


def test_values_of_variables_and_secrets_are_not_told() -> None:
    entry = Entry("echo", registration(environment={"MODE": "hunter22"}, secrets=("TOKEN",)))
    told = described(entry, START)
    assert (told["env"], told["secrets"]) == (["MODE"], ["TOKEN"])
    assert "hunter22" not in str(told)


def test_a_broken_skill_is_told_with_its_problems_only() -> None:
    problem = Problem("entry-missing", "entry: /srv/host/skills_cli/x.py is not there", line=3, path="/srv/host/a.yaml")
    told = described(Entry("x", None, (problem,), "broken", START / "a.yaml"), START)
    assert told == {
        "id": "x",
        "status": "broken",
        "origin": "a.yaml",
        "problems": [
            {
                "rule": "entry-missing",
                "severity": "error",
                "message": "entry: skills_cli/x.py is not there",
                "line": 3,
                "file": "a.yaml",
            }
        ],
    }
