"""Object stores: bytes by name in a directory or a bucket, and conditional creation."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openskills.artifacts.objects import DirectoryObjectStore, ObjectStore, S3ObjectStore, check_object_name
from openskills.artifacts.open import open_object_store
from openskills.errors import InvalidArgument, LimitExceeded, SkillError
from openskills.settings import Settings
from openskills.sync import run
from tests.artifacts.buckets import config_of, keys, uploads
from tests.long_form import examples
from tests.servers.s3 import CREDENTIALS, S3Server

MIB = 1024 * 1024


@pytest.fixture(params=["directory", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """Each of our object stores, empty."""
    if request.param == "directory":
        return DirectoryObjectStore(tmp_path / "storage")
    server: S3Server = request.getfixturevalue("s3_server")
    return S3ObjectStore(server.new_bucket(), "pre/fix", config=config_of(server))


async def pieces(*data: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece
    if then is not None:
        raise then


async def names_of(store: ObjectStore, prefix: str = "") -> list[str]:
    return [info.name for info in await store.list(prefix)]


async def test_an_object_is_read_as_it_was_written_and_replaced_whole(objects: ObjectStore) -> None:
    assert await objects.read("a/b") is None
    await objects.put("a/b", b"one")
    await objects.put("a/b", pieces(b"tw", b"", b"o"))
    assert await objects.read("a/b") == b"two"
    assert [(info.name, info.size) for info in await objects.list("a")] == [("a/b", 3)]


async def test_a_large_object_is_streamed_in_pieces_of_at_most_one_mebibyte(objects: ObjectStore) -> None:
    parts = [bytes([number]) * MIB for number in range(10)]
    await objects.put("large", pieces(*parts))
    found = [piece async for piece in objects.stream("large")]
    assert b"".join(found) == b"".join(parts)
    assert max(map(len, found)) <= MIB
    with pytest.raises(LimitExceeded, match=r"large in the storage .* has more than 5 bytes"):
        await objects.read("large", max_bytes=5)


async def test_of_many_creations_at_the_same_time_one_succeeds_and_its_bytes_stay(objects: ObjectStore) -> None:
    done = await asyncio.gather(*(objects.create("lock/x", str(number).encode()) for number in range(8)))
    assert sum(done) == 1
    assert await objects.read("lock/x") == str(done.index(True)).encode()


async def test_content_that_fails_halfway_changes_nothing(objects: ObjectStore) -> None:
    await objects.put("a", b"old")
    with pytest.raises(ZeroDivisionError):
        await objects.put("a", pieces(b"x" * 9 * MIB, then=ZeroDivisionError()))
    assert await objects.read("a") == b"old"
    assert await names_of(objects) == ["a"]


async def test_a_use_that_is_cancelled_at_any_moment_leaves_no_file_and_no_descriptor(tmp_path: Path) -> None:
    store = DirectoryObjectStore(tmp_path / "storage")

    async def write_and_read() -> None:
        await store.put("a", b"x")
        await store.read("a")

    await write_and_read()
    before = len(os.listdir("/proc/self/fd"))
    for turns in range(300):
        using = asyncio.ensure_future(write_and_read())
        for _ in range(turns):
            await asyncio.sleep(0)
        using.cancel()
        await asyncio.wait([using])
    assert len(os.listdir("/proc/self/fd")) <= before
    assert os.listdir(tmp_path / "storage" / "arriving") == []
    assert await store.read("a") == b"x"


async def test_a_listing_has_whole_segments_sorted_by_name(objects: ObjectStore) -> None:
    for name in ("b/2", "b/10", "b/1/x", "bb/1", "a"):
        await objects.put(name, b"")
    assert await names_of(objects) == ["a", "b/1/x", "b/10", "b/2", "bb/1"]
    assert await names_of(objects, "b") == await names_of(objects, "b/") == ["b/1/x", "b/10", "b/2"]
    assert await names_of(objects, "c") == []


async def test_deleting_ignores_missing_objects_and_leaves_the_others(objects: ObjectStore) -> None:
    await objects.put("a/b/c", b"1")
    await objects.put("a/d", b"2")
    await objects.delete(["a/b/c", "a/b/c", "never"])
    assert await names_of(objects) == ["a/d"]
    with pytest.raises(FileNotFoundError):
        await anext(objects.stream("a/b/c"))
    assert await objects.create("a/b/c", b"3")


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", "..", "a/../b", ".a", "a b", "é", "a\n", "x" * 201, "a/" * 400]
)
async def test_other_names_are_refused(objects: ObjectStore, name: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid object name"):
        check_object_name(name)
    for work in (objects.put(name, b""), objects.create(name, b""), objects.read(name), objects.delete([name])):
        with pytest.raises(InvalidArgument, match="invalid object name"):
            await work


async def test_creations_and_deletions_of_the_only_object_of_a_directory_do_not_disturb_each_other(
    tmp_path: Path,
) -> None:
    store = DirectoryObjectStore(tmp_path)

    async def use(number: int) -> None:
        for _ in range(20):
            await store.put(f"shared/deep/{number}", b"x")
            assert await store.read(f"shared/deep/{number}") == b"x"
            await store.delete([f"shared/deep/{number}"])

    await asyncio.gather(*map(use, range(4)))
    assert await names_of(store) == []
    assert os.listdir(tmp_path / "objects") == []
    assert os.listdir(tmp_path / "arriving") == []


async def test_a_directory_that_cannot_be_written_is_reported_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = DirectoryObjectStore(tmp_path / "file" / "storage")
    with pytest.raises((SkillError, NotADirectoryError), match="file"):
        await store.put("a", b"1")


async def test_a_bucket_has_no_unfinished_upload_after_a_failure(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    store = S3ObjectStore(name, "p", config=config_of(s3_server))
    with pytest.raises(ZeroDivisionError):
        await store.put("a", pieces(*[b"x" * MIB] * 12, then=ZeroDivisionError()))
    assert uploads(s3_server, name) == 0
    assert keys(s3_server, name) == ["p/storage-format"]


STEP = st.tuples(
    st.sampled_from(["put", "create", "delete"]), st.sampled_from(["a", "b/c", "b/d"]), st.binary(max_size=4)
)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(STEP, max_size=12))
def test_a_directory_agrees_with_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, bytes]]
) -> None:
    async def follow() -> None:
        store, model = DirectoryObjectStore(tmp_path_factory.mktemp("storage")), dict[str, bytes]()
        for verb, name, data in steps:
            if verb == "put":
                await store.put(name, data)
                model[name] = data
            elif verb == "create":
                assert await store.create(name, data) == (name not in model)
                model.setdefault(name, data)
            else:
                await store.delete([name])
                model.pop(name, None)
        assert {info.name: await store.read(info.name) for info in await store.list("")} == model

    run(follow())


def test_the_url_decides_which_store_is_opened(tmp_path: Path, s3_server: S3Server) -> None:
    settings_ = Settings.from_env({"HOME": str(tmp_path), **CREDENTIALS})
    for url, place in (
        (f"{tmp_path}/a b", f"the storage {tmp_path}/a b"),
        (f"file://{tmp_path}/a%20b", f"the storage {tmp_path}/a b"),
        (f"s3://bucket/team?endpoint={s3_server.endpoint}", "the storage s3://bucket/team"),
    ):
        assert open_object_store(url, settings_).place == place


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("relative/dir", "OPENSKILL_STORAGE: unsupported URL; use one of: /absolute/directory"),
        ("memory:", "OPENSKILL_STORAGE: unsupported URL"),
        ("s3://user:secret@bucket", "OPENSKILL_STORAGE: the URL must not contain credentials"),
        ("s3://bucket?zone=1", "OPENSKILL_STORAGE: unknown option 'zone'"),
        ("file:///a?b", "OPENSKILL_STORAGE: invalid directory"),
    ],
)
def test_a_bad_url_is_refused_with_the_name_of_the_setting(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        open_object_store(url, Settings.from_env({"HOME": str(tmp_path)}))


def test_the_setting_is_read_from_the_environment(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert Settings.from_env(home).storage is None
    assert Settings.from_env({**home, "OPENSKILL_STORAGE": " s3://bucket "}).storage == "s3://bucket"
