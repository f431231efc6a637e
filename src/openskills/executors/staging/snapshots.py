"""Content-addressed copies of skills.

What is in a skill's folder, and when it was changed: names and stamps, without reading any file.

Copying a skill's folder, with a digest of exactly the bytes that were copied.

What is remembered about folders that snapshots were taken of, so that they need not be read again.

Skills as they were at one moment, kept once under the digest of what is in them. Blocking.
"""

import hashlib
import json
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from openskills.errors import ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded, SkillError
from openskills.executors.files.beneath import auto_close, open_beneath, remove_entry
from openskills.executors.spec import RESERVED, SkillSnapshot
from openskills.filesystem import TEMPORARY_PREFIX, replace_file
from openskills.paths import open_inside, to_printable
from openskills.skillmd.rules.specification import describe_unsafe

MAX_ENTRIES = 20_000
MAX_BYTES = 512 * 1024 * 1024

EXCLUDED_NAMES = frozenset({".git", ".hg", ".svn", "__pycache__"})
"""What lies in an author's folder and is no part of the skill."""

_SETTLE_NANOSECONDS = 20_000_000

Stamp = tuple[int, ...]


class SnapshotEntryKind(StrEnum):
    """What becomes of an entry in a snapshot."""

    DIRECTORY = "d"
    FILE = "f"
    LINK = "l"
    EXCLUDED = "x"


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """One entry of the folder; `why` says why it is left out, `target` where a link leads."""

    path: str
    kind: SnapshotEntryKind
    stamp: Stamp
    why: str = ""
    target: str = ""


def stamp_from_stat(status: os.stat_result) -> Stamp:
    """What changes when a file is changed; the change time, the last one, cannot be set by a program."""
    return (status.st_mode, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def is_settled(stamp: Stamp, now: int) -> bool:
    """Whether a change from `now` on gives another stamp. It may not when the last one was a moment ago, within two
    ticks of the slowest clock of a file system."""
    return stamp[4] < now - _SETTLE_NANOSECONDS


def scan_folder(folder: str) -> list[SnapshotEntry]:
    """Everything in the folder, sorted by path. A link to a file in the same folder counts as that file, and one to a
    directory in it stays a link.

    Raises `LimitExceeded` for more than 20,000 entries or 512 MiB, `InvalidSkill` for what cannot be read.
    """
    items: list[SnapshotEntry] = []
    total = 0
    for item in _walk_folder(folder):
        items.append(item)
        total += item.stamp[1] if item.kind is SnapshotEntryKind.FILE else 0
        if len(items) > MAX_ENTRIES:
            raise LimitExceeded(f"{folder} has more than {MAX_ENTRIES:,} files; no skill needs that many")
        if total > MAX_BYTES:
            raise LimitExceeded(f"{folder} has more than {MAX_BYTES // 1024**2} MiB; no skill needs that much")
    directories = {item.path for item in items if item.kind is SnapshotEntryKind.DIRECTORY}
    return sorted((_check_link(item, directories) for item in items), key=lambda item: os.fsencode(item.path))


def _check_link(item: SnapshotEntry, directories: Set[str]) -> SnapshotEntry:
    """A link to a directory is kept only when it says the way to one that is copied: then it leads nowhere else,
    wherever the copy lies and whatever happens to the folder meanwhile."""
    if item.kind is not SnapshotEntryKind.LINK:
        return item
    parts = [part for part in item.target.split("/") if part not in ("", ".")]
    # Up first and then down: on any other way there could be a link, after which `..` is not what it looks like.
    is_plain = ".." not in parts[parts.count("..") :]
    leads_to = os.path.normpath(os.path.join(os.path.dirname(item.path), item.target))
    if not is_plain or leads_to not in directories:
        return replace(
            item, kind=SnapshotEntryKind.EXCLUDED, why="is a link that does not say the way to a directory of the skill"
        )
    if item.path.startswith(f"{leads_to}/"):
        return replace(item, kind=SnapshotEntryKind.EXCLUDED, why="is a link to a directory that it lies in itself")
    return item


def build_unreadable_error(folder: str, path: str, error: OSError) -> InvalidSkill:
    """The error for something in a skill's folder that cannot be read."""
    shown = to_printable(os.path.join(folder, path))
    return InvalidSkill(f"{shown} cannot be read: {error.strerror}; make it readable or remove it")


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
        return SnapshotEntry(
            path, SnapshotEntryKind.EXCLUDED, stamp, "has a name that a workspace needs itself; rename it"
        )
    if stat.S_ISDIR(status.st_mode):
        return SnapshotEntry(path, SnapshotEntryKind.DIRECTORY, stamp)
    if stat.S_ISREG(status.st_mode):
        return SnapshotEntry(path, SnapshotEntryKind.FILE, stamp)
    if stat.S_ISLNK(status.st_mode):
        return _resolve_link(folder, path, stamp)
    return SnapshotEntry(path, SnapshotEntryKind.EXCLUDED, stamp, "is no file (a FIFO, socket or device)")


def _resolve_link(folder: str, path: str, stamp: Stamp) -> SnapshotEntry:
    """What a link is: the file in the same folder that it leads to, changed when either is, or a way to a directory."""
    try:
        with auto_close(open_inside(folder, path)) as descriptor:
            status = os.fstat(descriptor)
    except ForbiddenPath:
        return SnapshotEntry(path, SnapshotEntryKind.EXCLUDED, stamp, "is a link that leads out of the skill")
    except OSError:
        return SnapshotEntry(path, SnapshotEntryKind.EXCLUDED, stamp, "is a link that leads nowhere")
    if stat.S_ISDIR(status.st_mode):
        return SnapshotEntry(path, SnapshotEntryKind.LINK, stamp, target=os.readlink(os.path.join(folder, path)))
    if not stat.S_ISREG(status.st_mode):
        return SnapshotEntry(path, SnapshotEntryKind.EXCLUDED, stamp, "is a link to something that is no file")
    target = stamp_from_stat(status)
    newest = (max(target[3], stamp[3]), max(target[4], stamp[4]))
    return SnapshotEntry(path, SnapshotEntryKind.FILE, (*target[:3], *newest, *stamp))


DIRECTORY, FILE, PROGRAM = 0o555, 0o444, 0o555
"""The modes of what is in a snapshot."""

_CHUNK = 1024 * 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SnapshotCopy:
    """What was copied: the digest is over sorted paths, kinds, executable bits and content."""

    digest: str
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class _SnapshotFile:
    digest: str
    size: int
    executable: bool


def copy_entries(folder: str, items: Sequence[SnapshotEntry], target: Path) -> SnapshotCopy:
    """Copy what a survey of `folder` found into the new directory `target`, read-only and durable.

    Raises `InvalidSkill` for what cannot be read, `LimitExceeded` when it has become too large meanwhile.
    """
    target.mkdir(mode=0o700)
    lines: list[bytes] = []
    files: list[_SnapshotFile] = []
    left = MAX_BYTES
    for item in items:
        path = os.fsencode(item.path)
        if item.kind is SnapshotEntryKind.DIRECTORY:
            (target / item.path).mkdir(mode=0o700)
            lines.append(b"d\0%s\0" % path)
        elif item.kind is SnapshotEntryKind.LINK:
            (target / item.path).symlink_to(item.target)
            lines.append(b"l\0%s\0%s\0" % (path, os.fsencode(item.target)))
        elif item.kind is SnapshotEntryKind.FILE:
            file = _copy_file(folder, item.path, target / item.path, left)
            files.append(file)
            left -= file.size
            # No part can hold a NUL, so no two folders give the same bytes.
            lines.append(b"%s\0%s\0%s\0" % (b"x" if file.executable else b"f", path, file.digest.encode()))
    _sync_to_disk(target, items)
    return SnapshotCopy(hashlib.sha256(b"".join(lines)).hexdigest(), len(files), sum(file.size for file in files))


def _copy_file(folder: str, path: str, target: Path, limit: int) -> _SnapshotFile:
    digest, size = hashlib.sha256(), 0
    with auto_close(_open_source(folder, path)) as source, auto_close(os.open(target, _NEW, 0o600)) as copy:
        status = os.fstat(source)
        executable = bool(status.st_mode & 0o100)
        # Counted as well as asked for: it may grow while it is read.
        while status.st_size <= limit and (chunk := os.read(source, _CHUNK)) and size <= limit:
            size += len(chunk)
            digest.update(chunk)
            _write_all(copy, chunk)
        os.fchmod(copy, PROGRAM if executable else FILE)
    if max(size, status.st_size) > limit:
        raise LimitExceeded(f"{folder} has more than {MAX_BYTES // 1024**2} MiB; no skill needs that much")
    return _SnapshotFile(digest.hexdigest(), size, executable)


def _open_source(folder: str, path: str) -> int:
    try:
        return open_inside(folder, path)
    except OSError as error:
        raise build_unreadable_error(folder, path, error) from error
    except ForbiddenPath as error:
        # A link was put there after the survey.
        raise build_unreadable_error(folder, path, OSError(0, "it leads out of the skill")) from error


def _write_all(descriptor: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_to_disk(target: Path, items: Sequence[SnapshotEntry]) -> None:
    """Let everything survive a power cut; after all has been written, so that the disk can do it in one go."""
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


_VERSION = 2


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A folder as it was surveyed, and the snapshot that was taken then.

    `settled` is false when something in it had been changed so recently that a later change could look the same.
    """

    items: list[SnapshotEntry]
    digest: str
    files: int
    size: int
    settled: bool


class SnapshotRecords:
    """Records in a directory, one file per folder. What is damaged or of another version is not there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, folder: str) -> SnapshotRecord | None:
        """The record of a folder, if there is one."""
        try:
            data = self._path(folder).read_bytes()
        except FileNotFoundError:
            return None
        return _parse_record(data, folder)

    def put(self, folder: str, record: SnapshotRecord) -> None:
        """Remember a folder; the last one who does wins."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        items = [[item.path, item.kind, list(item.stamp), item.why, item.target] for item in record.items]
        value = {
            "version": _VERSION,
            "folder": folder,
            "digest": record.digest,
            "files": record.files,
            "size": record.size,
            "settled": record.settled,
            "items": items,
        }
        replace_file(self._path(folder), json.dumps(value).encode("ascii"))

    def prune(self, digests: Set[str]) -> None:
        """Remove the records of snapshots that are not there any more."""
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
        items = [
            SnapshotEntry(str(path), SnapshotEntryKind(kind), tuple(map(int, stamp)), str(why), str(target))
            for path, kind, stamp, why, target in value["items"]
        ]
        numbers = int(value["files"]), int(value["size"])
        return SnapshotRecord(items, str(value["digest"]), *numbers, bool(value["settled"]))
    except (ValueError, TypeError, KeyError):
        return None


MAX_WARNINGS = 20

_DIGEST = re.compile(r"[0-9a-f]{64}")
_REFRESH_SECONDS = 60.0


class SnapshotStore:
    """A directory of snapshots. Any number of processes may use it at once; the first use makes it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._records = SnapshotRecords(root / ".records")
        self._known: dict[str, SnapshotRecord] = {}
        self._lock = threading.Lock()

    def path(self, digest: str) -> Path:
        """Where the snapshot of this digest is, or would be. Raises `InvalidArgument` for what is no digest."""
        if not _DIGEST.fullmatch(digest):
            raise InvalidArgument("digest", f"{digest[:80]!r} is no digest of a snapshot")
        return self._root / digest

    def take(self, name: str, directory: Path) -> SkillSnapshot:
        """A snapshot of a skill's folder. Files are read only when something in the folder has changed.

        Left out, with a warning: links that leave the folder or lead to a directory that they do not name plainly, what
        is neither file nor directory, and names that a workspace needs itself. Raises `InvalidSkill` for what cannot be
        read, `LimitExceeded` for what is too much.
        """
        check_skill_name(name)
        folder = os.path.abspath(directory)
        now = time.time_ns()
        items = scan_folder(folder)
        record = self._find_record(folder)
        if record is None or record.items != items or not record.settled or not self._has_snapshot(record.digest):
            record = self._build(folder, items, settled=all(is_settled(item.stamp, now) for item in items))
            self._records.put(folder, record)
            with self._lock:
                self._known[folder] = record
        return SkillSnapshot(name, record.digest, record.files, record.size, _describe_exclusions(items))

    def sweep(self, keep: Set[str], *, older_than: float) -> int:
        """Remove snapshots that are not to be kept and were not taken for `older_than` seconds, and what somebody began
        to build before that and never finished. Says how many were removed."""
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

    def _find_record(self, folder: str) -> SnapshotRecord | None:
        with self._lock:
            record = self._known.get(folder)
        if record is None:
            record = self._records.get(folder)
            if record is not None:
                with self._lock:
                    self._known[folder] = record
        return record

    def _has_snapshot(self, digest: str) -> bool:
        """Whether a snapshot can be used; its time says that it was, so that no sweep takes it away."""
        path = self._root / digest
        try:
            if time.time() - path.stat().st_mtime > _REFRESH_SECONDS:
                os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def _build(self, folder: str, items: list[SnapshotEntry], *, settled: bool) -> SnapshotRecord:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = self._root / (TEMPORARY_PREFIX + secrets.token_hex(8))
        try:
            copy = copy_entries(folder, items, aside)
            self._publish(aside, copy.digest)
        finally:
            with auto_close(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
                remove_entry(root, aside.name)
        return SnapshotRecord(items, copy.digest, copy.files, copy.size, settled)

    def _publish(self, aside: Path, digest: str) -> None:
        target = self._root / digest
        if self._has_snapshot(digest):
            return
        # Fails when somebody else was faster: a directory that holds something is not replaced.
        with suppress(OSError):
            os.rename(aside, target)
        if not target.is_dir():
            raise SkillError(f"a snapshot cannot be kept in {self._root}; is the disk full?")
        with auto_close(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
            os.fsync(root)


def check_skill_name(name: str) -> str:
    """The same name; raises `InvalidArgument` for what cannot be the name of a directory."""
    unsafe = describe_unsafe(name) or ("begins with a dot" if name.startswith(".") else "")
    if unsafe or not name or len(os.fsencode(name)) > 255:
        raise InvalidArgument("skill", f"the name {name[:80]!r} {unsafe or 'is empty or too long'}; rename the skill")
    return name


def _describe_exclusions(items: list[SnapshotEntry]) -> tuple[str, ...]:
    left_out = [f"{to_printable(item.path)} {item.why}" for item in items if item.kind is SnapshotEntryKind.EXCLUDED]
    more = len(left_out) - MAX_WARNINGS
    return (*left_out[:MAX_WARNINGS], *([f"and {more} more are left out"] if more > 0 else []))


def _measure_age(root: int, entry: str) -> float:
    try:
        return time.time() - os.stat(entry, dir_fd=root, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return -1.0


def _remove_stale(root: int, entry: str) -> bool:
    # Under another name first: nobody must find half of it.
    leaving = TEMPORARY_PREFIX + secrets.token_hex(8)
    with suppress(FileNotFoundError):
        os.rename(entry, leaving, src_dir_fd=root, dst_dir_fd=root)
        return remove_entry(root, leaving)
    return False
