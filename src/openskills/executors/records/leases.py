"""Workspaces on disk and their leases: one directory per key, leased to one process at a time. Blocking.

`<root>/<id>/` has the record, the lease and the journal, out of reach of commands. `<root>/<id>/tree/` is the workspace
as commands see it. A lease is a file lock, so the system releases it when its process dies. It is a lock of an open
file, not of a process (`F_OFD_SETLK`): it also excludes other parts of the same process, and can be inspected without
taking it. If we are root, each workspace has its own user id, so that commands run neither as root nor as each other.
"""

import fcntl
import grp
import hashlib
import json
import os
import pwd
import random
import re
import secrets
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from openskills.errors import ExecutorUnavailable, InvalidArgument, LimitExceeded
from openskills.executors.files.descriptors import auto_close, delete_tree, open_with_full_access
from openskills.executors.records.quota import Quota, measure_usage
from openskills.executors.spec import INPUTS, OUT, RUNS, SKILLS, WORK, build_reader
from openskills.filesystem import replace_file

LEASE_FILE = "lease"
# A process that is about to remove the directory holds the lock for a moment.
_TRIES, _PAUSE = 4, 0.005
# struct flock: type, whence, start, length (0 is all), pid.
_FLOCK = struct.Struct("hhqqi0q")


@dataclass(frozen=True, slots=True)
class LockStatus:
    """The state of a lease: whether it is held, by which pid, and when it was last used."""

    is_held: bool
    holder: int | None
    used: float


def take_lock(directory: Path) -> int | None:
    """Lock this directory and return the descriptor; None if it is locked. Raises `FileNotFoundError`."""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        path = directory / LEASE_FILE
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _build_flock_request(fcntl.F_WRLCK))
        except BlockingIOError:
            os.close(descriptor)
            continue
        # The directory may have been removed and created again meanwhile: the lock counts if its file has its name.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor)):
                return descriptor
        release_lock(descriptor)
    return None


def sign_lock(descriptor: int) -> None:
    """Write the pid of this process into the lock file."""
    # Always the same length: truncating and rewriting a file makes some file systems wait for the disk.
    os.pwrite(descriptor, b"%-10d\n" % os.getpid(), 0)


def release_lock(descriptor: int) -> None:
    """Free the lock."""
    # Explicitly: closing does not free it while a forked child has a copy of the descriptor.
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _build_flock_request(fcntl.F_UNLCK))
    os.close(descriptor)


def read_lock(directory: Path) -> LockStatus:
    """The state of a directory's lease. Raises `FileNotFoundError`."""
    try:
        descriptor = os.open(directory / LEASE_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return LockStatus(is_held=False, holder=None, used=directory.stat().st_mtime)
    with auto_close(descriptor):
        used = os.fstat(descriptor).st_mtime
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _build_flock_request(fcntl.F_WRLCK))
        held = _FLOCK.unpack(answer)[0] != fcntl.F_UNLCK
        pid = os.pread(descriptor, 20, 0).strip()
        return LockStatus(held, int(pid) if held and pid.isdigit() else None, used)


def _build_flock_request(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


_FILE = "record.json"


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """The record of a workspace. Times are Unix times; `uid` is the user of its files, None if that is us."""

    key: str
    executor: str
    created: float
    ttl: float
    uid: int | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceInfo:
    """One workspace in a listing: `size` and `files` without staged skills, times in seconds, `holder` is a pid."""

    id: str
    key: str
    executor: str
    size: int
    files: int
    age: float
    idle: float
    ttl: float
    in_use: bool
    holder: int | None = None

    @property
    def is_expired(self) -> bool:
        """Whether it has been unused for longer than its time to live."""
        return not self.in_use and self.idle > self.ttl

    def to_dict(self) -> dict[str, object]:
        """The workspace as JSON."""
        return {
            "id": self.id,
            "key": self.key,
            "executor": self.executor,
            "size_bytes": self.size,
            "files": self.files,
            "age_seconds": round(self.age, 3),
            "idle_seconds": round(self.idle, 3),
            "ttl_seconds": self.ttl,
            "expired": self.is_expired,
            "in_use": self.in_use,
            "pid": self.holder,
        }


@dataclass(frozen=True, slots=True)
class CleanupResult:
    """The workspaces that were removed, those in use, and messages for those that could not be removed."""

    removed: tuple[WorkspaceInfo, ...] = ()
    in_use: tuple[WorkspaceInfo, ...] = ()
    failures: tuple[str, ...] = ()


def write_record(directory: Path, record: WorkspaceRecord) -> None:
    """Write the record of a workspace atomically."""
    replace_file(directory / _FILE, json.dumps(asdict(record)).encode())


def read_record(directory: Path) -> WorkspaceRecord | None:
    """The record of a workspace; None if it is missing or invalid."""
    try:
        descriptor = os.open(directory / _FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return build_reader(WorkspaceRecord)(json.loads(file.read()))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def make_skeleton(tree: Path, uid: int | None) -> None:
    """Create the missing directories of a workspace. A link or file in place of one is replaced, never followed.

    New directories have mode 0700 and belong to the user `uid`, or to us; the skills always belong to us.
    """
    _make_directory(str(tree), None, uid)
    with auto_close(open_with_full_access(str(tree), None)) as top:
        for name in (SKILLS, WORK, RUNS, OUT):
            _make_directory(name, top, None if name == SKILLS else uid)
        if uid is not None:
            with auto_close(open_with_full_access(SKILLS, top)) as skills:
                os.fchmod(skills, 0o755)
        with auto_close(open_with_full_access(WORK, top)) as work:
            _make_directory(INPUTS.removeprefix(f"{WORK}/"), work, uid)


def _make_directory(name: str, parent: int | None, uid: int | None) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        try:
            os.close(open_with_full_access(name, parent))
        except NotADirectoryError:
            os.unlink(name, dir_fd=parent)
            os.mkdir(name, 0o700, dir_fd=parent)
        else:
            return
    if uid is not None:
        os.chown(name, uid, uid, dir_fd=parent, follow_symlinks=False)


class UidLease:
    """A user id that is reserved until it is released or this process ends."""

    def __init__(self, uid: int, descriptor: int) -> None:
        self.uid = uid
        self._descriptor = descriptor

    def release(self) -> None:
        """Release it; safe to call twice."""
        if self._descriptor >= 0:
            # Explicitly: closing does not free it while a forked child has a copy.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1


class UidPool:
    """User ids from `first` to `last`, each with a file in a directory that only we can write to.

    The lock on the file reserves the id. The file contains the last owner, so that a workspace that is not in use
    keeps the id of its files; `exists` tells whether an owner still exists.
    """

    def __init__(self, directory: Path, first: int, last: int, exists: Callable[[str], bool]) -> None:
        self._directory = directory
        self._range = range(first, last + 1)
        self._exists = exists

    def claim(self, owner: str, preferred: int | None = None) -> UidLease:
        """Reserve a user id for an owner: the preferred one, which it had before, or one without an existing owner.

        Raises `ExecutorUnavailable` if the preferred one is in use, or all are taken.
        """
        if preferred is not None:
            if _is_known(preferred):
                raise ExecutorUnavailable(
                    f"the user id {preferred} of this workspace now belongs to a user or group of this machine; remove "
                    "the workspace"
                )
            held = self._try_claim(preferred, owner)
            if held is None:
                raise ExecutorUnavailable(f"the user id {preferred} of this workspace is in use; try again later")
            return held
        # From a random start, so that a free one is found soon.
        start = random.randrange(len(self._range))  # noqa: S311 - only spreads
        for step in range(len(self._range)):
            uid = self._range[(start + step) % len(self._range)]
            if not _is_known(uid) and (held := self._try_claim(uid, owner)):
                return held
        raise ExecutorUnavailable(
            f"all user ids from {self._range.start} to {self._range.stop - 1} are taken; remove workspaces with "
            "`openskills workspaces clean`, or set OPENSKILL_SANDBOX_UIDS to a larger range"
        )

    def _open_file(self, uid: int) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        path = self._directory / str(uid)
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, flags, 0o600)

    def _try_claim(self, uid: int, owner: str) -> UidLease | None:
        descriptor = self._open_file(uid)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            before = os.pread(descriptor, 256, 0).decode("ascii", "replace").strip()
            if before not in ("", owner) and self._exists(before):
                os.close(descriptor)
                return None
            if before != owner:
                # Without truncating, which makes some file systems wait for the disk.
                os.pwrite(descriptor, owner.ljust(len(before)).encode("ascii"), 0)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return UidLease(uid, descriptor)


def _is_known(uid: int) -> bool:
    """Whether the machine has a user or group with this id."""
    for look_up in (pwd.getpwuid, grp.getgrgid):
        try:
            look_up(uid)
        except KeyError:
            continue
        return True
    return False


DAY = 24 * 60 * 60.0
_ID = re.compile(r"[0-9a-f]{32}")
_TREE = "tree"
_REMOVING = ".removing-"
_UIDS = ".uids"
_UNFINISHED = 60.0

ProgressCallback = Callable[[str, int, int | None], None]
"""Called with the current action, the number done, and the total."""


class Lease:
    """The right of this process to use a workspace, until `release` or the end of the process."""

    def __init__(self, id_: str, directory: Path, lock: int, uid: UidLease | None) -> None:
        self.id = id_
        self.directory = directory
        self.tree = directory / _TREE
        self.uid = uid.uid if uid else None
        self._held_uid = uid
        self._lock = lock

    def touch(self) -> None:
        """Restart the time to live of the workspace."""
        if self._lock >= 0:
            os.utime(self._lock)

    def release(self) -> None:
        """Release the workspace; safe to call twice."""
        if self._lock >= 0:
            self.touch()
            self._close()

    def remove(self) -> None:
        """Remove the workspace with all its files, and release it."""
        if self._lock >= 0:
            doomed = _move_aside(self.directory)
            self._close()
            delete_tree(doomed)

    def _close(self) -> None:
        release_lock(self._lock)
        self._lock = -1
        if self._held_uid is not None:
            self._held_uid.release()


class WorkspaceStore:
    """All workspaces below a directory. `uids` are the first and last user id for workspaces, used if we are root."""

    def __init__(self, root: Path, quota: Quota | None = None, uids: tuple[int, int] | None = None) -> None:
        self._root = root
        self._quota = quota or Quota()
        self._uids = UidPool(root / _UIDS, *uids, self._exists) if uids and os.geteuid() == 0 else None

    @staticmethod
    def id_from_key(key: str, executor: str) -> str:
        """The workspace id of a key. Executors do not share workspaces, because they stage skills differently."""
        return hashlib.sha256(f"{executor}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def claim(self, key: str, *, executor: str, ttl: float = DAY) -> Lease:
        """Lease the workspace of a key; it is created if missing.

        Raises `ExecutorUnavailable` (retryable, with the pid) if it is leased already, and `LimitExceeded` if there are
        too many workspaces.
        """
        id_ = self.id_from_key(key, executor)
        directory = self._root / id_
        lock = self._try_lock(directory)
        if lock is None:
            raise _in_use_error(directory, key)
        try:
            sign_lock(lock)
            return Lease(id_, directory, lock, self._prepare(id_, WorkspaceRecord(key, executor, time.time(), ttl)))
        except BaseException:
            release_lock(lock)
            raise

    def list(
        self, progress: ProgressCallback | None = None, *, measure: Callable[[str], bool] = lambda _: True
    ) -> Sequence[WorkspaceInfo]:
        """Every workspace, most recently used first. The size of one whose key is not to be measured is 0."""
        found: list[WorkspaceInfo] = []
        for name in self._iterate_ids("looking at workspaces", progress):
            with suppress(FileNotFoundError):  # removed meanwhile
                found.append(self._read_info(name, measure))
        return sorted(found, key=lambda info: (info.idle, info.id))

    def remove(self, id_: str) -> bool:
        """Remove a workspace with all its files; false if it does not exist. Raises `ExecutorUnavailable` if in use."""
        if not _ID.fullmatch(id_):
            raise InvalidArgument("id", f"invalid workspace id {id_!r}; `openskills workspaces list` shows them")
        directory = self._root / id_
        try:
            lock = take_lock(directory)
        except FileNotFoundError:
            return False
        if lock is None:
            raise _in_use_error(directory, id_)
        try:
            doomed = _move_aside(directory)
        finally:
            release_lock(lock)
        # A sweep may delete it first.
        delete_tree(doomed)
        return True

    def clean(self, *, older_than: float = 0.0, progress: ProgressCallback | None = None) -> CleanupResult:
        """Remove every workspace that is not in use and was not used for `older_than` seconds."""
        self._finish_removals()
        return self._remove_matching(lambda info: info.idle >= older_than, progress)

    def sweep(self, progress: ProgressCallback | None = None) -> CleanupResult:
        """Remove expired workspaces, and finish interrupted removals."""
        self._finish_removals()
        return self._remove_matching(lambda info: info.is_expired, progress)

    def _remove_matching(
        self, doomed: Callable[[WorkspaceInfo], bool], progress: ProgressCallback | None
    ) -> CleanupResult:
        removed: list[WorkspaceInfo] = []
        in_use: list[WorkspaceInfo] = []
        failures: list[str] = []
        for name in self._iterate_ids("removing workspaces", progress):
            try:
                info = self._read_info(name, lambda _: False)
                if info.in_use:
                    in_use.append(info)
                elif doomed(info) and self.remove(name):
                    removed.append(info)
            except FileNotFoundError:
                continue  # removed meanwhile
            except (OSError, ExecutorUnavailable) as error:
                failures.append(f"{name}: {error}")
        return CleanupResult(tuple(removed), tuple(in_use), tuple(failures))

    def _finish_removals(self) -> None:
        with suppress(FileNotFoundError):
            for name in os.listdir(self._root):
                if name.startswith(_REMOVING):
                    # The next sweep tries again.
                    with suppress(OSError):
                        delete_tree(self._root / name)

    def _prepare(self, id_: str, fresh: WorkspaceRecord) -> UidLease | None:
        """Write the record and create the directories of a leased workspace; returns the lease of its user id."""
        directory = self._root / id_
        record = read_record(directory)
        held = self._uids.claim(id_, record.uid if record else None) if self._uids else None
        uid = held.uid if held else None
        try:
            if record is None or (record.uid, record.ttl) != (uid, fresh.ttl):
                created = record.created if record else fresh.created
                write_record(directory, WorkspaceRecord(fresh.key, fresh.executor, created, fresh.ttl, uid))
            make_skeleton(directory / _TREE, uid)
        except BaseException:
            if held:
                held.release()
            raise
        return held

    def _try_lock(self, directory: Path) -> int | None:
        """Create and lock a workspace; None if it is locked."""
        for _ in range(3):
            self._create(directory)
            # It may be removed between the two; then it is created again.
            with suppress(FileNotFoundError):
                return take_lock(directory)
        return None

    def _create(self, directory: Path) -> None:
        if directory.is_dir():
            return
        max_workspaces = self._quota.max_workspaces
        if len(self._list_ids()) >= max_workspaces:
            self.sweep()
            if (count := len(self._list_ids())) >= max_workspaces:
                raise LimitExceeded(
                    f"there are {count:,} workspaces; the maximum is {max_workspaces:,}; remove some with "
                    "`openskills workspaces clean --older-than 1h`"
                )
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except FileNotFoundError:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)

    def _list_ids(self) -> Sequence[str]:
        try:
            return [name for name in os.listdir(self._root) if _ID.fullmatch(name)]
        except FileNotFoundError:
            return ()

    def _iterate_ids(self, action: str, progress: ProgressCallback | None) -> Iterator[str]:
        names = self._list_ids()
        for done, name in enumerate(names):
            if progress:
                progress(action, done, len(names))
            yield name

    def _exists(self, id_: str) -> bool:
        return bool(_ID.fullmatch(id_)) and (self._root / id_).is_dir()

    def _read_info(self, id_: str, measure: Callable[[str], bool]) -> WorkspaceInfo:
        directory = self._root / id_
        now = time.time()
        seen = read_lock(directory)
        # Without a record it was never finished, or is being created.
        record = read_record(directory) or WorkspaceRecord("", "", seen.used, _UNFINISHED)
        usage = measure_usage(directory / _TREE) if measure(record.key) else None
        return WorkspaceInfo(
            id=id_,
            key=record.key,
            executor=record.executor,
            size=usage.bytes if usage else 0,
            files=usage.files if usage else 0,
            age=max(now - record.created, 0.0),
            idle=max(now - seen.used, 0.0),
            ttl=record.ttl,
            in_use=seen.is_held,
            holder=seen.holder,
        )


def _move_aside(directory: Path) -> Path:
    """Rename a workspace so that it is not listed; any process can finish the removal."""
    doomed = directory.with_name(f"{_REMOVING}{secrets.token_hex(16)}")
    directory.rename(doomed)
    return doomed


def _in_use_error(directory: Path, key: str) -> ExecutorUnavailable:
    by = ""
    with suppress(FileNotFoundError):
        holder = read_lock(directory).holder
        if holder is not None:
            by = " by this process" if holder == os.getpid() else f" by process {holder}"
    return ExecutorUnavailable(f"the workspace of {key!r} is in use{by}; close it there, or try again later")
