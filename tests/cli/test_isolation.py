"""What `doctor` finds out about executors, by trying them."""

from pathlib import Path
from typing import Any

from tests.cli.command import Command
from tests.conftest import RequireProgram


def checks(openskills: Command) -> dict[str, dict[str, Any]]:
    found = openskills("doctor", "--json").json["checks"]
    return {check["name"]: check for check in found if check["section"] == "isolation"}


def test_a_sandbox_that_works_is_what_auto_chooses(openskills: Command, require_program: RequireProgram) -> None:
    require_program("bwrap")
    found = checks(openskills)
    assert found["sandbox"]["ok"]
    assert "self-test passed" in found["sandbox"]["detail"]
    assert found["chosen"]["detail"].startswith("auto: sandbox")
    assert not list(openskills.home.iterdir())


def test_a_sandbox_that_lets_things_out_is_found_out(openskills: Command, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "bwrap"
    fake.write_text('#!/bin/bash\nwhile [ "$1" != -- ] && [ $# -gt 0 ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    openskills.environment["PATH"] = f"{tmp_path}/bin:/usr/bin:/bin"
    found = checks(openskills)
    assert not found["sandbox"]["ok"]
    assert found["sandbox"]["fix"]
    assert not found["chosen"]["ok"]
    assert "refused" in found["chosen"]["detail"]


def test_an_engine_that_does_not_answer_is_named(openskills: Command, tmp_path: Path) -> None:
    openskills.environment["DOCKER_HOST"] = f"unix://{tmp_path}/nobody.sock"
    container = checks(openskills)["container"]
    assert not container["ok"]
    assert "nobody.sock" in container["fix"] or "openskills[docker]" in container["fix"]


def test_local_is_chosen_only_when_it_was_allowed(openskills: Command) -> None:
    openskills.environment["OPENSKILL_EXECUTOR"] = "local"
    assert "no isolation" in checks(openskills)["chosen"]["detail"]
