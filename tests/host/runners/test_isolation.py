"""Plain processes.

What every place brings.

Where skills run.

The variables of hosted skills.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.spec import Isolation, Limits
from openskills.host.model import Call, HostLimits, ManifestFault, Registration
from openskills.host.runners.isolation import (
    IsolationProvider,
    LocalIsolation,
    build_call_environment,
    build_skill_environment,
    to_process_limits,
)
from openskills.sync import run
from tests.host.calls_made import settings


async def test_a_process_begins_in_the_directory_with_a_home_that_ends_with_the_place(tmp_path: Path) -> None:
    skill = Registration("s", "cli:exec", "/bin/sh", "1")

    place = LocalIsolation(tmp_path)
    await place.check()
    env = place.environment(skill)
    reading, writing = os.pipe()
    with open(os.devnull, "r+b", 0) as null:
        stdio = (null.fileno(), writing, null.fileno())
        kept = await place.start(skill, ("/bin/sh", "-c", 'pwd; test -d "$HOME" && echo home'), env, stdio)
    os.close(writing)
    await kept.wait()
    said = os.read(reading, 1000)
    os.close(reading)
    await place.close()
    assert place.isolation is Isolation.NONE
    home = env["HOME"]
    assert said.decode().split() == [str(tmp_path), "home"]
    assert not os.path.exists(home)


async def test_both_names_of_the_interpreter_are_the_one_we_run_on(tmp_path: Path) -> None:
    place = LocalIsolation(tmp_path)
    try:
        path = place.environment(Registration("s", "cli:exec", "/bin/sh", "1"))["PATH"]
        for name in ("python", "python3"):
            assert os.path.realpath(shutil.which(name, path=path) or name) == os.path.realpath(sys.executable)
    finally:
        await place.close()


def test_the_limits_of_a_skill_are_those_of_its_processes() -> None:
    limits = to_process_limits(HostLimits(memory_bytes=2**30, processes=5, file_bytes=7, cpu_seconds=9))
    assert (limits.memory_bytes, limits.processes, limits.file_bytes, limits.cpu_seconds) == (2**30, 5, 7, 9)


def test_without_a_limit_nothing_is_limited() -> None:
    limits = to_process_limits(HostLimits(memory_bytes=None, processes=None, file_bytes=None))
    assert isinstance(limits, Limits)
    assert (limits.memory_bytes, limits.processes, limits.file_bytes, limits.cpu_seconds) == (None, None, None, None)


def isolation(tmp_path: Path, executor: str, **variables: str) -> Isolation:
    """How isolated a skill is that asks for this executor."""

    async def work() -> Isolation:
        places = IsolationProvider(settings(tmp_path, **variables), tmp_path)
        try:
            return (await places.get(Registration("s", "cli:python", "/s.py", "1", executor=executor))).isolation
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
def test_a_directory_that_is_not_usable_for_a_command_is_reported(tmp_path: Path, executor: str) -> None:
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


def test_a_skill_sees_the_documented_variables_and_those_of_its_manifest() -> None:
    skill = Registration(
        "s", "cli:python", "/s.py", "1", allowed_root=Path("/data"), environment={"LANG": "de", "X": "1"}
    )
    assert build_skill_environment(skill, path=("/a", "/b"), home="/h") == {
        "PATH": "/a:/b",
        "HOME": "/h",
        "LANG": "de",
        "X": "1",
        "OPENSKILL_SKILL_ID": "s",
        "OPENSKILL_TIMEOUT_MS": "15000",
        "OPENSKILL_ALLOWED_ROOT": "/data",
    }


def test_a_manifest_cannot_change_who_the_skill_is() -> None:
    skill = Registration("s", "cli:python", "/s.py", "1", environment={"OPENSKILL_SKILL_ID": "other"})
    assert build_skill_environment(skill, path=(), home="")["OPENSKILL_SKILL_ID"] == "s"


def test_a_call_brings_its_trace_and_secrets() -> None:
    call = Call({}, "t", 0.0, {"TOKEN": "x"}, traceparent="00-a-b-01")
    assert build_call_environment(call) == {"TOKEN": "x", "OPENSKILL_TRACE_ID": "t", "TRACEPARENT": "00-a-b-01"}
    assert build_call_environment(Call({}, "t", 0.0)) == {"OPENSKILL_TRACE_ID": "t"}
