from collections.abc import Mapping

import pytest

from tests.executors.cold_and_warm import BEGINNINGS, Case
from tests.executors.comparing import EXECUTORS, Pair, pairs_of, shown


@pytest.fixture(scope="module", params=EXECUTORS)
def pairs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Pair]:
    return pairs_of(BEGINNINGS, request.param, tmp_path_factory.mktemp("warm"))


@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_script_finds_the_same_warm_as_cold(pairs: Mapping[str, Pair], name: str) -> None:
    case, pair = BEGINNINGS[name], pairs[name]
    assert without_echo(shown(pair.warm), case) == without_echo(shown(pair.cold), case)
    if case.terminal is not None and not pair.started.warm:
        # Where the server has no session of its own there is no other way.
        assert "its terminal is not visible in the sandbox" in pair.started.reason
    else:
        assert (pair.started.warm, case.cold in pair.started.reason) == (not case.cold, True)


def without_echo(told: tuple[int, str, str], case: Case) -> tuple[int, str, str]:
    """A terminal shows what is typed at once, wherever the program is by then."""
    code, out, err = told
    return code, out.replace(case.stdin.decode().replace("\n", "\r\n"), "", 1) if case.terminal else out, err
