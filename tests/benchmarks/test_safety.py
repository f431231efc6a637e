from typing import Any

import pytest

from tests.benchmarks.programs import measured
from tests.conftest import RequireProgram

ENDINGS = {"held", "leaked", "hung"}


def answered(found: dict[str, Any], part: str, subject: str, tried: dict[str, Any]) -> bool:
    """Whether a subject was tried, or the reason is given why not."""
    return subject in tried or any(subject in reason for reason in found[part]["missing"])


@pytest.mark.slow
def test_attacks_are_counted_for_everybody_and_nothing_leaks_from_the_sandbox(require_program: RequireProgram) -> None:
    require_program("bwrap")
    require_program("setpriv")
    found = measured("safety", "--only", "probes")
    compared, asked = found["probes"]["numbers"]["compared"], found["probes"]["numbers"]["asked"]
    bare = compared["nothing at all"]
    assert bare["leaked"] >= 100
    assert (bare["held"], bare["hung"]) == (0, 0)
    assert asked["sandbox"]["held"] >= 250
    assert (asked["sandbox"]["leaked"], asked["sandbox"]["hung"]) == (0, 0)
    assert 0 < compared["local"]["leaked"] < bare["leaked"]
    assert answered(found, "probes", "deepagents", compared)
    assert all(set(counts) == {*ENDINGS, "leaks"} for counts in compared.values())


@pytest.mark.slow
def test_every_case_of_a_command_that_does_not_end_has_a_verdict(require_program: RequireProgram) -> None:
    require_program("bwrap")
    require_program("setpriv")
    found = measured("safety", "--only", "endings")
    cases = found["endings"]["numbers"]["cases"]
    assert len(cases["sandbox"]) == len(cases["local"]) >= 12
    assert {ending for by_case in cases.values() for ending in by_case.values()} <= ENDINGS
    assert answered(found, "endings", "deepagents", cases)
