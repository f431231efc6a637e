import pytest

from tests.benchmarks.programs import measured, row_of

WAYS = ["progressive", "bodies", "bodies and docs"]


@pytest.mark.slow
def test_disclosure_is_compared_with_full_injection_by_layer_and_by_task() -> None:
    found = measured("token_report", "--only", "layers")
    for what in ("all bodies in the prompt", "all bodies and documents in it"):
        assert row_of(found, f"12 skills: tokens that disclosure saves of {what}")
    numbers = found["layers"]["numbers"]
    assert list(numbers["ways"]) == WAYS
    assert numbers["ways"]["bodies"]["layers"]["overview"] == 0
    assert numbers["ways"]["progressive"]["layers"]["overview"] > 0
    assert all(task["ways"][way]["each"] for task in numbers["tasks"] for way in WAYS)


@pytest.mark.slow
def test_a_request_is_measured_for_every_size_of_the_library() -> None:
    found = measured("token_report", "--only", "growth")
    assert row_of(found, "10 skills against 1: times that a request with disclosure grows")
    numbers = found["growth"]["numbers"]
    assert list(numbers) == ["1", "3", "10"]
    for way in ("bodies", "bodies and docs"):
        assert numbers["1"][way] < numbers["3"][way] < numbers["10"][way]
