"""What the host tells a skill."""

import pytest

from openskills.skillkit.surroundings import Surroundings, begin, seconds_left


def test_variables_are_read() -> None:
    around = Surroundings(
        {
            "OPENSKILL_SKILL_ID": "echo",
            "OPENSKILL_TRACE_ID": "demo-123",
            "OPENSKILL_ALLOWED_ROOT": "files",
            "OPENSKILL_TIMEOUT_MS": "2500",
            "OPENSKILL_DEBUG": "1",
        }
    )
    assert (around.skill_id, around.trace_id, around.allowed_root) == ("echo", "demo-123", "files")
    assert (around.timeout_ms, around.debug) == (2500, True)


@pytest.mark.parametrize("timeout", ["", "soon", "0", "-5", "1.5"])
def test_without_variables_there_are_defaults(timeout: str) -> None:
    around = Surroundings({"OPENSKILL_TIMEOUT_MS": timeout, "OPENSKILL_ALLOWED_ROOT": ""}, name="shout")
    assert (around.skill_id, around.allowed_root, around.timeout_ms) == ("shout", "./data", 15_000)
    assert not around.debug
    assert len(around.trace_id) == 32


def test_the_time_that_is_left_counts_from_the_beginning_of_the_call() -> None:
    begin()
    assert 3000 < seconds_left({"OPENSKILL_TIMEOUT_MS": "3600000"}) <= 3600
