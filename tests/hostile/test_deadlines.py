"""A time limit holds to within a second, whatever a command does about it."""

from typing import Any

import pytest

from tests.hostile.conftest import Chosen, pairs
from tests.hostile.deadlines import HANDS_OVER, STUBBORN, TIMEOUT
from tests.hostile.harness import User
from tests.long_form import cases

LATEST_MS = (TIMEOUT + 1.0) * 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "pair",
    cases(
        pairs("sandbox-us", "sandbox-stranger", "landlock-us", "container-us", "local-stranger"),
        pairs("landlock-stranger", "local-us"),
    ),
    indirect=True,
    ids="-".join,
)
def test_time_limits_hold_to_within_a_second(pair: tuple[Chosen, User]) -> None:
    executor, user = pair
    arguments = ("tests.hostile.deadlines", executor.name)
    report = user.run(*arguments, user.place(), environment=executor.environment)
    for what in (*STUBBORN, HANDS_OVER):
        found = report[what]
        expected = "exited" if what == HANDS_OVER else "timed_out"
        for _ in range(3):
            if _is_in_time(found) and found["ending"] == expected:
                break
            # The machine may have been busy with something else for a moment; it is not again and again.
            found = user.run(*arguments, user.place(), what, environment=executor.environment)[what]
        assert found["ending"] == expected, what
        assert _is_in_time(found), (what, found)


def _is_in_time(found: dict[str, Any]) -> bool:
    return max(found["reported_ms"], found["took_ms"]) <= LATEST_MS
