"""What can be done with a skill, by the address."""

from pathlib import Path

import pytest

from openskills.host.routes.verbs import names_a_verb
from tests.host.hosting import served


@pytest.mark.parametrize("path", ["/skills/echo:invoke", "/skills/echo:", "/skills/:invoke", "/skills/a:b:invoke"])
def test_addresses_with_a_colon_after_the_id_name_a_verb(path: str) -> None:
    assert names_a_verb(path)


@pytest.mark.parametrize("path", ["/skills", "/skills/echo", "/skills/echo/a:b", "/runs/x:cancel", "/skill:s/echo"])
def test_others_do_not(path: str) -> None:
    assert not names_a_verb(path)


def test_an_id_with_a_colon_is_looked_for_as_it_is(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        assert host.invoke("a:b", {}).json()["error"]["details"]["name"] == "a:b"


def test_a_very_long_id_is_not_repeated_whole(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        assert len(host.invoke("x" * 5000, {}).text) < 1000
