"""A command that takes more than it may is refused or ended, before the machine feels it."""

import pytest

from tests.hostile.conftest import Chosen
from tests.hostile.exhausting import ENVIRONMENT, held_by
from tests.hostile.harness import User
from tests.hostile.probes.hoarding import WAYS


def test_without_limits_a_command_gets_everything(us: User) -> None:
    report = us.run("tests.hostile.exhausting", "bare", us.place())
    assert {what: found["got"] for what, found in report.items()} == dict.fromkeys(WAYS, True)


@pytest.mark.slow
def test_a_command_does_not_keep_more_than_it_may(pair: tuple[Chosen, User]) -> None:
    executor, user = pair
    variables = {**ENVIRONMENT, **executor.environment}
    report = user.run("tests.hostile.exhausting", executor.name, user.place(), environment=variables)
    assert list(report) == held_by(executor.name)
    assert {what: found for what, found in report.items() if found["ending"] == "timed_out"} == {}
