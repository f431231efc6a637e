"""However a command ends, nothing that it started is there two seconds later."""

import pytest

from tests.hostile.conftest import Chosen
from tests.hostile.harness import User
from tests.hostile.probes.staying import WAYS

ENDINGS = {"exit": "exited", "timeout": "timed_out", "kill": "killed", "close": "killed"}


def test_without_protection_each_way_to_stay_works(us: User) -> None:
    report = us.run("tests.hostile.survivors", "bare", us.place(), "exit")
    assert report["left"] == sorted(way.__name__ for way in WAYS)


@pytest.mark.slow
@pytest.mark.parametrize("ending", list(ENDINGS))
def test_nothing_outlives_its_command(pair: tuple[Chosen, User], ending: str) -> None:
    executor, user = pair
    report = user.run("tests.hostile.survivors", executor.name, user.place(), ending, environment=executor.environment)
    assert report["left"] == {}
    assert report["ending"] == ENDINGS[ending]
    assert ending == "exit" or report["before"] >= len(WAYS)
