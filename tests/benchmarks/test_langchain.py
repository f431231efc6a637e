import pytest

from tests.benchmarks.programs import measured, row_of


@pytest.mark.slow
def test_finding_and_calling_are_compared_with_deepagents() -> None:
    found = measured("langchain", "--only", "discovery,calls")
    for thread in ("the first thread", "every other thread"):
        assert row_of(found, f"24 skills, OpenSkill, {thread}: times faster than deepagents")
    for way in ("marked list", "stable list", "SkillRuntimeMiddleware"):
        assert row_of(found, f"a model call with 24 skills, OpenSkill, {way}: times of deepagents")
    assert {"deepagents", "OpenSkill, the first thread"} <= set(found["discovery"]["numbers"]["24"])


@pytest.mark.slow
def test_checkpoints_are_smaller_than_those_of_deepagents() -> None:
    # Bytes, not times: the same on every machine.
    sizes = measured("langchain", "--only", "state")["state"]["numbers"]["24"]
    assert sizes["OpenSkill, SkillRuntimeMiddleware"] * 5 <= sizes["deepagents"]


@pytest.mark.slow
def test_a_stable_list_keeps_the_prefix_of_every_request() -> None:
    kept = measured("langchain", "--only", "prefix")["prefix"]["numbers"]
    assert kept["OpenSkill, stable list"]["least"] == 100.0
    assert kept["OpenSkill, marked list"]["least"] < 50.0
