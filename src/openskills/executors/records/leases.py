"""Workspaces on disk, and who uses them: one directory for each key, leased to one process at a time. Blocking.

`<root>/<id>/` is ours: the record, the lease and the journal. `<root>/<id>/tree/` is the workspace as commands see it.
The lease is a lock on a file, so the system ends it with the process that has it, however that process ends.
"""

import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from openskills.errors import ExecutorUnavailable, InvalidArgument, LimitExceeded
from openskills.executors.records import locks
from openskills.executors.records.delete import delete_tree
from openskills.executors.records.quota import Quota, measured
from openskills.executors.records.records import Cleaned, Record, WorkspaceInfo, read_record, write_record
from openskills.executors.records.skeleton import make_skeleton
from openskills.executors.records.uids import HeldUid, UidPool

DAY = 24 * 60 * 60.0
_ID = re.compile(r"[0-9a-f]{32}")
_TREE = "tree"
_REMOVING = ".removing-"
_UIDS = ".uids"
_UNFINISHED = 60.0

Progress = Callable[[str, int, int | None], None]
"""Told from time to time what is done, how many are, and of how many."""


class Lease:
    """The right of this process to use a workspace. It ends with `release`, or with the process."""

    def __init__(self, id_: str, directory: Path, lock: int, uid: HeldUid | None) -> None:
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
            self._let_go()

    def remove(self) -> None:
        """Remove the workspace with all that it holds, and release it."""
        if self._lock >= 0:
            doomed = _set_apart(self.directory)
            self._let_go()
            delete_tree(doomed)

    def _let_go(self) -> None:
        locks.give_back(self._lock)
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
    def id_of(key: str, executor: str) -> str:
        """What the workspace of a key is called. Executors do not share them: each has its own way to stage skills."""
        return hashlib.sha256(f"{executor}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def claim(self, key: str, *, executor: str, ttl: float = DAY) -> Lease:
        """The workspace of a key, made when there is none.

        Raises `ExecutorUnavailable` (try again) when another process or another part of this one has it, with its pid,
        and `LimitExceeded` when there are too many.
        """
        id_ = self.id_of(key, executor)
        directory = self._root / id_
        lock = self._locked(directory)
        if lock is None:
            raise _in_use(directory, key)
        try:
            locks.sign(lock)
            return Lease(id_, directory, lock, self._prepared(id_, Record(key, executor, time.time(), ttl)))
        except BaseException:
            locks.give_back(lock)
            raise

    def list(self, progress: Progress | None = None) -> Sequence[WorkspaceInfo]:
        """Every workspace, the one that was used last first."""
        names = list(self._names())
        found: list[WorkspaceInfo] = []
        for done, name in enumerate(names):
            if progress:
                progress("looking at workspaces", done, len(names))
            # Removed meanwhile: then it is no workspace.
            with suppress(FileNotFoundError):
                found.append(self._info(name, measure=True))
        return sorted(found, key=lambda info: (info.idle, info.id))

    def remove(self, id_: str) -> bool:
        """Remove a workspace with all that it holds; false when there is none.

        Raises `ExecutorUnavailable` when somebody uses it.
        """
        if not _ID.fullmatch(id_):
            raise InvalidArgument("id", f"{id_!r} is no id of a workspace; `openskills workspaces list` shows them")
        directory = self._root / id_
        try:
            lock = locks.take(directory)
        except FileNotFoundError:
            return False
        if lock is None:
            raise _in_use(directory, id_)
        try:
            doomed = _set_apart(directory)
        finally:
            locks.give_back(lock)
        return delete_tree(doomed)

    def clean(self, *, older_than: float = 0.0, progress: Progress | None = None) -> Cleaned:
        """Remove every workspace that nobody uses and nobody has used for so many seconds; all of them for 0."""
        self._finish_removals()
        return self._clean(lambda info: info.idle >= older_than, progress)

    def sweep(self, progress: Progress | None = None) -> Cleaned:
        """Put in order what processes that are no more have left: what is expired, and what was half removed."""
        self._finish_removals()
        return self._clean(lambda info: info.expired, progress)

    def _clean(self, doomed: Callable[[WorkspaceInfo], bool], progress: Progress | None) -> Cleaned:
        removed: list[WorkspaceInfo] = []
        in_use: list[WorkspaceInfo] = []
        failures: list[str] = []
        names = list(self._names())
        for done, name in enumerate(names):
            if progress:
                progress("removing workspaces", done, len(names))
            try:
                info = self._info(name, measure=False)
                if info.in_use:
                    in_use.append(info)
                elif doomed(info) and self.remove(name):
                    removed.append(info)
            except FileNotFoundError:
                continue  # somebody else was quicker
            except (OSError, ExecutorUnavailable) as error:
                failures.append(f"{name}: {error}")
        return Cleaned(tuple(removed), tuple(in_use), tuple(failures))

    def _finish_removals(self) -> None:
        with suppress(FileNotFoundError):
            for name in os.listdir(self._root):
                if name.startswith(_REMOVING):
                    # What cannot be removed now is there at the next sweep.
                    with suppress(OSError):
                        delete_tree(self._root / name)

    def _prepared(self, id_: str, fresh: Record) -> HeldUid | None:
        """Everything that a leased workspace needs; returns the user that it belongs to."""
        directory = self._root / id_
        record = read_record(directory)
        held = self._uids.claim(id_, record.uid if record else None) if self._uids else None
        uid = held.uid if held else None
        try:
            if record is None or (record.uid, record.ttl) != (uid, fresh.ttl):
                created = record.created if record else fresh.created
                write_record(directory, Record(fresh.key, fresh.executor, created, fresh.ttl, uid))
            make_skeleton(directory / _TREE, uid)
        except BaseException:
            if held:
                held.release()
            raise
        return held

    def _locked(self, directory: Path) -> int | None:
        """The lock of a workspace, whose directory now exists; None when somebody else has it."""
        for _ in range(3):
            self._make(directory)
            # Removed between the two: then it is made anew.
            with suppress(FileNotFoundError):
                return locks.take(directory)
        return None

    def _make(self, directory: Path) -> None:
        if directory.is_dir():
            return
        most = self._quota.max_workspaces
        if len(list(self._names())) >= most:
            self.sweep()
            if (count := len(list(self._names()))) >= most:
                raise LimitExceeded(
                    f"there are {count:,} workspaces, and {most:,} is the most; remove some with "
                    "`openskills workspaces clean --older-than 1h`"
                )
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except FileNotFoundError:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)

    def _names(self) -> Iterator[str]:
        with suppress(FileNotFoundError):
            yield from (name for name in os.listdir(self._root) if _ID.fullmatch(name))

    def _exists(self, id_: str) -> bool:
        return bool(_ID.fullmatch(id_)) and (self._root / id_).is_dir()

    def _info(self, id_: str, *, measure: bool) -> WorkspaceInfo:
        directory = self._root / id_
        now = time.time()
        seen = locks.look(directory)
        # Without a record it never came to be a workspace, or is about to become one.
        record = read_record(directory) or Record("", "", seen.used, _UNFINISHED)
        usage = measured(directory / _TREE) if measure else None
        return WorkspaceInfo(
            id=id_,
            key=record.key,
            executor=record.executor,
            size=usage.bytes if usage else 0,
            files=usage.files if usage else 0,
            age=max(now - record.created, 0.0),
            idle=max(now - seen.used, 0.0),
            ttl=record.ttl,
            in_use=seen.held,
            holder=seen.holder,
        )


def _set_apart(directory: Path) -> Path:
    """Take a workspace out of the list in one step; what is left to do can be done by anybody."""
    doomed = directory.with_name(f"{_REMOVING}{secrets.token_hex(16)}")
    directory.rename(doomed)
    return doomed


def _in_use(directory: Path, key: str) -> ExecutorUnavailable:
    by = ""
    with suppress(FileNotFoundError):
        holder = locks.look(directory).holder
        if holder is not None:
            by = " by this process" if holder == os.getpid() else f" by process {holder}"
    return ExecutorUnavailable(f"the workspace of {key!r} is in use{by}; close it there, or try again later")
