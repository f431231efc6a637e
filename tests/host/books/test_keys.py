"""Who calls, by key: let in, refused, and refused again after the key was revoked."""

import logging
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import SkillError, Unauthorized
from openskills.host.books.key_file import add_key, minted, revoke_key
from openskills.host.books.keys import ANONYMOUS, KeyRing, Principal


def added(path: Path, name: str = "ci", *, lifetime: float | None = None, **changes: Any) -> str:
    """A new key in the file."""
    key, kept = minted(name, now=datetime.now(UTC), lifetime=lifetime)
    add_key(path, replace(kept, **changes))
    return key


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the keys are."""
    return tmp_path / "keys.json"


def test_a_key_says_who_calls_and_what_may_be_done(path: Path) -> None:
    key = added(path, "ci", scopes=("file_*", "echo"), rate_per_second=5.0, burst=7, concurrency=2)
    principal = KeyRing.open(path, required=True).check(f"Bearer {key}")
    assert principal == Principal("ci", ("file_*", "echo"), 5.0, 7, 2)


def test_the_word_bearer_may_be_written_in_any_way(path: Path) -> None:
    key = added(path)
    ring = KeyRing.open(path, required=True)
    assert ring.check(f"bearer {key}").name == ring.check(f"BEARER  {key} ").name == "ci"


@pytest.mark.parametrize(
    ("skill", "allowed"),
    [("file_search", True), ("echo", True), ("echo2", False), ("profile_x", False), ("calculator", False), ("", False)],
)
def test_scopes_are_whole_names_or_patterns(skill: str, allowed: bool) -> None:
    assert Principal("ci", ("file_*", "echo")).may(skill) is allowed


def test_without_scopes_said_everything_is_allowed() -> None:
    assert Principal("ci").may("anything")
    assert not Principal("ci", ()).may("anything")


@pytest.mark.parametrize(
    ("authorization", "why"),
    [
        (None, "a key is needed"),
        ("", "no bearer key"),
        ("Basic dXNlcjpwYXNz", "no bearer key"),
        ("Bearer", "does not look like a key"),
        ("Bearer x", "does not look like a key"),
        ("Bearer osk_" + "a" * 43, "not known here"),
        ("Bearer osk_" + "a" * 1_000_000, "does not look like a key"),
        ("Bearer osk_\ud800" + "a" * 42, "does not look like a key"),
        ("Bearer osk_" + "é" * 43, "does not look like a key"),
    ],
)
def test_what_is_no_key_is_refused_with_the_reason(path: Path, authorization: str | None, why: str) -> None:
    added(path)
    with pytest.raises(Unauthorized, match=why):
        KeyRing.open(path, required=True).check(authorization)


def test_a_refusal_never_repeats_what_was_sent(path: Path) -> None:
    added(path)
    with pytest.raises(Unauthorized) as caught:
        KeyRing.open(path, required=True).check("Bearer osk_" + "b" * 43)
    assert "bbbb" not in f"{caught.value} {caught.value.details}"


def test_where_keys_are_required_an_empty_ring_lets_nobody_in(path: Path) -> None:
    for where in (path, None):
        with pytest.raises(Unauthorized):
            KeyRing.open(where, required=True).check(None)


def test_where_none_is_required_who_brings_none_is_anonymous(path: Path) -> None:
    assert KeyRing.open(path).check(None) is ANONYMOUS
    assert KeyRing.open(path).check("Bearer whatever") is ANONYMOUS
    key = added(path)
    ring = KeyRing.open(path)
    assert ring.check(None) is ANONYMOUS
    assert ring.check(f"Bearer {key}").name == "ci"
    with pytest.raises(Unauthorized, match="not known"):
        ring.check("Bearer osk_" + "a" * 43)


def test_an_expired_key_is_refused(path: Path) -> None:
    ring = KeyRing.open(path, required=True, every=0.0)
    with pytest.raises(Unauthorized, match="has expired"):
        ring.check(f"Bearer {added(path, 'old', lifetime=0.0)}")
    assert ring.check(f"Bearer {added(path, 'new', lifetime=3600.0)}").name == "new"


def test_a_change_of_the_file_counts_as_soon_as_it_is_looked_at(path: Path) -> None:
    ring = KeyRing.open(path, required=True, every=0.0)
    key = added(path)
    assert ring.check(f"Bearer {key}").name == "ci"
    assert len(ring) == 1
    revoke_key(path, "ci")
    with pytest.raises(Unauthorized, match="revoked"):
        ring.check(f"Bearer {key}")
    other = added(path, "other")
    assert ring.check(f"Bearer {other}").name == "other"
    path.unlink()
    with pytest.raises(Unauthorized):
        ring.check(f"Bearer {other}")


def test_a_file_that_breaks_later_leaves_the_known_keys_and_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = added(path)
    ring = KeyRing.open(path, required=True, every=0.0)
    path.write_text("{")
    with caplog.at_level(logging.WARNING):
        assert ring.check(f"Bearer {key}").name == ring.check(f"Bearer {key}").name == "ci"
    assert [record.message.startswith("the keys that were known stay") for record in caplog.records] == [True]


def test_a_file_that_is_broken_from_the_start_is_an_error(path: Path) -> None:
    path.write_text("{")
    path.chmod(0o600)
    with pytest.raises(SkillError, match="is not valid"):
        KeyRing.open(path, required=True)


def test_the_file_is_not_looked_at_for_each_request(path: Path) -> None:
    key = added(path)
    ring = KeyRing.open(path, required=True, every=3600.0)
    assert ring.check(f"Bearer {key}").name == "ci"
    revoke_key(path, "ci")
    assert ring.check(f"Bearer {key}").name == "ci"


def test_a_revoked_key_is_refused_soon(path: Path) -> None:
    key = added(path)
    ring = KeyRing.open(path, required=True)
    assert ring.check(f"Bearer {key}").name == "ci"
    revoke_key(path, "ci")
    deadline = time.monotonic() + 20

    def until_refused() -> None:
        while time.monotonic() < deadline:
            ring.check(f"Bearer {key}")
            time.sleep(0.01)

    with pytest.raises(Unauthorized, match="revoked"):
        until_refused()
