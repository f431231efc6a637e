"""Where skills run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.spec import Isolation
from openskills.host.registration import Registration
from openskills.host.running.manifest_fault import ManifestFault
from openskills.host.running.places import Places
from openskills.sync import run
from tests.host.calls_made import settings


def isolation(tmp_path: Path, executor: str, **variables: str) -> Isolation:
    """How isolated a skill is that asks for this executor."""

    async def work() -> Isolation:
        places = Places(settings(tmp_path, **variables), tmp_path)
        try:
            return (await places.for_(Registration("s", "cli:python", "/s.py", "1", executor=executor))).isolation
        finally:
            await places.close()

    return run(work())


def test_local_is_taken_when_it_is_asked_for(tmp_path: Path) -> None:
    assert isolation(tmp_path, "local") is Isolation.NONE


def test_auto_is_the_sandbox_where_it_works(tmp_path: Path, require_program: Callable[[str], str]) -> None:
    require_program("bwrap")
    assert isolation(tmp_path, "auto") is Isolation.BUBBLEWRAP


def test_auto_takes_what_the_settings_say(tmp_path: Path) -> None:
    assert isolation(tmp_path, "auto", OPENSKILL_EXECUTOR="local") is Isolation.NONE


@pytest.mark.parametrize("executor", ["container", "moon"])
def test_what_is_no_place_for_a_command_is_told(tmp_path: Path, executor: str) -> None:
    with pytest.raises(ManifestFault, match="auto, sandbox, local"):
        isolation(tmp_path, executor)


@pytest.fixture
def broken_bwrap(tmp_path: Path) -> str:
    """A search path on which the first bwrap does not work."""
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return f"{program.parent}:/usr/bin:/bin"


def test_without_a_sandbox_auto_refuses_and_says_what_to_do(tmp_path: Path, broken_bwrap: str) -> None:
    with pytest.raises(ExecutorUnavailable, match="OPENSKILL_ALLOW_LOCAL=1"):
        isolation(tmp_path, "auto", PATH=broken_bwrap)


def test_without_a_sandbox_auto_is_local_only_when_that_is_allowed(tmp_path: Path, broken_bwrap: str) -> None:
    assert isolation(tmp_path, "auto", PATH=broken_bwrap, OPENSKILL_ALLOW_LOCAL="1") is Isolation.NONE
    with pytest.raises(ExecutorUnavailable):
        isolation(tmp_path, "sandbox", PATH=broken_bwrap, OPENSKILL_ALLOW_LOCAL="1")
