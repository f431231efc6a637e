"""Who may come in."""

from pathlib import Path

import pytest

from openskills.errors import Unauthorized
from openskills.host.books.keys import ANONYMOUS, KeyRing
from openskills.host.wire.faults import Refused
from openskills.host.wire.gate import Gate, is_loopback
from tests.host.exchanges import Sent
from tests.host.hosting import key_in, settings_in


def gate(directory: Path, mode: str) -> Gate:
    path = settings_in(directory).host_keys
    return Gate(KeyRing.open(path, required=True), KeyRing.open(path), mode)


def local(**headers: str) -> Sent:
    return Sent(headers={"Host": "127.0.0.1:8000", **headers})


def test_where_no_key_is_needed_everybody_is_anonymous(tmp_path: Path) -> None:
    assert gate(tmp_path, "off").principal(local().exchange) is ANONYMOUS
    assert gate(tmp_path, "off").principal(Sent(server="192.0.2.1").exchange) is ANONYMOUS


def test_a_key_counts_where_none_is_needed_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    key = key_in(tmp_path)
    assert gate(tmp_path, "off").principal(local(Authorization=f"Bearer {key}").exchange).name == "me"
    with pytest.raises(Unauthorized):
        gate(tmp_path, "off").principal(local(Authorization=f"Bearer {key[:-1]}x").exchange)


def test_where_a_key_is_needed_nobody_comes_in_without_one(tmp_path: Path) -> None:
    key = key_in(tmp_path)
    with pytest.raises(Unauthorized):
        gate(tmp_path, "on").principal(local().exchange)
    assert gate(tmp_path, "on").principal(local(Authorization=f"Bearer {key}").exchange).name == "me"


def test_unless_told_otherwise_a_key_is_needed_by_those_who_come_from_elsewhere(tmp_path: Path) -> None:
    assert gate(tmp_path, "auto").principal(local().exchange) is ANONYMOUS
    with pytest.raises(Unauthorized):
        gate(tmp_path, "auto").principal(Sent(server="192.0.2.1", headers={"Host": "127.0.0.1"}).exchange)


@pytest.mark.parametrize("name", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""])
def test_a_page_that_had_its_name_point_here_is_turned_away(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused) as found:
        gate(tmp_path, "auto").principal(Sent(headers={"Host": name}).exchange)
    assert found.value.failure.code == 421


@pytest.mark.parametrize(
    "name", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "LOCALHOST", "[::1]:8000", "a.localhost"]
)
def test_every_name_of_this_machine_is_taken(tmp_path: Path, name: str) -> None:
    assert gate(tmp_path, "auto").principal(Sent(headers={"Host": name}).exchange) is ANONYMOUS


@pytest.mark.parametrize(
    ("name", "known"), [("127.8.9.1", True), ("::1", True), ("0.0.0.0", False), ("10.0.0.1", False)]
)
def test_loopback_is_told_by_the_address(name: str, known: bool) -> None:
    assert is_loopback(name) is known
