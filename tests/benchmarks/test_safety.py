from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.programs import evaluated, measured
from tests.conftest import RequireProgram
from tests.long_form import LONG

ENDINGS = {"held", "leaked", "hung"}
COUNTED = """
import json
from safety_probes import _battery, _breakages, _raw

results = {
    "a": {"escaped": False, "detail": "nothing"},
    "b": {"escaped": True, "detail": "a secret"},
    "c": {"escaped": False, "broken": True, "detail": "no answer"},
    "d": {"escaped": False, "broken": True, "detail": "it raised"},
}
battery = _battery({"results": results})
print(json.dumps({"raw": _raw(battery, list(results)), "breakages": _breakages({"sandbox": battery})}))
"""
FAILURES = """
import json
from safety_hosts import _failure

trace = "Traceback:\\n  somewhere\\n"
cases = {
    "a library": ("deepagents", trace + "ValueError: no"),
    "an executor that is not here": ("sandbox", trace + "openskills.errors.ExecutorUnavailable: no bwrap\\n"),
    "a fault of ours": ("sandbox", trace + "ValueError: no"),
}
found = {name: _failure(*case) for name, case in cases.items()}
print(json.dumps({name: [type(one).__name__, str(one)] for name, one in found.items()}))
"""


def answered(found: dict[str, Any], part: str, subject: str, tried: dict[str, Any]) -> bool:
    """Whether a subject was tried, or the reason is given why not."""
    return subject in tried or any(subject in reason for reason in found[part]["missing"])


def test_a_probe_that_is_broken_is_counted_and_named_with_the_reason() -> None:
    found = evaluated(COUNTED)
    assert found["raw"] == {"held": 1, "leaked": 1, "hung": 1, "broken": 1, "leaks": ["b"]}
    assert found["breakages"] == ["sandbox: the probe d is broken: it raised"]


def test_only_a_fault_of_ours_fails_what_others_lack_is_not_measured() -> None:
    found = evaluated(FAILURES)
    assert found["a library"] == ["NotMeasured", "deepagents: ValueError: no"]
    assert found["an executor that is not here"] == ["NotMeasured", "sandbox: no bwrap"]
    assert found["a fault of ours"][0] == "RuntimeError"


@pytest.mark.parametrize(("suite", "part"), [("host", "load"), ("safety", "probes")])
def test_without_its_programs_a_part_is_missing_with_the_reason(suite: str, part: str, tmp_path: Path) -> None:
    found = measured(suite, "--only", part, path=tmp_path)
    (reason,) = found[part]["missing"]
    assert "is missing" in reason


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="`make hostile` runs it; tests/hostile/test_battery.py tries the same attacks")
def test_attacks_are_counted_for_everybody_and_nothing_leaks_from_the_sandbox(require_program: RequireProgram) -> None:
    require_program("bwrap")
    require_program("setpriv")
    found = measured("safety", "--only", "probes")
    compared, asked = found["probes"]["numbers"]["compared"], found["probes"]["numbers"]["asked"]
    bare = compared["no isolation"]
    assert bare["leaked"] >= 100
    assert (bare["held"], bare["hung"]) == (0, 0)
    assert asked["sandbox"]["held"] >= 250
    assert (asked["sandbox"]["leaked"], asked["sandbox"]["hung"]) == (0, 0)
    assert 0 < compared["local"]["leaked"] < bare["leaked"]
    assert answered(found, "probes", "deepagents", compared)
    assert all(set(counts) == {*ENDINGS, "broken", "leaks"} for counts in compared.values())
    assert all(counts["broken"] == 0 for counts in (*compared.values(), *asked.values()))


@pytest.mark.slow
def test_every_case_of_a_command_that_does_not_end_has_a_verdict(require_program: RequireProgram) -> None:
    require_program("bwrap")
    require_program("setpriv")
    found = measured("safety", "--only", "endings")
    cases = found["endings"]["numbers"]["cases"]
    assert len(cases["sandbox"]) == len(cases["local"]) >= 12
    assert {ending for by_case in cases.values() for ending in by_case.values()} <= ENDINGS
    assert answered(found, "endings", "deepagents", cases)
