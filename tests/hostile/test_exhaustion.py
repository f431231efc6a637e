"""A command that takes more than it may is refused or ended, before the machine feels it."""

import pytest

from tests.hostile.conftest import Chosen, pairs
from tests.hostile.exhausting import ENVIRONMENT, held_by
from tests.hostile.flood import AT_ONCE
from tests.hostile.harness import User
from tests.hostile.probes.hoarding import WAYS
from tests.long_form import LONG, cases


def test_without_limits_a_command_gets_everything(us: User) -> None:
    report = us.run("tests.hostile.exhausting", "bare", us.place())
    assert {what: found["got"] for what, found in report.items()} == dict.fromkeys(WAYS, True)


# The limits of the others do not depend on who runs the host.
@pytest.mark.slow
@pytest.mark.parametrize(
    "pair",
    cases(
        pairs("sandbox-us", "sandbox-stranger", "landlock-us", "container-us", "local-us"),
        pairs("landlock-stranger", "local-stranger"),
    ),
    indirect=True,
    ids="-".join,
)
def test_a_command_does_not_keep_more_than_it_may(pair: tuple[Chosen, User]) -> None:
    executor, user = pair
    variables = {**ENVIRONMENT, **executor.environment}
    report = user.run("tests.hostile.exhausting", executor.name, user.place(), environment=variables)
    assert list(report) == held_by(executor.name)
    assert {what: found for what, found in report.items() if found["ending"] == "timed_out"} == {}


MIB = 1024 * 1024
SECONDS = 10 if LONG else 2


@pytest.mark.slow
def test_eight_commands_that_write_without_end_grow_the_host_by_less_than_32_mb(executor: Chosen, us: User) -> None:
    module = ("tests.hostile.flood", executor.name, us.place(), str(SECONDS))
    report = us.run(*module, environment=executor.environment)
    assert report["growth"] < 32_000_000
    assert report["endings"] == ["timed_out"] * AT_ONCE
    assert min(report["written"]) > MIB
    assert max(report["kept"]) <= MIB
