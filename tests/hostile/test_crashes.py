"""A host that is killed at any moment leaves nothing running, loses nothing it acknowledged, and starts again."""

import pytest

from tests.hostile.conftest import Chosen, chosen
from tests.hostile.harness import User
from tests.long_form import LONG

SEED = 20_240_229
ROUNDS = {"sandbox": 5, "local": 4, "landlock": 4, "container": 3}
LONG_ROUNDS = 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ROUNDS))
def test_a_killed_host_leaves_nothing_running_and_loses_nothing(
    request: pytest.FixtureRequest, us: User, name: str
) -> None:
    executor = chosen(request, name)
    check(executor, us, LONG_ROUNDS if LONG else ROUNDS[name])


@pytest.mark.slow
def test_a_killed_host_without_rights_leaves_nothing_running(request: pytest.FixtureRequest, stranger: User) -> None:
    check(chosen(request, "sandbox"), stranger, LONG_ROUNDS if LONG else 4)


def check(executor: Chosen, user: User, rounds: int) -> None:
    """Kill hosts of this user at random moments."""
    arguments = ("tests.hostile.crashing", executor.name, user.place(), str(rounds), str(SEED))
    report = user.run(*arguments, environment=executor.environment)
    assert report["orphans"] == []
    assert report["lost"] == []
    assert report["clean"] == 0
    assert report["ready"] >= rounds // 3
    assert report["kept"] >= 2
