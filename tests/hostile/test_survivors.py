"""However a command ends, nothing that it started is there two seconds later."""

import pytest

from tests.hostile.conftest import PAIRS, Chosen, name_of, pairs
from tests.hostile.harness import User
from tests.hostile.probes.staying import WAYS
from tests.long_form import cases

ENDINGS = {"exit": "exited", "timeout": "timed_out", "kill": "killed", "close": "killed"}
EVERY = [(pair, ending) for pair in PAIRS for ending in ENDINGS]
# With every executor, and for every user, commands end in every way; the rest of the matrix is in the long form.
FIRST = pairs("sandbox-us", "landlock-stranger", "local-us")
SHORT = [one for one in EVERY if one[0][0] == "container" or (one[1] in ("timeout", "close")) == (one[0] in FIRST)]
MORE = [one for one in EVERY if one not in SHORT]


def test_without_protection_each_way_to_stay_works(us: User) -> None:
    report = us.run("tests.hostile.survivors", "bare", us.place(), "exit")
    assert report["left"] == sorted(way.__name__ for way in WAYS)


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "ending"), cases(SHORT, MORE), indirect=["pair"], ids=name_of)
def test_nothing_outlives_its_command(pair: tuple[Chosen, User], ending: str) -> None:
    executor, user = pair
    report = user.run("tests.hostile.survivors", executor.name, user.place(), ending, environment=executor.environment)
    assert report["left"] == {}
    assert report["ending"] == ENDINGS[ending]
    assert ending == "exit" or report["before"] >= len(WAYS)
