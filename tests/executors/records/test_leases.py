"""One key has one workspace, one process at a time uses it, and what nobody needs any more goes.

A lock counts as long as its file has its name, and can be looked at without being in the way.

What is remembered about a workspace comes back, or counts as not there.

A workspace has its directories, and making them follows no link that a command has left.

Each workspace has a user of its own, as long as it exists.
"""

import json
import os
import pwd
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument, LimitExceeded
from openskills.executors.records import leases
from openskills.executors.records.leases import (
    DAY,
    Lease,
    UidPool,
    WorkspaceInfo,
    WorkspaceRecord,
    WorkspaceStore,
    make_skeleton,
    read_record,
    write_record,
)
from openskills.executors.records.quota import Quota
from openskills.executors.workspace import SANDBOX_UIDS
from openskills.settings import Settings
from tests.conftest import needs_root
from tests.executors.files.test_descriptors import deep_delete
from tests.executors.holder import holding
from tests.executors.unprivileged import as_ordinary_user, open_descriptors

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
        store.id_from_key(key, executor)
        for key in ("a", "b", "../a", "a\0b", "\udcff")
        for executor in ("local", "sandbox")
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
    assert (old.key, old.in_use, old.holder, old.is_expired) == ("old", False, None, True)
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
    deep_delete(lease.tree / "work" / "deep", 300)
    with pytest.raises(ExecutorUnavailable, match="in use"):
        store.remove(lease.id)
    lease.release()
    assert store.remove(lease.id) is True
    assert store.remove(lease.id) is False
    assert list(store.list()) == []
    assert os.listdir(lease.directory.parent) == []


@pytest.mark.parametrize("id_", ["", "..", "../../etc", "x" * 32, "A" * 32, "0" * 31])
def test_what_is_not_an_id_is_refused(id_: str, store: WorkspaceStore) -> None:
    with pytest.raises(InvalidArgument, match="invalid workspace id"):
        store.remove(id_)


def test_what_a_sweep_deletes_first_counts_as_removed(store: WorkspaceStore) -> None:
    done = threading.Event()

    def sweep() -> None:
        while not done.is_set():
            store.sweep()

    sweeping = threading.Thread(target=sweep)
    sweeping.start()
    try:
        for number in range(50):
            lease = store.claim(f"key {number}", executor="local")
            lease.release()
            assert store.remove(lease.id)
    finally:
        done.set()
        sweeping.join()


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
    assert os.listdir(root) == [store.id_from_key("fresh", "local")]


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
    with pytest.raises(LimitExceeded, match="there are 2 workspaces; the maximum is 2; remove some with"):
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
    id_ = store.id_from_key("k", "local")

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


def test_one_at_a_time_has_it(tmp_path: Path) -> None:
    first = leases.take_lock(tmp_path)
    assert first is not None
    assert leases.take_lock(tmp_path) is None
    leases.release_lock(first)
    second = leases.take_lock(tmp_path)
    assert second is not None
    leases.release_lock(second)


def test_without_a_directory_there_is_nothing_to_lock(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        leases.take_lock(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        leases.read_lock(tmp_path / "gone")


def test_who_has_it_can_be_seen(tmp_path: Path) -> None:
    assert not leases.read_lock(tmp_path).is_held
    held = leases.take_lock(tmp_path)
    assert held is not None
    assert (leases.read_lock(tmp_path).is_held, leases.read_lock(tmp_path).holder) == (True, None)
    leases.sign_lock(held)
    assert leases.read_lock(tmp_path).holder == os.getpid()
    leases.release_lock(held)
    assert (leases.read_lock(tmp_path).is_held, leases.read_lock(tmp_path).holder) == (False, None)


def test_a_directory_that_was_made_again_has_a_lock_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    old = leases.take_lock(place)
    assert old is not None
    shutil.move(place, tmp_path / "elsewhere")
    place.mkdir()
    new = leases.take_lock(place)
    assert new is not None
    leases.release_lock(old)
    assert leases.take_lock(place) is None
    leases.release_lock(new)


def test_those_who_look_do_not_keep_others_from_taking_it(tmp_path: Path) -> None:
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            leases.read_lock(tmp_path)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(300):
            held = leases.take_lock(tmp_path)
            assert held is not None
            leases.release_lock(held)
    finally:
        done.set()
        for looker in lookers:
            looker.join()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / leases.LEASE_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        leases.take_lock(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


RECORD = WorkspaceRecord(key="app/user/s\n\udcff", executor="sandbox", created=1.5, ttl=60.0, uid=61000)


def test_a_record_comes_back_and_is_for_us_only(tmp_path: Path) -> None:
    for record in (RECORD, WorkspaceRecord("k", "local", 0.0, 0.0)):
        write_record(tmp_path, record)
        assert read_record(tmp_path) == record
    assert os.stat(tmp_path / "record.json").st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "\ufffe", "{}", json.dumps({"key": "k", "executor": "e", "created": "?", "ttl": 1})]
)
def test_a_record_that_cannot_be_understood_counts_as_not_there(text: str, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(text)
    assert read_record(tmp_path) is None


def test_a_link_in_the_place_of_a_record_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    write_record(tmp_path / "other", RECORD)
    (tmp_path / "record.json").symlink_to("other/record.json")
    assert read_record(tmp_path) is None


@pytest.mark.parametrize(
    ("idle", "in_use", "expired"), [(61.0, False, True), (59.0, False, False), (61.0, True, False)]
)
def test_a_workspace_expires_when_nobody_uses_it(idle: float, in_use: bool, expired: bool) -> None:
    info = WorkspaceInfo("id", "k", "local", 0, 0, age=100.0, idle=idle, ttl=60.0, in_use=in_use)
    assert info.is_expired is expired


PLACES = ("skills", "work", "work/inputs", "runs", "out")


def test_all_directories_are_there_and_closed_to_others(tmp_path: Path) -> None:
    make_skeleton(tmp_path / "tree", None)
    for name in (".", *PLACES):
        status = os.stat(tmp_path / "tree" / name)
        assert (status.st_mode & 0o777, status.st_uid) == (0o700, os.geteuid())


@needs_root("only root can give directories away")
def test_everything_but_the_skills_belongs_to_the_user_of_the_workspace(tmp_path: Path) -> None:
    make_skeleton(tmp_path / "tree", 70_001)
    owners = {name: os.stat(tmp_path / "tree" / name).st_uid for name in (".", *PLACES)}
    assert owners == {".": 70_001, "skills": 0, "work": 70_001, "work/inputs": 70_001, "runs": 70_001, "out": 70_001}
    assert os.stat(tmp_path / "tree" / "skills").st_mode & 0o777 == 0o755


def test_what_is_there_stays_and_what_is_missing_comes_back(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    make_skeleton(tree, None)
    (tree / "out" / "kept").touch()
    (tree / "runs").rmdir()
    make_skeleton(tree, None)
    assert (tree / "out" / "kept").exists()
    assert (tree / "runs").is_dir()


@pytest.mark.parametrize("name", PLACES)
def test_a_link_in_the_place_of_a_directory_is_replaced_and_not_followed(name: str, tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    outside.mkdir()
    make_skeleton(tree, None)
    if name == "work":
        (tree / "work" / "inputs").rmdir()
    (tree / name).rmdir()
    (tree / name).symlink_to(outside)
    make_skeleton(tree, None)
    assert list(outside.iterdir()) == []
    assert (tree / name).is_dir()
    assert not (tree / name).is_symlink()


def test_directories_that_a_command_has_closed_are_opened_again(tmp_path: Path) -> None:
    def close_and_make(place: Path) -> None:
        make_skeleton(place / "tree", None)
        os.chmod(place / "tree" / "work", 0)
        os.chmod(place / "tree", 0o500)
        make_skeleton(place / "tree", None)
        assert (place / "tree" / "work" / "inputs").is_dir()

    as_ordinary_user(tmp_path, close_and_make)


FIRST = 70_000
RESERVED = {
    "users of the system and the first people of a machine": range(20_000),
    "what Debian gives to packages, systemd to homes": range(60_000, 61_184),
    "what systemd gives to services that have no user of their own (DynamicUser)": range(61_184, 65_520),
    "what a container without rights of its own does not have": range(65_520, 2**32),
}
"""Numbers that others give away without asking who runs as them."""


def pool(directory: Path, count: int, owners: set[str]) -> UidPool:
    return UidPool(directory, FIRST, FIRST + count - 1, owners.__contains__)


@pytest.mark.parametrize("whose", RESERVED)
def test_by_default_no_number_is_taken_that_others_give_away(whose: str) -> None:
    first, last = SANDBOX_UIDS
    assert range(max(first, RESERVED[whose].start), min(last + 1, RESERVED[whose].stop)) == range(0)
    assert Settings.from_env({"HOME": "/home/x"}).sandbox_uids == SANDBOX_UIDS


def test_no_two_owners_have_the_same_user(tmp_path: Path) -> None:
    uids = pool(tmp_path / "uids", 20, set())
    held = [uids.claim(f"owner-{number}") for number in range(20)]
    assert {one.uid for one in held} == set(range(FIRST, FIRST + 20))
    with pytest.raises(ExecutorUnavailable, match="all user ids from 70000 to 70019 are taken; remove workspaces"):
        uids.claim("one-more")
    held[3].release()
    held[3].release()
    assert uids.claim("one-more").uid == held[3].uid
    for one in held:
        one.release()


def test_an_owner_that_exists_keeps_its_user_while_it_is_not_in_use(tmp_path: Path) -> None:
    owners = {"sleeping"}
    uids = pool(tmp_path, 2, owners)
    asleep = uids.claim("sleeping")
    asleep.release()
    other = uids.claim("other")
    assert other.uid != asleep.uid
    with pytest.raises(ExecutorUnavailable):
        uids.claim("third")
    again = uids.claim("sleeping", preferred=asleep.uid)
    assert again.uid == asleep.uid
    again.release()
    owners.clear()
    third = uids.claim("third")
    assert third.uid == asleep.uid
    other.release()
    third.release()


def test_a_preferred_user_that_somebody_has_is_said(tmp_path: Path) -> None:
    uids = pool(tmp_path, 2, set())
    held = uids.claim("one")
    with pytest.raises(ExecutorUnavailable, match=f"user id {held.uid} of this workspace is in use"):
        uids.claim("other", preferred=held.uid)
    held.release()


def test_users_of_the_machine_are_never_given_away(tmp_path: Path) -> None:
    known = sorted(entry.pw_uid for entry in pwd.getpwall())[0]
    with pytest.raises(ExecutorUnavailable):
        UidPool(tmp_path, known, known, lambda _: False).claim("one")
    with pytest.raises(ExecutorUnavailable, match="now belongs to a user or group of this machine; remove"):
        pool(tmp_path, 1, set()).claim("one", preferred=known)


def test_a_process_that_dies_gives_its_user_back(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from openskills.executors.records.leases import UidPool
held = UidPool(Path({str(tmp_path)!r}), {FIRST}, {FIRST}, lambda _: False).claim("child")
print("held", flush=True)
input()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "held\n"
        uids = pool(tmp_path, 1, set())
        with pytest.raises(ExecutorUnavailable):
            uids.claim("one")
        child.kill()
        child.wait()
        held = uids.claim("one")
    assert held.uid == FIRST
    held.release()


def test_the_files_are_for_us_only(tmp_path: Path) -> None:
    uids = pool(tmp_path / "uids", 1, set())
    uids.claim("one").release()
    assert os.stat(tmp_path / "uids").st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "uids" / str(FIRST)).st_mode & 0o777 == 0o600
