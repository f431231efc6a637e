"""The variables of hosted skills."""

from pathlib import Path

from openskills.host.registration import Registration
from openskills.host.runner import Call
from openskills.host.running.skill_environment import call_environment, skill_environment


def test_a_skill_sees_the_documented_variables_and_those_of_its_manifest() -> None:
    skill = Registration(
        "s", "cli:python", "/s.py", "1", allowed_root=Path("/data"), environment={"LANG": "de", "X": "1"}
    )
    assert skill_environment(skill, path=("/a", "/b"), home="/h") == {
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
    assert skill_environment(skill, path=(), home="")["OPENSKILL_SKILL_ID"] == "s"


def test_a_call_brings_its_trace_and_secrets() -> None:
    call = Call({}, "t", 0.0, {"TOKEN": "x"}, traceparent="00-a-b-01")
    assert call_environment(call) == {"TOKEN": "x", "OPENSKILL_TRACE_ID": "t", "TRACEPARENT": "00-a-b-01"}
    assert call_environment(Call({}, "t", 0.0)) == {"OPENSKILL_TRACE_ID": "t"}
