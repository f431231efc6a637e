"""All probes under every executor: none gets hold of anything that is not left open by the executor's own words."""

from typing import Any

import pytest

from openskills.executors.spec import Isolation
from tests.hostile.conftest import PAIRS, Chosen, chosen, name_of, pairs
from tests.hostile.harness import User, battery
from tests.hostile.probes.battery import PROBES
from tests.hostile.promises import LOCAL, NOT_PROMISED
from tests.long_form import cases

ISOLATION = {
    "sandbox": Isolation.BUBBLEWRAP,
    "landlock": Isolation.LANDLOCK,
    "container": Isolation.CONTAINER,
    "local": Isolation.NONE,
}


WAYS: dict[str, tuple[str, ...]] = {"one-shot": (), "interactive": ("terminal",)}
EVERY = [(pair, way) for pair in PAIRS for way in WAYS]
# Every executor in both ways, and every user in both; the rest of the matrix is in the long form.
ONE_SHOT = pairs("sandbox-us", "landlock-stranger", "local-us")
SHORT = [(pair, way) for pair, way in EVERY if pair[0] == "container" or (way == "one-shot") == (pair in ONE_SHOT)]
MORE = [one for one in EVERY if one not in SHORT]


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "way"), cases(SHORT, MORE), indirect=["pair"], ids=name_of)
def test_no_probe_succeeds_that_the_executor_promises_to_stop(pair: tuple[Chosen, User], way: str) -> None:
    executor, user = pair
    check(battery(user, executor.name, *WAYS[way], environment=executor.environment), executor.name)


@pytest.mark.slow
@pytest.mark.parametrize("user", cases(["us"], ["stranger"]), indirect=True)
def test_no_probe_succeeds_in_a_command_that_starts_warm(request: pytest.FixtureRequest, user: User) -> None:
    executor = chosen(request, "sandbox")
    report = battery(user, executor.name, "warm", environment=executor.environment)
    assert report["notes"] == []
    check(report, executor.name)


@pytest.mark.slow
@pytest.mark.parametrize("user", cases(["stranger"], ["us"]), indirect=True)
def test_no_probe_succeeds_in_a_sandbox_that_others_had_before(request: pytest.FixtureRequest, user: User) -> None:
    executor = chosen(request, "sandbox")
    check(battery(user, executor.name, "used", environment=executor.environment), executor.name)


def check(report: dict[str, Any], executor: str) -> None:
    """Nothing was got hold of, as the probes see it and as it is seen from outside."""
    results = report["results"]
    escaped = {identity: result["detail"] for identity, result in results.items() if result["escaped"]}
    assert [result for result in results.values() if result.get("broken")] == []
    assert {identity: what for identity, what in escaped.items() if identity not in _open_in(executor)} == {}
    assert report["isolation"] == ISOLATION[executor]
    assert len(results) >= (len(LOCAL) if executor == "local" else 250)
    if executor != "local":
        assert report["touched"] == []


def test_every_exception_is_a_probe_and_has_a_reason() -> None:
    for exceptions in NOT_PROMISED.values():
        assert set(exceptions) <= set(PROBES)
        assert all(exceptions.values())
    assert set(LOCAL) <= set(PROBES)
    assert not NOT_PROMISED["sandbox"]


def _open_in(executor: str) -> set[str]:
    return set(NOT_PROMISED.get(executor, {}))
