"""Who has a workspace.

The lock that is a lease: a file in a workspace's directory that one process at a time holds. Blocking.

The system takes it from a process that dies. It is a lock of an open file and not of a process (`F_OFD_SETLK`): two
parts of one process exclude each other, too, and one can look at it without taking it. The directory may be removed and
made anew while somebody waits, so a lock counts only if its file still has its name.

What is remembered and told about a workspace; it lies beside it, out of the reach of its commands.

The directories that every workspace has. Blocking.

Commands may have put a link in the place of one of them since it was made, so nothing here follows one.

A user of its own for each workspace, when we are root: commands must not run as root, nor as each other. Blocking.

Each user id has a file. Who has a lock on it has the id; in it stands whose it was, so that a workspace that is not in
use keeps the id that its files belong to.

Workspaces on disk, and who uses them: one directory for each key, leased to one process at a time. Blocking.

`<root>/<id>/` is ours: the record, the lease and the journal. `<root>/<id>/tree/` is the workspace as commands see it.
The lease is a lock on a file, so the system ends it with the process that has it, however that process ends.
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
from openskills.executors.files.beneath import delete_tree, open_with_full_access
from openskills.executors.records.quota import Quota, measure_usage
from openskills.executors.spec import INPUTS, OUT, RUNS, SKILLS, WORK
from openskills.filesystem import replace_file

LEASE_FILE = "lease"
# Who is about to remove the directory has the lock for a moment.
_TRIES, _PAUSE = 4, 0.005
# struct flock: type, whence, start, length (0 is all), pid.
_FLOCK = struct.Struct("hhqqi0q")


@dataclass(frozen=True, slots=True)
class LockStatus:
    """What can be seen of a lease from outside: whether somebody has it, who, and when it was used last."""

    is_held: bool
    holder: int | None
    used: float


def take_lock(directory: Path) -> int | None:
    """A descriptor that has the lock of this directory; None when somebody else has it.

    Raises `FileNotFoundError` when there is no such directory.
    """
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
        if _is_still_linked(path, descriptor):
            return descriptor
        release_lock(descriptor)
    return None


def sign_lock(descriptor: int) -> None:
    """Write down that this process has the lock, for whoever would like to have it, too."""
    # Always as long as it was: cutting a file to nothing and writing it anew makes some file systems wait for the disk.
    os.pwrite(descriptor, b"%-10d\n" % os.getpid(), 0)


def release_lock(descriptor: int) -> None:
    """Free the lock."""
    # Said aloud: closing would not free it as long as a forked child has a copy of the descriptor.
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _build_flock_request(fcntl.F_UNLCK))
    os.close(descriptor)


def read_lock(directory: Path) -> LockStatus:
    """What can be seen of a directory's lease. Raises `FileNotFoundError` when there is no such directory."""
    try:
        descriptor = os.open(directory / LEASE_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return LockStatus(is_held=False, holder=None, used=directory.stat().st_mtime)
    try:
        used = os.fstat(descriptor).st_mtime
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _build_flock_request(fcntl.F_WRLCK))
        held = _FLOCK.unpack(answer)[0] != fcntl.F_UNLCK
        return LockStatus(held, _read_signature(descriptor) if held else None, used)
    finally:
        os.close(descriptor)


def _build_flock_request(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


def _read_signature(descriptor: int) -> int | None:
    text = os.pread(descriptor, 20, 0).strip()
    return int(text) if text.isdigit() else None


def _is_still_linked(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


_FILE = "record.json"


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """Whose workspace it is. Times are seconds since 1970; `uid` is the user of its files, None when that is us."""

    key: str
    executor: str
    created: float
    ttl: float
    uid: int | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceInfo:
    """One workspace, for people: `size` and `files` without staged skills, times in seconds, `holder` is a pid."""

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
        """Whether nobody has used it for longer than its time to live."""
        return not self.in_use and self.idle > self.ttl


@dataclass(frozen=True, slots=True)
class CleanupResult:
    """What was removed, what is in use and stays, and why something could not be removed."""

    removed: tuple[WorkspaceInfo, ...] = ()
    in_use: tuple[WorkspaceInfo, ...] = ()
    failures: tuple[str, ...] = ()


def write_record(directory: Path, record: WorkspaceRecord) -> None:
    """Put the record of a workspace, in one step."""
    replace_file(directory / _FILE, json.dumps(asdict(record)).encode())


def read_record(directory: Path) -> WorkspaceRecord | None:
    """The record of a workspace; None when there is none that can be understood."""
    try:
        descriptor = os.open(directory / _FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            fields = json.loads(file.read())
        uid = fields["uid"]
        return WorkspaceRecord(
            key=str(fields["key"]),
            executor=str(fields["executor"]),
            created=float(fields["created"]),
            ttl=float(fields["ttl"]),
            uid=None if uid is None else int(uid),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def make_skeleton(tree: Path, uid: int | None) -> None:
    """Make `tree` with its directories, those that are missing; a link or file in the place of one of them goes.

    New ones have mode 0700 and belong to the user `uid`, or to us. The skills belong to us in any case.
    """
    _make_directory(str(tree), None, uid)
    top = open_with_full_access(str(tree), None)
    try:
        for name in (SKILLS, WORK, RUNS, OUT):
            _make_directory(name, top, None if name == SKILLS else uid)
        if uid is not None:
            _make_readable(SKILLS, top)
        work = open_with_full_access(WORK, top)
        try:
            _make_directory(INPUTS.removeprefix(f"{WORK}/"), work, uid)
        finally:
            os.close(work)
    finally:
        os.close(top)


def _make_directory(name: str, parent: int | None, uid: int | None) -> None:
    """Make one directory, unless there is one."""
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


def _make_readable(name: str, parent: int) -> None:
    descriptor = open_with_full_access(name, parent)
    try:
        os.fchmod(descriptor, 0o755)
    finally:
        os.close(descriptor)


class UidLease:
    """A user id that nobody else gets until it is released, or this process is gone."""

    def __init__(self, uid: int, descriptor: int) -> None:
        self.uid = uid
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back; safe to call twice."""
        if self._descriptor >= 0:
            # Said aloud: closing would not free it as long as a forked child has a copy.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1


class UidPool:
    """The user ids of a range, from `first` to `last`, with their files in a directory that only we can write to.

    `exists` tells whether there still is an owner of this name.
    """

    def __init__(self, directory: Path, first: int, last: int, exists: Callable[[str], bool]) -> None:
        self._directory = directory
        self._range = range(first, last + 1)
        self._exists = exists

    def claim(self, owner: str, preferred: int | None = None) -> UidLease:
        """A user id for an owner: the preferred one, which it had before, or one that no living owner has.

        Raises `ExecutorUnavailable` when the preferred one is in use by somebody else, or all are taken.
        """
        if preferred is not None:
            if _is_known(preferred):
                raise ExecutorUnavailable(
                    f"the user id {preferred} of this workspace belongs to somebody on this machine now; remove it"
                )
            held = self._try_claim(preferred, owner)
            if held is None:
                raise ExecutorUnavailable(f"the user id {preferred} of this workspace is in use; try again later")
            return held
        for uid in self._candidates():
            if not _is_known(uid) and (held := self._try_claim(uid, owner)):
                return held
        raise ExecutorUnavailable(
            f"all user ids from {self._range.start} to {self._range.stop - 1} are taken; remove workspaces with "
            "`openskills workspaces clean`, or set OPENSKILL_SANDBOX_UIDS to more"
        )

    def _candidates(self) -> Iterator[int]:
        # From anywhere on, so that the first free one is found soon.
        start = random.randrange(len(self._range))  # noqa: S311 - only spreads
        return (self._range[(start + step) % len(self._range)] for step in range(len(self._range)))

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
                # Over what was there, without cutting it: that would make some file systems wait for the disk.
                os.pwrite(descriptor, owner.ljust(len(before)).encode("ascii"), 0)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return UidLease(uid, descriptor)


def _is_known(uid: int) -> bool:
    """Whether the machine has a user or group of this number."""
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
"""Told from time to time what is done, how many are, and of how many."""


class Lease:
    """The right of this process to use a workspace. It ends with `release`, or with the process."""

    def __init__(self, id_: str, directory: Path, lock: int, uid: UidLease | None) -> None:
        self.id = id_
        self.directory = directory
        self.tree = directory / _TREE
        self.uid = uid.uid if uid else None
        self._held_uid = uid
        self._lock = lock

    def touch(self) -> None:
        """Say that the workspace is being used: its time to live counts from here."""
        if self._lock >= 0:
            os.utime(self._lock)

    def release(self) -> None:
        """Let others use it; safe to call twice."""
        if self._lock >= 0:
            self.touch()
            self._close()

    def remove(self) -> None:
        """Remove the workspace with all that it holds, and release it."""
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
    """All workspaces below a directory. `uids` are the first and last user id to give away when we are root."""

    def __init__(self, root: Path, quota: Quota | None = None, uids: tuple[int, int] | None = None) -> None:
        self._root = root
        self._quota = quota or Quota()
        self._uids = UidPool(root / _UIDS, *uids, self._exists) if uids and os.geteuid() == 0 else None

    @staticmethod
    def id_from_key(key: str, executor: str) -> str:
        """What the workspace of a key is called. Executors do not share them: each has its own way to stage skills."""
        return hashlib.sha256(f"{executor}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def claim(self, key: str, *, executor: str, ttl: float = DAY) -> Lease:
        """The workspace of a key, made when there is none.

        Raises `ExecutorUnavailable` (try again) when another process or another part of this one has it, with its pid,
        and `LimitExceeded` when there are too many.
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

    def list(self, progress: ProgressCallback | None = None) -> Sequence[WorkspaceInfo]:
        """Every workspace, the one that was used last first."""
        names = list(self._list_ids())
        found: list[WorkspaceInfo] = []
        for done, name in enumerate(names):
            if progress:
                progress("looking at workspaces", done, len(names))
            # Removed meanwhile: then it is no workspace.
            with suppress(FileNotFoundError):
                found.append(self._read_info(name, measure=True))
        return sorted(found, key=lambda info: (info.idle, info.id))

    def remove(self, id_: str) -> bool:
        """Remove a workspace with all that it holds; false when there is none.

        Raises `ExecutorUnavailable` when somebody uses it.
        """
        if not _ID.fullmatch(id_):
            raise InvalidArgument("id", f"{id_!r} is no id of a workspace; `openskills workspaces list` shows them")
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
        return delete_tree(doomed)

    def clean(self, *, older_than: float = 0.0, progress: ProgressCallback | None = None) -> CleanupResult:
        """Remove every workspace that nobody uses and nobody has used for so many seconds; all of them for 0."""
        self._finish_removals()
        return self._remove_matching(lambda info: info.idle >= older_than, progress)

    def sweep(self, progress: ProgressCallback | None = None) -> CleanupResult:
        """Put in order what processes that are no more have left: what is expired, and what was half removed."""
        self._finish_removals()
        return self._remove_matching(lambda info: info.is_expired, progress)

    def _remove_matching(
        self, doomed: Callable[[WorkspaceInfo], bool], progress: ProgressCallback | None
    ) -> CleanupResult:
        removed: list[WorkspaceInfo] = []
        in_use: list[WorkspaceInfo] = []
        failures: list[str] = []
        names = list(self._list_ids())
        for done, name in enumerate(names):
            if progress:
                progress("removing workspaces", done, len(names))
            try:
                info = self._read_info(name, measure=False)
                if info.in_use:
                    in_use.append(info)
                elif doomed(info) and self.remove(name):
                    removed.append(info)
            except FileNotFoundError:
                continue  # somebody else was quicker
            except (OSError, ExecutorUnavailable) as error:
                failures.append(f"{name}: {error}")
        return CleanupResult(tuple(removed), tuple(in_use), tuple(failures))

    def _finish_removals(self) -> None:
        with suppress(FileNotFoundError):
            for name in os.listdir(self._root):
                if name.startswith(_REMOVING):
                    # What cannot be removed now is there at the next sweep.
                    with suppress(OSError):
                        delete_tree(self._root / name)

    def _prepare(self, id_: str, fresh: WorkspaceRecord) -> UidLease | None:
        """Everything that a leased workspace needs; returns the user that it belongs to."""
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
        """The lock of a workspace, whose directory now exists; None when somebody else has it."""
        for _ in range(3):
            self._create(directory)
            # Removed between the two: then it is made anew.
            with suppress(FileNotFoundError):
                return take_lock(directory)
        return None

    def _create(self, directory: Path) -> None:
        if directory.is_dir():
            return
        most = self._quota.max_workspaces
        if len(list(self._list_ids())) >= most:
            self.sweep()
            if (count := len(list(self._list_ids()))) >= most:
                raise LimitExceeded(
                    f"there are {count:,} workspaces, and {most:,} is the most; remove some with "
                    "`openskills workspaces clean --older-than 1h`"
                )
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except FileNotFoundError:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)

    def _list_ids(self) -> Iterator[str]:
        with suppress(FileNotFoundError):
            yield from (name for name in os.listdir(self._root) if _ID.fullmatch(name))

    def _exists(self, id_: str) -> bool:
        return bool(_ID.fullmatch(id_)) and (self._root / id_).is_dir()

    def _read_info(self, id_: str, *, measure: bool) -> WorkspaceInfo:
        directory = self._root / id_
        now = time.time()
        seen = read_lock(directory)
        # Without a record it never came to be a workspace, or is about to become one.
        record = read_record(directory) or WorkspaceRecord("", "", seen.used, _UNFINISHED)
        usage = measure_usage(directory / _TREE) if measure else None
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
    """Take a workspace out of the list in one step; what is left to do can be done by anybody."""
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
