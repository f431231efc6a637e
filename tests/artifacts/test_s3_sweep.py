"""A sweep takes what nobody refers to, and nothing else."""

from datetime import UTC, datetime, timedelta

from openskills.artifacts.files import Swept
from openskills.artifacts.s3_keys import Found, mark_key, record_key
from openskills.artifacts.s3_sweep import parted
from openskills.artifacts.store import Scope, read
from openskills.sync import run
from tests.artifacts.buckets import bucket_of, keys, store_of
from tests.servers.s3 import S3Server

NOW = datetime(2026, 1, 31, tzinfo=UTC)
OLD, YOUNG = NOW - timedelta(days=2), NOW
BEFORE = NOW - timedelta(days=1)
NONE = timedelta(seconds=-5)
"""So that what was written in this second is old, too."""


def listed(*entries: tuple[str, datetime]) -> list[Found]:
    return sorted((Found(key, at) for key, at in entries), key=lambda one: one.key)


def test_what_was_never_deleted_stays() -> None:
    found = listed((record_key("p/", 0), OLD), (record_key("p/", 1), OLD))
    assert parted(found, before=BEFORE) == (found, [])


def test_of_what_was_deleted_long_ago_only_the_latest_mark_stays() -> None:
    found = listed(
        (record_key("p/", 3), YOUNG),
        (mark_key("p/", 2), OLD),
        (record_key("p/", 2), OLD),
        (mark_key("p/", 1), OLD),
        (record_key("p/", 0), OLD),
    )
    kept, gone = parted(found, before=BEFORE)
    assert [one.key for one in kept] == [record_key("p/", 3)]
    assert [one.key for one in gone] == [record_key("p/", 2), mark_key("p/", 1), record_key("p/", 0)]


def test_what_was_deleted_lately_stays_for_those_who_are_reading_it() -> None:
    found = listed((mark_key("p/", 1), YOUNG), (record_key("p/", 1), OLD), (record_key("p/", 0), OLD))
    kept, gone = parted(found, before=BEFORE)
    assert [one.key for one in kept] == [record_key("p/", 1), record_key("p/", 0)]
    assert gone == []


def test_sweeping_a_bucket_removes_deleted_and_orphaned_content(s3_server: S3Server) -> None:
    name, scope = s3_server.new_bucket(), Scope("app", "erika", "s1")
    store = store_of(s3_server, name)
    for artifact, content in (("a", b"first"), ("a", b"second"), ("b", b"kept")):
        run(store.put(scope, artifact, content))
    run(bucket_of(s3_server, name).put("content/orphan", b"of a killed process"))
    run(store.delete(scope, "a"))
    assert run(store.sweep()) == Swept(0, 0), "something young was taken"
    assert run(store.sweep(older_than=NONE)) == Swept(3, len(b"first") + len(b"second") + len(b"of a killed process"))
    assert run(store.sweep(older_than=NONE)) == Swept(0, 0)
    assert run(read(store, scope, "b")) == b"kept"
    # The format, the content and the record of b, and the mark of a.
    assert len(keys(s3_server, name)) == 4
    assert run(store.put(scope, "a", b"third")).version == 2
