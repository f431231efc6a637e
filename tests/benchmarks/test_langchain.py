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
    # And with the floors: files that are only read, an agent without skills.
    assert "only reading the files" in found["discovery"]["numbers"]["24"]
    for what in ("hook", "turn"):
        assert {"no middleware", "deepagents", "OpenSkill, stable list"} <= set(found["calls"]["numbers"][what])


@pytest.mark.slow
def test_checkpoints_are_smaller_than_those_of_deepagents() -> None:
    # Bytes, not times: the same on every machine.
    numbers = measured("langchain", "--only", "state")["state"]["numbers"]
    assert numbers["24"]["OpenSkill, SkillRuntimeMiddleware"] * 5 <= numbers["24"]["deepagents"]
    everything = numbers["everything"]["24"]
    assert 0 < everything["no middleware"] < everything["OpenSkill, stable list"] < everything["deepagents"]


@pytest.mark.slow
def test_a_stable_list_keeps_the_prefix_of_every_request_as_deepagents_does_in_the_same_steps() -> None:
    kept = measured("langchain", "--only", "prefix")["prefix"]["numbers"]
    assert {one["requests"] for one in kept.values()} == {10}
    assert kept["deepagents"]["least"] == kept["no middleware"]["least"] == 100.0
    assert kept["no middleware"]["new"] < kept["deepagents"]["new"]
    assert kept["OpenSkill, stable list"]["least"] == 100.0
    assert kept["OpenSkill, marked list"]["least"] < 50.0
