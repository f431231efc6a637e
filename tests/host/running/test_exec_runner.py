"""Programs as skills."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from openskills.host.registration import HostLimits, Registration
from openskills.host.runner import Emitted, Runner
from openskills.host.running.manifest_fault import ManifestFault
from tests.host.calls_made import called, invoked, script, with_runner


def program(directory: Path, text: str, **more: Any) -> Registration:
    """A skill that is a shell script without a name that says so."""
    path = script(directory, f"#!/bin/sh\n{text}", "skill")
    path.chmod(0o755)
    fields: dict[str, Any] = {"executor": "local", **more}
    return Registration("skill", "cli:exec", str(path), "1", **fields)


def test_a_program_reads_the_call_and_its_arguments_and_answers(tmp_path: Path) -> None:
    skill = program(
        tmp_path, 'read -r line; echo "{\\"got\\": $line, \\"args\\": \\"$*\\"}"', options={"args": ["-v", "x y"]}
    )
    outcome = invoked(tmp_path, skill, input={"text": "hi"})
    assert outcome.data == {"got": {"input": {"text": "hi"}}, "args": "-v x y"}
    assert outcome.notes["isolation"] == "none"


def test_a_program_sees_only_documented_variables(tmp_path: Path) -> None:
    skill = program(tmp_path, "env | cut -d= -f1 | sort | tr '\\n' ' '; exit 3", environment={"MINE": "1"})
    failure = invoked(tmp_path, skill, traceparent="00-a-b-01", secrets={"TOKEN": "geheim"}).failure
    assert failure is not None
    assert set(failure.details["stdout"].split()) - {"PWD", "_", "SHLVL", "OLDPWD"} == {
        *("HOME", "LANG", "MINE", "OPENSKILL_SKILL_ID", "OPENSKILL_TIMEOUT_MS", "OPENSKILL_TRACE_ID"),
        *("PATH", "TOKEN", "TRACEPARENT"),
    }


def test_a_failing_program_is_told_with_its_status_and_stderr(tmp_path: Path) -> None:
    failure = invoked(tmp_path, program(tmp_path, "echo broken >&2; exit 7")).failure
    assert failure is not None
    assert (failure.details["exit_code"], failure.details["stderr"]) == (7, "broken")


def test_a_program_is_stopped_at_the_deadline(tmp_path: Path) -> None:
    failure = invoked(tmp_path, program(tmp_path, "sleep 600 & sleep 600"), seconds=0.5).failure
    assert failure is not None
    assert failure.code == 504


def test_what_a_program_wrote_before_the_deadline_is_told_without_secrets(tmp_path: Path) -> None:
    skill = program(tmp_path, "echo half; echo key $TOKEN >&2; exec sleep 600")
    outcome = invoked(tmp_path, skill, seconds=1.5, secrets={"TOKEN": "geheim"})
    assert outcome.failure is not None
    details = outcome.failure.details
    assert (details["stdout"], details["stderr"]) == ("half", "key [secret TOKEN]")
    assert outcome.notes == {"isolation": "none"}


def test_lines_are_told(tmp_path: Path) -> None:
    told: list[Emitted] = []
    assert invoked(tmp_path, program(tmp_path, "echo a >&2; echo {}"), listener=told.append).data == {}
    assert Emitted("stderr", {"text": "a"}) in told
    assert Emitted("stdout", {"text": "{}"}) in told


def test_only_so_many_run_at_a_time(tmp_path: Path) -> None:
    text = "touch $0.$$; sleep .05; ls $0.* | wc -l | sed 's/.*/{\"n\": &}/'; rm $0.$$"
    skill = program(tmp_path, text, limits=HostLimits(concurrency=2))

    async def work(runner: Runner) -> list[int]:
        outcomes = await asyncio.gather(*(runner.invoke(skill, called()) for _ in range(6)))
        return [(outcome.data or {})["n"] for outcome in outcomes]

    assert max(with_runner(tmp_path, skill, work)) <= 2


@pytest.mark.parametrize(("mode", "said"), [(0o644, "chmod"), (None, "no file")])
def test_what_cannot_be_executed_cannot_be_prepared(tmp_path: Path, mode: int | None, said: str) -> None:
    skill = program(tmp_path, "echo {}")
    if mode is None:
        Path(skill.entry).unlink()
    else:
        Path(skill.entry).chmod(mode)
    with pytest.raises(ManifestFault, match=said):
        with_runner(tmp_path, skill, lambda runner: runner.prepare(skill))


def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    skill = program(tmp_path, "")
    Path(skill.entry).write_bytes(b"\x00\x01\x02")
    with pytest.raises(ManifestFault, match="cannot be started"):
        invoked(tmp_path, skill)


def test_a_program_runs_in_the_sandbox_too(tmp_path: Path, require_program: Any) -> None:
    require_program("bwrap")
    (tmp_path / "skills").mkdir(mode=0o755)
    skill = program(tmp_path / "skills", 'echo "{\\"user\\": $(id -u), \\"n\\": $(ls .. | wc -l)}"', executor="sandbox")
    outcome = invoked(tmp_path, skill)
    assert outcome.data is not None
    assert outcome.data["user"] == 1000
    assert outcome.notes["isolation"] == "bubblewrap"
