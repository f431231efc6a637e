"""Saved workspaces: files come back as they were, old epochs are refused, hostile trees are harmless."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from openskills.artifacts.objects import DirectoryObjectStore, ObjectStore, S3ObjectStore
from openskills.errors import LeaseLost, LimitExceeded
from openskills.executors.checkpoints import remove_checkpoints, restore_workspace, save_workspace
from openskills.executors.records.leases import make_skeleton
from openskills.executors.records.quota import Quota
from tests.artifacts.buckets import config_of
from tests.servers.s3 import S3Server

KEY = "a key"
LARGE = os.urandom(3 * 1024 * 1024)


@pytest.fixture(params=["directory", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "directory":
        return DirectoryObjectStore(tmp_path / "storage")
    server: S3Server = request.getfixturevalue("s3_server")
    return S3ObjectStore(server.new_bucket(), "p", config=config_of(server))


@pytest.fixture
def store(tmp_path: Path) -> DirectoryObjectStore:
    return DirectoryObjectStore(tmp_path / "storage")


def new_tree(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir()
    make_skeleton(tmp_path / name / "tree", None)
    return tmp_path / name / "tree"


def read_files(tree: Path) -> dict[str, bytes]:
    found = (path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(tree)): path.read_bytes() for path in found}


async def test_files_modes_times_and_links_come_back_and_skills_do_not(objects: ObjectStore, tmp_path: Path) -> None:
    tree, other = new_tree(tmp_path, "a"), new_tree(tmp_path, "b")
    (tree / "work/empty").mkdir()
    (tree / "work/run.sh").write_text("x")
    (tree / "work/run.sh").chmod(0o755)
    (tree / "out/large").write_bytes(LARGE)
    os.utime(tree / "out/large", ns=(1, 1_700_000_000_123_456_789))
    os.symlink("../work/run.sh", tree / "out/link")
    (tree / "skills/s").mkdir()
    (tree / "skills/s/SKILL.md").write_text("staged again")
    saved = await save_workspace(tree, objects, KEY, 1)
    assert (saved.files, saved.uploaded, saved.skipped) == (2, len(LARGE) + 1, ())
    restored = await restore_workspace(other, objects, KEY, 2)
    assert restored is not None
    assert (restored.files, restored.missing) == (2, ())
    assert read_files(other) == {"work/run.sh": b"x", "out/large": LARGE}
    assert (other / "work/empty").is_dir()
    assert os.access(other / "work/run.sh", os.X_OK)
    assert not (other / "out/large").stat().st_mode & 0o111
    assert (other / "out/large").stat().st_mtime_ns == 1_700_000_000_123_456_789
    assert os.readlink(other / "out/link") == "../work/run.sh"


async def test_unchanged_files_are_not_uploaded_again_and_removed_ones_are_collected(
    objects: ObjectStore, tmp_path: Path
) -> None:
    tree = new_tree(tmp_path, "a")
    (tree / "work/a").write_bytes(LARGE)
    (tree / "work/gone").write_text("gone")
    await save_workspace(tree, objects, KEY, 1)
    (tree / "work/copy").write_bytes(LARGE)
    (tree / "work/gone").unlink()
    assert (await save_workspace(tree, objects, KEY, 1)).uploaded == 0
    assert (await save_workspace(tree, objects, KEY, 2)).uploaded == 0
    names = [info.name for info in await objects.list("workspaces")]
    assert len([name for name in names if "/files/" in name]) == 1
    assert len([name for name in names if "/manifests/" in name]) == 2
    assert await remove_checkpoints(objects, KEY)
    assert not await remove_checkpoints(objects, KEY)
    assert await restore_workspace(tree, objects, KEY, 3) is None


async def test_a_process_with_an_old_lease_can_neither_save_nor_restore(objects: ObjectStore, tmp_path: Path) -> None:
    old, new = new_tree(tmp_path, "a"), new_tree(tmp_path, "b")
    (old / "work/a").write_text("first")
    await save_workspace(old, objects, KEY, 1)
    await restore_workspace(new, objects, KEY, 2)
    (old / "work/a").write_text("stale")
    with pytest.raises(LeaseLost, match="a process with lease 2 has continued it"):
        await save_workspace(old, objects, KEY, 1)
    with pytest.raises(LeaseLost):
        await restore_workspace(old, objects, KEY, 1)
    (new / "work/a").write_text("second")
    await save_workspace(new, objects, KEY, 2)
    third = new_tree(tmp_path, "c")
    await restore_workspace(third, objects, KEY, 3)
    assert read_files(third) == {"work/a": b"second"}


async def test_a_save_that_dies_before_its_manifest_leaves_the_earlier_checkpoint(
    store: DirectoryObjectStore, tmp_path: Path
) -> None:
    class Dying(DirectoryObjectStore):
        async def create(self, name: str, data: bytes) -> bool:
            raise ConnectionError(f"gone before {name} of {len(data)} bytes")

    tree, other = new_tree(tmp_path, "a"), new_tree(tmp_path, "b")
    (tree / "work/a").write_text("whole")
    await save_workspace(tree, store, KEY, 1)
    (tree / "work/a").write_text("half")
    with pytest.raises(ConnectionError):
        await save_workspace(tree, Dying(tmp_path / "storage"), KEY, 1)
    await restore_workspace(other, store, KEY, 1)
    assert read_files(other) == {"work/a": b"whole"}
    await save_workspace(tree, store, KEY, 1)
    await save_workspace(tree, store, KEY, 1)
    assert len([info for info in await store.list("workspaces") if "/files/" in info.name]) == 1


async def test_what_is_damaged_or_missing_in_the_store_is_named_and_not_written(
    store: DirectoryObjectStore, tmp_path: Path
) -> None:
    tree, other = new_tree(tmp_path, "a"), new_tree(tmp_path, "b")
    for name in ("damaged", "fine", "lost"):
        (tree / "work" / name).write_text(name)
    await save_workspace(tree, store, KEY, 1)
    for info in await store.list("workspaces"):
        data = await store.read(info.name)
        if data == b"damaged":
            await store.put(info.name, b"d4maged")
        elif data == b"lost":
            await store.delete([info.name])
    restored = await restore_workspace(other, store, KEY, 1)
    assert restored is not None
    assert [sentence.partition(" in ")[0] for sentence in restored.missing] == [
        "'work/damaged' is damaged",
        "'work/lost' is missing",
    ]
    assert read_files(other) == {"work/fine": b"fine"}


async def test_special_files_bad_names_and_links_that_leave_are_skipped_with_a_sentence(
    store: DirectoryObjectStore, tmp_path: Path
) -> None:
    tree, other = new_tree(tmp_path, "a"), new_tree(tmp_path, "b")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    os.mkfifo(tree / "work/fifo")
    os.symlink(secret, tree / "work/absolute")
    os.symlink("../../../secret", tree / "work/relative")
    (tree / "work" / os.fsdecode(b"\xff")).write_text("x")
    with socket.socket(socket.AF_UNIX) as one:
        here = os.open(tree / "work", os.O_RDONLY)
        one.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    deep = tree / "work"
    for _ in range(80):
        deep = deep / "d"
        deep.mkdir()
    (deep / "bottom").write_text("x")
    os.link(secret, tree / "work/hard")
    saved = await save_workspace(tree, store, KEY, 1)
    assert len(saved.skipped) == 6
    for word in ("fifo' is neither", "absolute' is a link that leads out", "socket' is neither", "udcff' has a name"):
        assert any(word in sentence for sentence in saved.skipped), word
    restored = await restore_workspace(other, store, KEY, 2)
    assert restored is not None
    assert restored.skipped == saved.skipped
    assert read_files(other) == {"work/hard": b"secret"}


async def test_a_manifest_that_names_paths_outside_of_the_workspace_writes_nothing_there(
    store: DirectoryObjectStore, tmp_path: Path
) -> None:
    tree, other = new_tree(tmp_path, "a"), new_tree(tmp_path, "b")
    (tree / "work/evil").write_text("x")
    await save_workspace(tree, store, KEY, 1)
    (name,) = [info.name for info in await store.list("workspaces") if "/manifests/" in info.name]
    text = (await store.read(name) or b"").replace(b"work/evil", b"../../evil")
    await store.put(name, text)
    restored = await restore_workspace(other, store, KEY, 1)
    assert restored is not None
    assert len(restored.missing) == 1
    assert not list(tmp_path.glob("evil"))
    assert read_files(other) == {}


async def test_a_directory_that_cannot_be_restored_is_not_counted_as_a_file(
    store: DirectoryObjectStore, tmp_path: Path
) -> None:
    tree, other = new_tree(tmp_path, "a"), new_tree(tmp_path, "b")
    (tree / "work/evil").mkdir()
    (tree / "work/kept").write_text("x")
    await save_workspace(tree, store, KEY, 1)
    (name,) = [info.name for info in await store.list("workspaces") if "/manifests/" in info.name]
    await store.put(name, (await store.read(name) or b"").replace(b"work/evil", b"../../evil"))
    restored = await restore_workspace(other, store, KEY, 1)
    assert restored is not None
    assert (restored.files, len(restored.missing)) == (1, 1)
    assert read_files(other) == {"work/kept": b"x"}


@pytest.mark.parametrize("quota", [Quota(max_files=3), Quota(max_bytes=5)])
async def test_more_than_the_quota_is_refused_and_the_earlier_checkpoint_stays(
    store: DirectoryObjectStore, tmp_path: Path, quota: Quota
) -> None:
    tree, other = new_tree(tmp_path, "a"), new_tree(tmp_path, "b")
    (tree / "work/a").write_text("1")
    await save_workspace(tree, store, KEY, 1, quota=quota)
    for number in range(8):
        (tree / f"work/{number}").write_text("1")
    with pytest.raises(LimitExceeded, match="the workspace has more than"):
        await save_workspace(tree, store, KEY, 1, quota=quota)
    await restore_workspace(other, store, KEY, 1)
    assert read_files(other) == {"work/a": b"1"}


async def test_files_that_change_while_they_are_saved_are_saved_as_they_were_at_one_moment_or_skipped(
    store: DirectoryObjectStore, tmp_path: Path
) -> None:
    tree, other = new_tree(tmp_path, "a"), new_tree(tmp_path, "b")
    done = asyncio.Event()

    def change() -> None:
        while not done.is_set():
            for byte in (b"a", b"b"):
                (tree / "work/changing").write_bytes(byte * 100_000)

    changing = asyncio.ensure_future(asyncio.to_thread(change))
    for _ in range(5):
        await save_workspace(tree, store, KEY, 1)
    done.set()
    await changing
    restored = await restore_workspace(other, store, KEY, 1)
    assert restored is not None
    assert restored.missing == ()
