"""One key has one workspace, one process at a time uses it, and what nobody needs any more goes."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument, LimitExceeded
from openskills.executors.records.leases import DAY, Lease, WorkspaceStore
from openskills.executors.records.quota import Quota
from openskills.executors.records.records import read_record
from tests.conftest import needs_root
from tests.executors.holder import holding
from tests.executors.records.test_delete import deep
from tests.executors.unprivileged import open_descriptors

YEAR = 365 * DAY
as_root = needs_root("only root runs commands as other users")


@pytest.fixture
def store(tmp_path: Path) -> WorkspaceStore:
    return WorkspaceStore(tmp_path / "workspaces")


def left_behind(store: WorkspaceStore, key: str, idle: float = 0.0) -> Lease:
    """A workspace that nobody uses any more, for so many seconds."""
    lease = store.claim(key, executor="local")
    lease.release()
    used = os.stat(lease.directory / "lease").st_mtime - idle
    os.utime(lease.directory / "lease", (used, used))
    return lease


def test_a_new_workspace_has_its_directories_and_is_for_us_only(store: WorkspaceStore, tmp_path: Path) -> None:
    lease = store.claim("app/user/session", executor="local")
    assert lease.directory == tmp_path / "workspaces" / lease.id
    assert lease.tree == lease.directory / "tree"
    assert sorted(os.listdir(lease.tree)) == ["out", "runs", "skills", "work"]
    for place in (lease.directory.parent, lease.directory, lease.tree):
        assert os.stat(place).st_mode & 0o777 == 0o700
    record = read_record(lease.directory)
    assert record is not None
    assert (record.key, record.executor, record.ttl) == ("app/user/session", "local", DAY)
    lease.release()


def test_the_same_key_finds_its_files_again(store: WorkspaceStore) -> None:
    first = store.claim("k", executor="local")
    created = read_record(first.directory)
    (first.tree / "work" / "kept").write_text("x")
    first.release()
    second = store.claim("k", executor="local", ttl=5)
    assert second.id == first.id
    assert (second.tree / "work" / "kept").read_text() == "x"
    record = read_record(second.directory)
    assert record is not None
    assert created is not None
    assert (record.created, record.ttl) == (created.created, 5)
    second.release()


def test_executors_and_keys_have_workspaces_of_their_own(store: WorkspaceStore) -> None:
    ids = {
        store.id_of(key, executor) for key in ("a", "b", "../a", "a\0b", "\udcff") for executor in ("local", "sandbox")
    }
    assert len(ids) == 10
    assert all(len(id_) == 32 and id_.isalnum() for id_ in ids)


def test_a_second_claim_is_refused_and_says_who_has_it(store: WorkspaceStore, tmp_path: Path) -> None:
    with holding(tmp_path / "workspaces", "k") as process:
        with pytest.raises(
            ExecutorUnavailable, match=f"workspace of 'k' is in use by process {process.pid};"
        ) as raised:
            store.claim("k", executor="local")
        assert raised.value.retryable
    lease = store.claim("mine", executor="local")
    with pytest.raises(ExecutorUnavailable, match="in use by this process"):
        store.claim("mine", executor="local")
    lease.release()
    lease.release()
    store.claim("mine", executor="local").release()


def test_a_killed_process_frees_its_workspace(store: WorkspaceStore, tmp_path: Path) -> None:
    with holding(tmp_path / "workspaces", "k") as process:
        process.kill()
        process.wait()
        store.claim("k", executor="local").release()


def test_the_list_says_whose_how_big_how_old_and_in_use(store: WorkspaceStore) -> None:
    assert list(store.list()) == []
    left_behind(store, "old", 2 * DAY)
    lease = store.claim("new", executor="local")
    (lease.tree / "out" / "file").write_bytes(b"x" * 100_000)
    new, old = store.list()
    assert (new.key, new.executor, new.in_use, new.holder, new.files) == ("new", "local", True, os.getpid(), 5)
    assert 100_000 <= new.size < 200_000
    assert (old.key, old.in_use, old.holder, old.expired) == ("old", False, None, True)
    assert old.idle >= 2 * DAY
    lease.release()


def test_use_counts_from_the_last_touch(store: WorkspaceStore) -> None:
    lease = store.claim("k", executor="local")
    os.utime(lease.directory / "lease", (0, 0))
    assert store.list()[0].idle > YEAR
    lease.touch()
    assert store.list()[0].idle < YEAR
    os.utime(lease.directory / "lease", (0, 0))
    lease.release()
    lease.touch()
    assert store.list()[0].idle < YEAR


def test_removing_takes_everything_and_refuses_what_is_in_use(store: WorkspaceStore) -> None:
    lease = store.claim("k", executor="local")
    deep(lease.tree / "work" / "deep", 300)
    with pytest.raises(ExecutorUnavailable, match="in use"):
        store.remove(lease.id)
    lease.release()
    assert store.remove(lease.id) is True
    assert store.remove(lease.id) is False
    assert list(store.list()) == []
    assert os.listdir(lease.directory.parent) == []


@pytest.mark.parametrize("id_", ["", "..", "../../etc", "x" * 32, "A" * 32, "0" * 31])
def test_what_is_no_id_is_refused(id_: str, store: WorkspaceStore) -> None:
    with pytest.raises(InvalidArgument, match="is no id of a workspace"):
        store.remove(id_)


def test_whoever_has_it_can_remove_it(store: WorkspaceStore) -> None:
    lease = store.claim("k", executor="local")
    lease.remove()
    lease.remove()
    assert not lease.directory.exists()
    again = store.claim("k", executor="local")
    assert (again.id, os.listdir(again.tree / "work")) == (lease.id, ["inputs"])
    again.release()


def test_cleaning_takes_what_is_old_enough_and_nobody_uses(store: WorkspaceStore) -> None:
    left_behind(store, "old", 10 * DAY)
    left_behind(store, "new")
    held = store.claim("held", executor="local")
    os.utime(held.directory / "lease", (0, 0))
    cleaned = store.clean(older_than=7 * DAY)
    assert [info.key for info in cleaned.removed] == ["old"]
    assert [info.key for info in cleaned.in_use] == ["held"]
    assert [info.key for info in store.clean().removed] == ["new"]
    assert [info.key for info in store.list()] == ["held"]
    held.release()


def test_a_sweep_takes_what_is_expired_and_finishes_what_was_half_removed(store: WorkspaceStore) -> None:
    root = left_behind(store, "expired", DAY + 10).directory.parent
    left_behind(store, "fresh")
    doomed = left_behind(store, "doomed").directory
    doomed.rename(root / ".removing-0123")
    (root / ("0" * 32)).mkdir()
    os.utime(root / ("0" * 32), (0, 0))
    cleaned = store.sweep()
    assert sorted(info.key for info in cleaned.removed) == ["", "expired"]
    assert os.listdir(root) == [store.id_of("fresh", "local")]


def test_a_thousand_stale_workspaces_are_listed_and_cleaned_with_progress(
    store: WorkspaceStore, tmp_path: Path
) -> None:
    # Made by hand: what takes the time of this test is what it is about.
    for number in range(1000):
        directory = tmp_path / "workspaces" / f"{number:032x}"
        (directory / "tree" / "work").mkdir(parents=True)
        (directory / "lease").touch()
        os.utime(directory / "lease", (0, 0))
    before = open_descriptors()
    told: list[tuple[int, int | None]] = []
    assert len(store.list(lambda _what, done, total: told.append((done, total)))) == 1000
    assert told == [(done, 1000) for done in range(1000)]
    assert len(store.sweep().removed) == 1000
    assert os.listdir(tmp_path / "workspaces") == []
    assert open_descriptors() == before


def test_there_is_a_limit_and_expired_ones_do_not_count(tmp_path: Path) -> None:
    store = WorkspaceStore(tmp_path, Quota(max_workspaces=2))
    left_behind(store, "expired", 2 * DAY)
    left_behind(store, "a")
    left_behind(store, "b")
    with pytest.raises(LimitExceeded, match="there are 2 workspaces, and 2 is the most; remove some with"):
        store.claim("c", executor="local")
    store.claim("a", executor="local").release()


def in_threads(*works: Callable[[], None]) -> None:
    """Do all at once; what one raises is raised."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_claims_and_removals_at_once_never_take_a_workspace_from_who_has_it(store: WorkspaceStore) -> None:
    id_ = store.id_of("k", "local")

    def use() -> None:
        for number in range(150):
            try:
                lease = store.claim("k", executor="local")
            except ExecutorUnavailable:
                continue
            (lease.tree / "work" / "mine").write_text(str(number))
            assert (lease.tree / "work" / "mine").read_text() == str(number)
            lease.release()

    def remove() -> None:
        for _ in range(150):
            try:
                store.remove(id_)
            except ExecutorUnavailable:
                continue

    def sweep() -> None:
        for _ in range(50):
            store.sweep()

    in_threads(use, use, remove, remove, sweep)


@as_root
def test_each_workspace_has_a_user_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    store = WorkspaceStore(tmp_path, uids=(70_000, 70_001))
    first = store.claim("a", executor="sandbox")
    second = store.claim("b", executor="sandbox")
    assert {first.uid, second.uid} == {70_000, 70_001}
    assert os.stat(first.tree / "work").st_uid == first.uid
    assert os.stat(first.directory).st_uid == 0
    for lease in (first, second):
        lease.release()
    with pytest.raises(ExecutorUnavailable, match="all user ids"):
        store.claim("c", executor="sandbox")
    again = store.claim("a", executor="sandbox")
    assert again.uid == first.uid
    again.release()
    store.remove(second.id)
    third = store.claim("c", executor="sandbox")
    assert third.uid == second.uid
    third.release()


@as_root
def test_a_claim_that_fails_holds_nothing(tmp_path: Path) -> None:
    store = WorkspaceStore(tmp_path, uids=(70_000, 70_000))
    held = store.claim("a", executor="sandbox")
    before = open_descriptors()
    with pytest.raises(ExecutorUnavailable):
        store.claim("b", executor="sandbox")
    assert open_descriptors() == before
    held.remove()
    store.claim("b", executor="sandbox").release()


@pytest.mark.skipif(os.geteuid() == 0, reason="root does run commands as other users")
def test_an_ordinary_user_gives_no_users_away(tmp_path: Path) -> None:
    lease = WorkspaceStore(tmp_path, uids=(70_000, 70_000)).claim("a", executor="sandbox")
    assert lease.uid is None
    lease.release()
