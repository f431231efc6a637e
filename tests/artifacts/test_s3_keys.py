"""Keys are in the order in which they are needed, and records come back as they were."""

from datetime import UTC, datetime

import pytest

from openskills.artifacts.s3_keys import (
    Found,
    Record,
    by_name,
    living,
    mark_key,
    name_prefix,
    owner_prefix,
    record_key,
    record_of,
    record_text,
)
from openskills.artifacts.store import Artifact
from openskills.errors import SkillError

AT = datetime(2026, 1, 31, tzinfo=UTC)
OWNER = ("app", "erika", "s1")
PREFIX = name_prefix(OWNER, "a/b")


def found(*keys: str) -> list[Found]:
    """What a bucket lists: keys in their order."""
    return [Found(key, AT) for key in sorted(keys)]


def test_the_latest_version_is_listed_first() -> None:
    listed = found(*(record_key(PREFIX, version) for version in (0, 1, 9, 10, 99, 100, 12345)))
    assert [one.version for one in listed] == [12345, 100, 99, 10, 9, 1, 0]


def test_a_mark_comes_before_what_it_covers_and_after_what_is_newer() -> None:
    listed = found(*(record_key(PREFIX, version) for version in range(5)), mark_key(PREFIX, 2))
    assert [(one.version, one.is_mark) for one in listed] == [
        (4, False),
        (3, False),
        (2, True),
        (2, False),
        (1, False),
        (0, False),
    ]
    assert [one.version for one in living(listed)] == [4, 3]


def test_everything_before_the_latest_mark_is_deleted() -> None:
    listed = found(mark_key(PREFIX, 1), mark_key(PREFIX, 4), record_key(PREFIX, 3), record_key(PREFIX, 0))
    assert living(listed) == []
    assert listed[0].version == 4


def test_the_keys_of_names_are_told_apart() -> None:
    other = name_prefix(OWNER, "a/c")
    listed = found(record_key(PREFIX, 0), record_key(other, 0), record_key(PREFIX, 1))
    assert sorted([one.version for one in keys] for keys in by_name(listed)) == [[0], [1, 0]]
    assert PREFIX.startswith(owner_prefix(OWNER))


def test_ids_and_names_are_never_part_of_a_key() -> None:
    key = record_key(name_prefix(("..", "a/b", "图"), "../../x"), 0)
    assert set(key) <= set("names/0123456789abcdef-r")
    assert len(key) < 200


def test_a_record_comes_back_as_it_was() -> None:
    record = Record(Artifact("图/a b", 3, 5, "image/png", "0" * 64, AT), "content/x")
    assert record_of(record_text(record, OWNER), "key") == record


@pytest.mark.parametrize("text", [b"", b"x", b"[]", b"{}", b'{"name": 1}', b"\xff"])
def test_a_damaged_record_is_named(text: bytes) -> None:
    with pytest.raises(SkillError, match="the record names/x of the artifact store is damaged"):
        record_of(text, "names/x")
