from collections.abc import Mapping

import pytest

from tests.executors.cold_and_warm import ENDINGS
from tests.executors.comparing import EXECUTORS, Pair, pairs_of, shown


@pytest.fixture(scope="module", params=EXECUTORS)
def pairs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Pair]:
    return pairs_of(ENDINGS, request.param, tmp_path_factory.mktemp("warm"))


@pytest.mark.parametrize("name", ENDINGS)
def test_a_script_ends_warm_as_it_ends_cold(pairs: Mapping[str, Pair], name: str) -> None:
    assert shown(pairs[name].warm) == shown(pairs[name].cold)
    assert pairs[name].started.warm
