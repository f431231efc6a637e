"""Keys at rest: only hashes, for the owner's eyes, whole or not at all.

Who calls, by key: let in, refused, and refused again after the key was revoked.

Who may come in.
"""

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import InvalidArgument, SkillError, Unauthorized
from openskills.host.auth import (
    ANONYMOUS,
    KEY_PATTERN,
    Authenticator,
    KeyRing,
    Principal,
    StoredKey,
    create_key,
    digest_key,
    is_loopback,
    read_keys,
)
from openskills.host.http import HttpRefusal
from tests.host.exchanges import Sent
from tests.host.hosting import add_key, echo, eventually, key_in, revoke_key, served, settings_in

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kept(name: str = "ci") -> StoredKey:
    return create_key(name, now=NOW)[1]


def test_a_key_is_long_random_and_recognised(tmp_path: Path) -> None:
    keys = {create_key("ci", now=NOW)[0] for _ in range(50)}
    assert len(keys) == 50
    assert all(KEY_PATTERN.fullmatch(key) for key in keys)


def test_the_file_has_a_hash_and_never_the_key(tmp_path: Path) -> None:
    key, stored = create_key("ci", now=NOW, lifetime=3600)
    add_key(tmp_path / "config" / "keys.json", stored)
    text = (tmp_path / "config" / "keys.json").read_text()
    assert key not in text
    assert key[len(stored.hint) :] not in text
    assert digest_key(key) in text
    assert read_keys(tmp_path / "config" / "keys.json") == (stored,)
    assert stored.expires == "2026-01-01T01:00:00+00:00"


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    add_key(path, kept())
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_others_may_write_to_is_refused_with_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    add_key(path, kept())
    path.chmod(0o620)
    with pytest.raises(SkillError, match="chmod 600"):
        read_keys(path)


def test_a_name_is_taken_until_its_key_is_revoked(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    add_key(path, kept())
    with pytest.raises(InvalidArgument, match="revoke it first"):
        add_key(path, kept())
    assert revoke_key(path, "ci").name == "ci"
    assert read_keys(path) == ()
    with pytest.raises(InvalidArgument, match="unknown key 'ci'"):
        revoke_key(path, "ci")
    add_key(path, kept())


def test_revoking_where_there_is_no_file_makes_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="unknown key"):
        revoke_key(tmp_path / "keys.json", "ci")
    assert list(tmp_path.iterdir()) == []


def test_keys_that_are_added_at_the_same_time_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    names = [f"key-{number}" for number in range(20)]

    def add(name: str) -> None:
        add_key(path, kept(name))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, names))
    assert sorted(key.name for key in read_keys(path)) == sorted(names)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (replace(kept(), name="no spaces"), "name"),
        (replace(kept(), name=""), "name"),
        (replace(kept(), name="x\n"), "name"),
        (replace(kept(), scopes=()), "scope"),
        (replace(kept(), scopes=("a/b",)), "scope"),
        (replace(kept(), rate_per_second=0.0), "rate_per_second"),
        (replace(kept(), rate_per_second=float("nan")), "rate_per_second"),
        (replace(kept(), burst=-1), "burst"),
        (replace(kept(), concurrency=0), "concurrency"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_by_name(tmp_path: Path, wrong: StoredKey, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        add_key(tmp_path / "keys.json", wrong)
    assert caught.value.field == field
    assert not (tmp_path / "keys.json").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"version": 2, "keys": []}',
        '{"version": 1}',
        '{"version": 1, "keys": [1]}',
        '{"version": 1, "keys": [{"name": "a"}]}',
        '{"version": 1, "keys": [{"name": "a", "digest": "x", "hint": "", "created": ""}]}',
        '{"version": 1, "keys": 7}',
        "\x00\xff",
    ],
)
def test_a_file_that_is_broken_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text, "latin-1")
    path.chmod(0o600)
    with pytest.raises(SkillError, match=r"invalid key file .*keys\.json"):
        read_keys(path)


def test_two_keys_of_one_name_in_a_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    add_key(path, kept())
    plain = json.loads(path.read_text())
    path.write_text(json.dumps({**plain, "keys": plain["keys"] * 2}))
    with pytest.raises(SkillError, match="same name"):
        read_keys(path)


def added(path: Path, name: str = "ci", *, lifetime: float | None = None, **changes: Any) -> str:
    """A new key in the file."""
    key, kept = create_key(name, now=datetime.now(UTC), lifetime=lifetime)
    add_key(path, replace(kept, **changes))
    return key


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the keys are."""
    return tmp_path / "keys.json"


def test_a_key_says_who_calls_and_what_may_be_done(path: Path) -> None:
    key = added(path, "ci", scopes=("file_*", "echo"), rate_per_second=5.0, burst=7, concurrency=2)
    principal = KeyRing(path).authenticate(f"Bearer {key}")
    assert principal == Principal(
        "ci", ("file_*", "echo"), digest_key(key), rate_per_second=5.0, burst=7, concurrency=2
    )


def test_the_word_bearer_may_be_written_in_any_way(path: Path) -> None:
    key = added(path)
    ring = KeyRing(path)
    assert ring.authenticate(f"bearer {key}").name == ring.authenticate(f"BEARER  {key} ").name == "ci"


@pytest.mark.parametrize(
    ("skill", "allowed"),
    [("file_search", True), ("echo", True), ("echo2", False), ("profile_x", False), ("calculator", False), ("", False)],
)
def test_scopes_are_whole_names_or_patterns(skill: str, allowed: bool) -> None:
    assert Principal("ci", ("file_*", "echo")).can_invoke(skill) is allowed


def test_without_scopes_said_everything_is_allowed() -> None:
    assert Principal("ci").can_invoke("anything")
    assert not Principal("ci", ()).can_invoke("anything")


@pytest.mark.parametrize(
    ("authorization", "why"),
    [
        (None, "an API key is required"),
        ("", "not a bearer token"),
        ("Basic dXNlcjpwYXNz", "not a bearer token"),
        ("Bearer", "not an API key"),
        ("Bearer x", "not an API key"),
        ("Bearer osk_" + "a" * 43, "unknown API key"),
        ("Bearer osk_" + "a" * 1_000_000, "not an API key"),
        ("Bearer osk_\ud800" + "a" * 42, "not an API key"),
        ("Bearer osk_" + "é" * 43, "not an API key"),
    ],
)
def test_what_is_not_a_key_is_refused_with_the_reason(path: Path, authorization: str | None, why: str) -> None:
    added(path)
    with pytest.raises(Unauthorized, match=why):
        KeyRing(path).authenticate(authorization)


def test_a_refusal_never_repeats_what_was_sent(path: Path) -> None:
    added(path)
    with pytest.raises(Unauthorized) as caught:
        KeyRing(path).authenticate("Bearer osk_" + "b" * 43)
    assert "bbbb" not in f"{caught.value} {caught.value.details}"


def test_where_keys_are_required_an_empty_ring_lets_nobody_in(path: Path) -> None:
    for where in (path, None):
        with pytest.raises(Unauthorized):
            KeyRing(where).authenticate(None)


def test_where_none_is_required_who_brings_none_is_anonymous(path: Path) -> None:
    assert KeyRing(path).authenticate(None, required=False) is ANONYMOUS
    assert KeyRing(path).authenticate("Bearer whatever", required=False) is ANONYMOUS
    key = added(path)
    ring = KeyRing(path)
    assert ring.authenticate(None, required=False) is ANONYMOUS
    assert ring.authenticate(f"Bearer {key}", required=False).name == "ci"
    with pytest.raises(Unauthorized, match="unknown API key"):
        ring.authenticate("Bearer osk_" + "a" * 43, required=False)


def test_an_expired_key_is_refused(path: Path) -> None:
    ring = KeyRing(path, every=0.0)
    with pytest.raises(Unauthorized, match="has expired"):
        ring.authenticate(f"Bearer {added(path, 'old', lifetime=0.0)}")
    assert ring.authenticate(f"Bearer {added(path, 'new', lifetime=3600.0)}").name == "new"


def test_a_change_of_the_file_counts_as_soon_as_it_is_looked_at(path: Path) -> None:
    ring = KeyRing(path, every=0.0)
    key = added(path)
    assert ring.authenticate(f"Bearer {key}").name == "ci"
    assert len(ring) == 1
    revoke_key(path, "ci")
    with pytest.raises(Unauthorized, match="revoked"):
        ring.authenticate(f"Bearer {key}")
    other = added(path, "other")
    assert ring.authenticate(f"Bearer {other}").name == "other"
    path.unlink()
    with pytest.raises(Unauthorized):
        ring.authenticate(f"Bearer {other}")


def test_a_file_that_breaks_later_leaves_the_known_keys_and_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = added(path)
    ring = KeyRing(path, every=0.0)
    path.write_text("{")
    with caplog.at_level(logging.WARNING):
        assert ring.authenticate(f"Bearer {key}").name == ring.authenticate(f"Bearer {key}").name == "ci"
    assert [record.message.startswith("cannot reload the keys") for record in caplog.records] == [True]


def test_a_file_that_is_broken_from_the_start_is_an_error(path: Path) -> None:
    path.write_text("{")
    path.chmod(0o600)
    with pytest.raises(SkillError, match="invalid key file"):
        KeyRing(path)


def test_the_file_is_not_looked_at_for_each_request(path: Path) -> None:
    key = added(path)
    ring = KeyRing(path, every=3600.0)
    assert ring.authenticate(f"Bearer {key}").name == "ci"
    revoke_key(path, "ci")
    assert ring.authenticate(f"Bearer {key}").name == "ci"


def test_a_revoked_key_is_refused_soon(path: Path) -> None:
    key = added(path)
    ring = KeyRing(path)
    assert ring.authenticate(f"Bearer {key}").name == "ci"
    revoke_key(path, "ci")
    deadline = time.monotonic() + 20

    def until_refused() -> None:
        while time.monotonic() < deadline:
            ring.authenticate(f"Bearer {key}")
            time.sleep(0.01)

    with pytest.raises(Unauthorized, match="revoked"):
        until_refused()


def gate(directory: Path, mode: str) -> Authenticator:
    path = settings_in(directory).host_keys
    return Authenticator(KeyRing(path), mode)


def local(**headers: str) -> Sent:
    return Sent(headers={"Host": "127.0.0.1:8000", **headers})


def test_where_no_key_is_needed_everybody_is_anonymous(tmp_path: Path) -> None:
    assert gate(tmp_path, "off").authenticate(local().exchange) is ANONYMOUS
    assert gate(tmp_path, "off").authenticate(Sent(server="192.0.2.1").exchange) is ANONYMOUS


def test_a_key_counts_where_none_is_needed_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    key = key_in(tmp_path)
    assert gate(tmp_path, "off").authenticate(local(Authorization=f"Bearer {key}").exchange).name == "me"
    with pytest.raises(Unauthorized):
        gate(tmp_path, "off").authenticate(local(Authorization=f"Bearer {key[:-1]}x").exchange)


def test_where_a_key_is_needed_nobody_comes_in_without_one(tmp_path: Path) -> None:
    key = key_in(tmp_path)
    with pytest.raises(Unauthorized):
        gate(tmp_path, "on").authenticate(local().exchange)
    assert gate(tmp_path, "on").authenticate(local(Authorization=f"Bearer {key}").exchange).name == "me"


def test_unless_told_otherwise_a_key_is_needed_by_those_who_come_from_elsewhere(tmp_path: Path) -> None:
    assert gate(tmp_path, "auto").authenticate(local().exchange) is ANONYMOUS
    with pytest.raises(Unauthorized):
        gate(tmp_path, "auto").authenticate(Sent(server="192.0.2.1", headers={"Host": "127.0.0.1"}).exchange)


def test_as_soon_as_there_are_keys_one_is_needed_on_this_machine_even_when_they_are_revoked(tmp_path: Path) -> None:
    found = gate(tmp_path, "auto")
    assert found.authenticate(local().exchange) is ANONYMOUS
    key = key_in(tmp_path)
    found = gate(tmp_path, "auto")
    with pytest.raises(Unauthorized, match="required"):
        found.authenticate(local().exchange)
    assert found.authenticate(local(Authorization=f"Bearer {key}").exchange).name == "me"
    revoke_key(settings_in(tmp_path).host_keys, "me")

    def is_refused() -> bool:
        try:
            found.authenticate(local(Authorization=f"Bearer {key}").exchange)
        except Unauthorized:
            return True
        return False

    eventually(is_refused)
    with pytest.raises(Unauthorized, match="required"):
        found.authenticate(local().exchange)


@pytest.mark.parametrize(
    "name",
    [
        *("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Proto", "X-FORWARDED-Prefix", "X-Forwarded"),
        *("CF-Connecting-IP", "True-Client-IP", "X-Cluster-Client-Ip", "X-Envoy-External-Address", "CDN-Loop"),
    ],
)
def test_a_request_that_came_through_a_proxy_needs_a_key(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unauthorized, match="required"):
        gate(tmp_path, "auto").authenticate(local(**{name: "127.0.0.1"}).exchange)
    assert gate(tmp_path, "off").authenticate(local(**{name: "127.0.0.1"}).exchange) is ANONYMOUS


@pytest.mark.parametrize("name", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""])
def test_a_page_that_had_its_name_point_here_is_turned_away(tmp_path: Path, name: str) -> None:
    with pytest.raises(HttpRefusal) as found:
        gate(tmp_path, "auto").authenticate(Sent(headers={"Host": name}).exchange)
    assert found.value.failure.code == 421


@pytest.mark.parametrize(
    "name", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "LOCALHOST", "[::1]:8000", "a.localhost"]
)
def test_every_name_of_this_machine_is_taken(tmp_path: Path, name: str) -> None:
    assert gate(tmp_path, "auto").authenticate(Sent(headers={"Host": name}).exchange) is ANONYMOUS


@pytest.mark.parametrize(
    ("name", "known"), [("127.8.9.1", True), ("::1", True), ("0.0.0.0", False), ("10.0.0.1", False)]
)
def test_loopback_is_told_by_the_address(name: str, known: bool) -> None:
    assert is_loopback(name) is known


def test_a_web_page_from_elsewhere_can_change_nothing(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo}) as host:
        foreign, own = {"Origin": "http://evil.example"}, {"Origin": "http://localhost:3000"}
        body = {"input": {"text": "hi"}}
        assert host.client.post("/skills/echo:invoke", json=body, headers=foreign).status_code == 403
        assert host.client.post("/skills/echo:invoke", json=body, headers=own).status_code == 200
        assert host.client.post("/conversations", headers=foreign).status_code == 403
        assert host.client.post("/runs/x:again", headers=foreign).status_code == 403
        assert host.client.get("/skills", headers=foreign).status_code == 200
