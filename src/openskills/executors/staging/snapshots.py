"""Content-addressed snapshots of skill folders. Blocking.

A folder is scanned first (names and stamps, without reading files). It is copied only if a stamp differs from the
record of the last snapshot, and stored under the digest of the bytes that were copied.
"""

import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded, SkillError
from openskills.executors.files.descriptors import auto_close, delete_tree, open_beneath, remove_entry
from openskills.executors.spec import RESERVED, SkillSnapshot, build_reader, to_json
from openskills.filesystem import TEMPORARY_PREFIX, flush_directory, replace_file, write_all
from openskills.paths import open_inside, to_printable
from openskills.skillmd.rules.specification import describe_unsafe

MAX_ENTRIES = 20_000
MAX_BYTES = 512 * 1024 * 1024

EXCLUDED_NAMES = frozenset({".git", ".hg", ".svn", "__pycache__"})
"""Names in an author's folder that are not part of the skill."""

_SETTLE_NANOSECONDS = 20_000_000

Stamp = tuple[int, ...]


class SnapshotEntryKind(StrEnum):
    """How an entry of the folder is stored in a snapshot."""

    DIRECTORY = "d"
    FILE = "f"
    LINK = "l"
    EXCLUDED = "x"


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """One entry of the folder; `why` is the reason for its exclusion, `target` that of a link."""

    path: str
    kind: SnapshotEntryKind
    stamp: Stamp
    why: str = ""
    target: str = ""


def stamp_from_stat(status: os.stat_result) -> Stamp:
    """A value that differs after every change of a file; its last item, the change time, cannot be set by programs."""
    return (status.st_mode, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def is_settled(stamp: Stamp, now: int) -> bool:
    """Whether a change from `now` on gives another stamp. A change within two clock ticks of the last one may not."""
    return stamp[4] < now - _SETTLE_NANOSECONDS


def scan_folder(folder: str) -> list[SnapshotEntry]:
    """Everything in the folder, sorted by path. Links to files in it count as those files, links to directories stay.

    Raises `LimitExceeded` for more than 20,000 entries or 512 MiB, `InvalidSkill` for unreadable entries.
    """
    items: list[SnapshotEntry] = []
    total = 0
    for item in _walk_folder(folder):
        items.append(item)
        total += item.stamp[1] if item.kind is SnapshotEntryKind.FILE else 0
        if len(items) > MAX_ENTRIES:
            raise LimitExceeded(f"{folder} has more than {MAX_ENTRIES:,} files, the maximum for a skill")
        if total > MAX_BYTES:
            raise _size_error(folder)
    directories = {item.path for item in items if item.kind is SnapshotEntryKind.DIRECTORY}
    return sorted((_check_link(item, directories) for item in items), key=lambda item: os.fsencode(item.path))


def _size_error(folder: str) -> LimitExceeded:
    return LimitExceeded(f"{folder} has more than {MAX_BYTES // 1024**2} MiB, the maximum for a skill")


def _check_link(item: SnapshotEntry, directories: Set[str]) -> SnapshotEntry:
    """Exclude links that do not lead directly to a copied directory, so that the copy has no link out of it."""
    if item.kind is not SnapshotEntryKind.LINK:
        return item
    parts = [part for part in item.target.split("/") if part not in ("", ".")]
    # `..` only at the start: anywhere else it could follow a link and lead elsewhere.
    is_plain = ".." not in parts[parts.count("..") :]
    leads_to = os.path.normpath(os.path.join(os.path.dirname(item.path), item.target))
    if not is_plain or leads_to not in directories:
        return _exclude(item.path, item.stamp, "is a link that does not lead directly to a directory of the skill")
    if item.path.startswith(f"{leads_to}/"):
        return _exclude(item.path, item.stamp, "is a link to a directory that contains it")
    return item


def _exclude(path: str, stamp: Stamp, why: str) -> SnapshotEntry:
    return SnapshotEntry(path, SnapshotEntryKind.EXCLUDED, stamp, why)


def build_unreadable_error(folder: str, path: str, error: OSError) -> InvalidSkill:
    """The error for an entry of a skill's folder that cannot be read."""
    shown = to_printable(os.path.join(folder, path))
    return InvalidSkill(f"cannot read {shown}: {error.strerror}; make it readable or remove it")


def _walk_folder(folder: str) -> Iterator[SnapshotEntry]:
    prefix = ""
    try:
        with auto_close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
            waiting = [""]
            while waiting:
                prefix = waiting.pop()
                for item in _scan_directory(folder, root, prefix):
                    yield item
                    if item.kind is SnapshotEntryKind.DIRECTORY:
                        waiting.append(f"{item.path}/")
    except OSError as error:
        raise build_unreadable_error(folder, prefix, error) from error


def _scan_directory(folder: str, root: int, prefix: str) -> Iterator[SnapshotEntry]:
    descriptor = open_beneath(root, prefix or ".", os.O_RDONLY | os.O_DIRECTORY, links=False)
    with auto_close(descriptor), os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.name not in EXCLUDED_NAMES:
                yield _build_entry(folder, prefix + entry.name, entry.stat(follow_symlinks=False))


def _build_entry(folder: str, path: str, status: os.stat_result) -> SnapshotEntry:
    stamp = stamp_from_stat(status)
    if path in RESERVED:
        return _exclude(path, stamp, "has a name that is reserved in workspaces; rename it")
    if stat.S_ISDIR(status.st_mode):
        return SnapshotEntry(path, SnapshotEntryKind.DIRECTORY, stamp)
    if stat.S_ISREG(status.st_mode):
        return SnapshotEntry(path, SnapshotEntryKind.FILE, stamp)
    if stat.S_ISLNK(status.st_mode):
        return _resolve_link(folder, path, stamp)
    return _exclude(path, stamp, "is not a file (but a FIFO, socket or device)")


def _resolve_link(folder: str, path: str, stamp: Stamp) -> SnapshotEntry:
    """The file in the same folder that a link leads to, with a stamp of both, or a link to a directory."""
    try:
        with auto_close(open_inside(folder, path)) as descriptor:
            status = os.fstat(descriptor)
    except ForbiddenPath:
        return _exclude(path, stamp, "is a link that leads out of the skill")
    except OSError:
        return _exclude(path, stamp, "is a broken link")
    if stat.S_ISDIR(status.st_mode):
        return SnapshotEntry(path, SnapshotEntryKind.LINK, stamp, target=os.readlink(os.path.join(folder, path)))
    if not stat.S_ISREG(status.st_mode):
        return _exclude(path, stamp, "is a link to something that is not a file")
    target = stamp_from_stat(status)
    newest = (max(target[3], stamp[3]), max(target[4], stamp[4]))
    return SnapshotEntry(path, SnapshotEntryKind.FILE, (*target[:3], *newest, *stamp))


DIRECTORY, FILE, PROGRAM = 0o555, 0o444, 0o555
"""The modes of directories, files and programs in a snapshot."""

_CHUNK = 1024 * 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SnapshotCopy:
    """The result of a copy: the digest covers sorted paths, kinds, executable bits and content."""

    digest: str
    files: int
    size: int


def copy_entries(folder: str, items: Sequence[SnapshotEntry], target: Path) -> SnapshotCopy:
    """Copy the scanned entries of `folder` to the new directory `target`, read-only and durable.

    Raises `InvalidSkill` for unreadable entries, `LimitExceeded` if the folder has become too large.
    """
    target.mkdir(mode=0o700)
    lines: list[bytes] = []
    files, size = 0, 0
    for item in items:
        path = os.fsencode(item.path)
        if item.kind is SnapshotEntryKind.DIRECTORY:
            (target / item.path).mkdir(mode=0o700)
            lines.append(b"d\0%s\0" % path)
        elif item.kind is SnapshotEntryKind.LINK:
            (target / item.path).symlink_to(item.target)
            lines.append(b"l\0%s\0%s\0" % (path, os.fsencode(item.target)))
        elif item.kind is SnapshotEntryKind.FILE:
            kind, copied, digest = _copy_file(folder, item.path, target / item.path, MAX_BYTES - size)
            files, size = files + 1, size + copied
            # No part can contain a NUL, so the encoding is unambiguous.
            lines.append(b"%s\0%s\0%s\0" % (kind, path, digest.encode()))
    _sync_to_disk(target, items)
    return SnapshotCopy(hashlib.sha256(b"".join(lines)).hexdigest(), files, size)


def _copy_file(folder: str, path: str, target: Path, limit: int) -> tuple[bytes, int, str]:
    """Copy a file; returns whether it is a program (`x`) or not (`f`), its size and its digest."""
    digest, size = hashlib.sha256(), 0
    with auto_close(_open_source(folder, path)) as source, auto_close(os.open(target, _NEW, 0o600)) as copy:
        status = os.fstat(source)
        executable = bool(status.st_mode & 0o100)
        # Also counted: the file may grow while it is read.
        while status.st_size <= limit and (chunk := os.read(source, _CHUNK)) and size <= limit:
            size += len(chunk)
            digest.update(chunk)
            write_all(copy, chunk)
        os.fchmod(copy, PROGRAM if executable else FILE)
    if max(size, status.st_size) > limit:
        raise _size_error(folder)
    return b"x" if executable else b"f", size, digest.hexdigest()


def _open_source(folder: str, path: str) -> int:
    try:
        return open_inside(folder, path)
    except OSError as error:
        raise build_unreadable_error(folder, path, error) from error
    except ForbiddenPath as error:
        # It was replaced by a link after the scan.
        raise build_unreadable_error(folder, path, OSError(0, "it leads out of the skill")) from error


def _sync_to_disk(target: Path, items: Sequence[SnapshotEntry]) -> None:
    """Flush everything, after all has been written so that the disk can batch it."""
    for item in reversed(items):
        if item.kind is SnapshotEntryKind.FILE:
            with auto_close(os.open(target / item.path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
                os.fsync(descriptor)
        elif item.kind is SnapshotEntryKind.DIRECTORY:
            _seal(target / item.path)
    _seal(target)


def _seal(directory: Path) -> None:
    with auto_close(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fchmod(descriptor, DIRECTORY)
        os.fsync(descriptor)


_VERSION = 3


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A scanned folder and its snapshot.

    `settled` is false if something had been changed so recently that a later change could have the same stamp.
    """

    items: tuple[SnapshotEntry, ...]
    digest: str
    files: int
    size: int
    settled: bool


class SnapshotRecords:
    """Snapshot records in a directory, one file per folder. Invalid files and other versions are ignored."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, folder: str) -> SnapshotRecord | None:
        """The record of a folder, or None."""
        try:
            data = self._path(folder).read_bytes()
        except FileNotFoundError:
            return None
        return _parse_record(data, folder)

    def put(self, folder: str, record: SnapshotRecord) -> None:
        """Write the record of a folder; the last writer wins."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        value = {"version": _VERSION, "folder": folder, "record": record}
        replace_file(self._path(folder), json.dumps(value, default=to_json).encode("ascii"))

    def prune(self, digests: Set[str]) -> None:
        """Remove the records of all other snapshots."""
        with suppress(FileNotFoundError):
            for path in self._directory.glob("*.json"):
                with suppress(FileNotFoundError):
                    record = _parse_record(path.read_bytes(), None)
                    if record is None or record.digest not in digests:
                        path.unlink()

    def _path(self, folder: str) -> Path:
        return self._directory / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]}.json"


def _parse_record(data: bytes, folder: str | None) -> SnapshotRecord | None:
    try:
        value = json.loads(data)
        if value["version"] != _VERSION or folder not in (None, value["folder"]):
            return None
        return build_reader(SnapshotRecord)(value["record"])
    except (ValueError, TypeError, KeyError):
        return None


MAX_WARNINGS = 20

_DIGEST = re.compile(r"[0-9a-f]{64}")
_REFRESH_SECONDS = 60.0


class SnapshotStore:
    """A directory of snapshots. Any number of processes may use it at once; the first use creates it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._records = SnapshotRecords(root / ".records")
        # Used by several threads: each operation on it is atomic.
        self._known: dict[str, SnapshotRecord] = {}

    def path(self, digest: str) -> Path:
        """The path of the snapshot with this digest, which need not exist. Raises `InvalidArgument`."""
        if not _DIGEST.fullmatch(digest):
            raise InvalidArgument("digest", f"invalid snapshot digest {digest[:80]!r}")
        return self._root / digest

    def take(self, name: str, directory: Path) -> SkillSnapshot:
        """Take a snapshot of a skill's folder. Files are only read if something in the folder has changed.

        Excluded, with a warning: links that leave the folder or lead to a directory indirectly, special files, and
        names that are reserved in workspaces. Raises `InvalidSkill` for unreadable entries, `LimitExceeded` if the
        folder is too large.
        """
        check_skill_name(name)
        folder = os.path.abspath(directory)
        now = time.time_ns()
        items = tuple(scan_folder(folder))
        record = self._known.get(folder) or self._records.get(folder)
        if record is None or record.items != items or not record.settled or not self._has_snapshot(record.digest):
            record = self._build(folder, items, settled=all(is_settled(item.stamp, now) for item in items))
            self._records.put(folder, record)
        self._known[folder] = record
        return SkillSnapshot(name, record.digest, record.files, record.size, _describe_exclusions(items))

    def add(self, folder: Path) -> str:
        """Store a copy of a folder that nothing else uses, and return its digest. Raises as `take` does."""
        path = os.path.abspath(folder)
        return self._build(path, tuple(scan_folder(path)), settled=True).digest

    def sweep(self, keep: Set[str], *, older_than: float) -> int:
        """Remove snapshots that are not in `keep` and were not taken for `older_than` seconds, and unfinished ones of
        that age. Returns the number removed."""
        removed = 0
        if not self._root.is_dir():
            return 0
        with auto_close(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
            for entry in os.listdir(root):
                is_snapshot = bool(_DIGEST.fullmatch(entry)) and entry not in keep
                if (is_snapshot or entry.startswith(TEMPORARY_PREFIX)) and _measure_age(root, entry) >= older_than:
                    removed += _remove_stale(root, entry)
        self._records.prune({digest for digest in os.listdir(self._root) if _DIGEST.fullmatch(digest)})
        return removed

    def _has_snapshot(self, digest: str) -> bool:
        """Whether a snapshot exists; its time is updated, so that no sweep removes it."""
        path = self._root / digest
        try:
            if time.time() - path.stat().st_mtime > _REFRESH_SECONDS:
                os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def _build(self, folder: str, items: tuple[SnapshotEntry, ...], *, settled: bool) -> SnapshotRecord:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = self._root / (TEMPORARY_PREFIX + secrets.token_hex(8))
        try:
            copy = copy_entries(folder, items, aside)
            self._publish(aside, copy.digest)
        finally:
            delete_tree(aside)
        return SnapshotRecord(items, copy.digest, copy.files, copy.size, settled)

    def _publish(self, aside: Path, digest: str) -> None:
        target = self._root / digest
        if self._has_snapshot(digest):
            return
        # Fails if another process was faster: a directory that is not empty is not replaced.
        with suppress(OSError):
            os.rename(aside, target)
        if not target.is_dir():
            raise SkillError(f"cannot store a snapshot in {self._root}; is the disk full?")
        flush_directory(self._root)


def check_skill_name(name: str) -> str:
    """Return the name; raises `InvalidArgument` if it cannot be the name of a directory."""
    unsafe = describe_unsafe(name) or ("begins with a dot" if name.startswith(".") else "")
    if unsafe or not name or len(os.fsencode(name)) > 255:
        raise InvalidArgument("skill", f"the name {name[:80]!r} {unsafe or 'is empty or too long'}; rename the skill")
    return name


def _describe_exclusions(items: Sequence[SnapshotEntry]) -> tuple[str, ...]:
    left_out = [f"{to_printable(item.path)} {item.why}" for item in items if item.kind is SnapshotEntryKind.EXCLUDED]
    more = len(left_out) - MAX_WARNINGS
    return (*left_out[:MAX_WARNINGS], *([f"and {more} more are left out"] if more > 0 else []))


def _measure_age(root: int, entry: str) -> float:
    try:
        return time.time() - os.stat(entry, dir_fd=root, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return -1.0


def _remove_stale(root: int, entry: str) -> bool:
    # Renamed first, so that no process finds a partial snapshot.
    leaving = TEMPORARY_PREFIX + secrets.token_hex(8)
    with suppress(FileNotFoundError):
        os.rename(entry, leaving, src_dir_fd=root, dst_dir_fd=root)
        return remove_entry(root, leaving)
    return False
