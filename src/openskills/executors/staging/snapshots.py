"""Skills as they were at one moment, kept once under the digest of what is in them. Blocking."""

import os
import re
import secrets
import threading
import time
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from openskills.errors import InvalidArgument, SkillError
from openskills.executors.files.openat2 import opened
from openskills.executors.files.removal import remove_entry
from openskills.executors.spec import Snapshot
from openskills.executors.staging.copying import copy_items
from openskills.executors.staging.snapshot_records import Record, Records
from openskills.executors.staging.survey import Item, Kind, is_settled, survey
from openskills.files import ARRIVING
from openskills.paths import printable
from openskills.skillmd.rules.naming import unsafe_in

MAX_WARNINGS = 20

_DIGEST = re.compile(r"[0-9a-f]{64}")
_STILL_WANTED = 60.0


class SnapshotStore:
    """A directory of snapshots. Any number of processes may use it at once; the first use makes it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._records = Records(root / ".records")
        self._known: dict[str, Record] = {}
        self._lock = threading.Lock()

    def path(self, digest: str) -> Path:
        """Where the snapshot of this digest is, or would be. Raises `InvalidArgument` for what is no digest."""
        if not _DIGEST.fullmatch(digest):
            raise InvalidArgument("digest", f"{digest[:80]!r} is no digest of a snapshot")
        return self._root / digest

    def take(self, name: str, directory: Path) -> Snapshot:
        """A snapshot of a skill's folder. Files are read only when something in the folder has changed.

        Left out, with a warning: links that leave the folder or lead to a directory that they do not name plainly, what
        is neither file nor directory, and names that a workspace needs itself. Raises `InvalidSkill` for what cannot be
        read, `LimitExceeded` for what is too much.
        """
        checked_skill_name(name)
        folder = os.path.abspath(directory)
        now = time.time_ns()
        items = survey(folder)
        record = self._record_of(folder)
        if record is None or record.items != items or not record.settled or not self._is_there(record.digest):
            record = self._build(folder, items, settled=all(is_settled(item.stamp, now) for item in items))
            self._records.put(folder, record)
            with self._lock:
                self._known[folder] = record
        return Snapshot(name, record.digest, record.files, record.size, _warnings(items))

    def sweep(self, keep: Set[str], *, older_than: float) -> int:
        """Remove snapshots that are not to be kept and were not taken for `older_than` seconds, and what somebody began
        to build before that and never finished. Says how many were removed."""
        removed = 0
        if not self._root.is_dir():
            return 0
        with opened(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
            for entry in os.listdir(root):
                is_snapshot = bool(_DIGEST.fullmatch(entry)) and entry not in keep
                if (is_snapshot or entry.startswith(ARRIVING)) and _age(root, entry) >= older_than:
                    removed += _discard(root, entry)
        self._records.forget_all_but({digest for digest in os.listdir(self._root) if _DIGEST.fullmatch(digest)})
        return removed

    def _record_of(self, folder: str) -> Record | None:
        with self._lock:
            record = self._known.get(folder)
        if record is None:
            record = self._records.get(folder)
            if record is not None:
                with self._lock:
                    self._known[folder] = record
        return record

    def _is_there(self, digest: str) -> bool:
        """Whether a snapshot can be used; its time says that it was, so that no sweep takes it away."""
        path = self._root / digest
        try:
            if time.time() - path.stat().st_mtime > _STILL_WANTED:
                os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def _build(self, folder: str, items: list[Item], *, settled: bool) -> Record:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = self._root / (ARRIVING + secrets.token_hex(8))
        try:
            copy = copy_items(folder, items, aside)
            self._give_name(aside, copy.digest)
        finally:
            with opened(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
                remove_entry(root, aside.name)
        return Record(items, copy.digest, copy.files, copy.size, settled)

    def _give_name(self, aside: Path, digest: str) -> None:
        target = self._root / digest
        if self._is_there(digest):
            return
        # Fails when somebody else was faster: a directory that holds something is not replaced.
        with suppress(OSError):
            os.rename(aside, target)
        if not target.is_dir():
            raise SkillError(f"a snapshot cannot be kept in {self._root}; is the disk full?")
        with opened(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
            os.fsync(root)


def checked_skill_name(name: str) -> str:
    """The same name; raises `InvalidArgument` for what cannot be the name of a directory."""
    unsafe = unsafe_in(name) or ("begins with a dot" if name.startswith(".") else "")
    if unsafe or not name or len(os.fsencode(name)) > 255:
        raise InvalidArgument("skill", f"the name {name[:80]!r} {unsafe or 'is empty or too long'}; rename the skill")
    return name


def _warnings(items: list[Item]) -> tuple[str, ...]:
    left_out = [f"{printable(item.path)} {item.why}" for item in items if item.kind is Kind.LEFT_OUT]
    more = len(left_out) - MAX_WARNINGS
    return (*left_out[:MAX_WARNINGS], *([f"and {more} more are left out"] if more > 0 else []))


def _age(root: int, entry: str) -> float:
    try:
        return time.time() - os.stat(entry, dir_fd=root, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return -1.0


def _discard(root: int, entry: str) -> bool:
    # Under another name first: nobody must find half of it.
    leaving = ARRIVING + secrets.token_hex(8)
    with suppress(FileNotFoundError):
        os.rename(entry, leaving, src_dir_fd=root, dst_dir_fd=root)
        return remove_entry(root, leaving)
    return False
