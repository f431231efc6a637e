"""Keys at rest: only hashes, for the owner's eyes, whole or not at all."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, SkillError
from openskills.host.books.key_file import KEY, StoredKey, add_key, digest_of, minted, read_keys, revoke_key

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kept(name: str = "ci") -> StoredKey:
    return minted(name, now=NOW)[1]


def test_a_key_is_long_random_and_recognised(tmp_path: Path) -> None:
    keys = {minted("ci", now=NOW)[0] for _ in range(50)}
    assert len(keys) == 50
    assert all(KEY.fullmatch(key) for key in keys)


def test_the_file_has_a_hash_and_never_the_key(tmp_path: Path) -> None:
    key, stored = minted("ci", now=NOW, lifetime=3600)
    add_key(tmp_path / "config" / "keys.json", stored)
    text = (tmp_path / "config" / "keys.json").read_text()
    assert key not in text
    assert key[len(stored.hint) :] not in text
    assert digest_of(key) in text
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
    with pytest.raises(InvalidArgument, match="no key named 'ci'"):
        revoke_key(path, "ci")
    add_key(path, kept())


def test_revoking_where_there_is_no_file_makes_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no key named"):
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
        (replace(kept(), rate_per_second=0.0), "rate"),
        (replace(kept(), rate_per_second=float("nan")), "rate"),
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
    with pytest.raises(SkillError, match=r"keys\.json is not valid"):
        read_keys(path)


def test_two_keys_of_one_name_in_a_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    add_key(path, kept())
    plain = json.loads(path.read_text())
    path.write_text(json.dumps({**plain, "keys": plain["keys"] * 2}))
    with pytest.raises(SkillError, match="same name"):
        read_keys(path)
