"""The system files that a sandbox sees: visible directories, and a generated `/etc`. Blocking.

`/etc` contains our own users and the world-readable parts of the machine's `/etc`; links are copied, not followed. Each
version is stored under the digest of its entries, built aside and renamed atomically. Users hold a shared lock, so that
no process removes it; any number of processes may share a store.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from openskills.concurrency import CrossLoopLock, run_in_thread
from openskills.errors import ExecutorUnavailable
from openskills.executors.bubblewrap.profile import HOME, USER, VisibleSystem
from openskills.executors.files.descriptors import auto_close, remove_entry
from openskills.filesystem import TEMPORARY_PREFIX

ETC = "/etc"
EtcEntry = bytes | str | None
"""The content of a file, the target of a link, or None for a directory."""
EtcEntries = Mapping[str, EtcEntry]
"""Entries by their paths below `/etc`; parent directories are implied."""

DIRECTORIES = (
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ca-certificates/extracted",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
)
FILES = ("/etc/ld.so.cache", "/etc/ssl/openssl.cnf", "/etc/localtime")

_MAX_FILE, _MAX_ENTRIES = 8 * 1024 * 1024, 10_000
# Each link costs time, and manual pages are not needed in a sandbox.
_MANUALS = "/usr/share/man/"
_VERSION = b"1"
_ROOT, _NOBODY = "root:x:0:0::/:/usr/sbin/nologin\n", "nobody:x:65534:65534::/:/usr/sbin/nologin\n"
_OURS: Mapping[str, str] = {
    "passwd": f"{_ROOT}u:x:{USER}:{USER}::{HOME}:/bin/bash\n{_NOBODY}",
    "group": f"root:x:0:\nu:x:{USER}:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
}


def collect_etc_entries(more: EtcEntries, etc: str = ETC) -> dict[str, EtcEntry]:
    """All entries for `/etc`; `more` has absolute paths as the sandbox sees them.

    Special files, files that are not world-readable, and files of more than 8 MiB are left out.
    """
    entries: dict[str, EtcEntry] = {}
    for directory in DIRECTORIES:
        entries.update(_read_public_tree(_strip_etc(directory), etc))
    for path in FILES:
        entries.update(_read_public_entry(_strip_etc(path), etc))
    entries.update((name, text.encode()) for name, text in _OURS.items())
    entries.update((_strip_etc(path), entry) for path, entry in more.items())
    return entries


def digest_entries(entries: EtcEntries) -> str:
    """The digest of exactly these entries, the same on every machine."""
    found = hashlib.sha256(_VERSION)
    for path, entry in sorted(entries.items()):
        kind = b"d" if entry is None else b"l" if isinstance(entry, str) else b"f"
        content = entry if isinstance(entry, bytes) else os.fsencode(entry or "")
        found.update(b"%s%s\0%s" % (kind, os.fsencode(path), hashlib.sha256(content).digest()))
    return found.hexdigest()


def _strip_etc(path: str) -> str:
    return path.removeprefix(f"{ETC}/")


def _read_public_tree(name: str, etc: str) -> Iterator[tuple[str, EtcEntry]]:
    """The entries of a directory, which may itself be behind a link."""
    real = os.path.realpath(f"{etc}/{name}")
    if not os.path.isdir(real) or not _has_permissions(os.stat(real), stat.S_IROTH) or not _is_open(real):
        return
    waiting, seen = [(real, name)], 0
    while waiting:
        directory, prefix = waiting.pop()
        with os.scandir(directory) as found:
            for entry in sorted(found, key=lambda one: one.name):
                seen += 1
                if seen > _MAX_ENTRIES:
                    return
                path = f"{prefix}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if _has_permissions(entry.stat(follow_symlinks=False), stat.S_IROTH | stat.S_IXOTH):
                        waiting.append((entry.path, path))
                else:
                    yield from _read_entry(entry.path, path)


def _read_public_entry(name: str, etc: str) -> Iterator[tuple[str, EtcEntry]]:
    """One file, or a link into /usr; other links are followed if the target is accessible to everyone."""
    path = f"{etc}/{name}"
    if os.path.islink(path) and not os.path.realpath(path).startswith("/usr/"):
        path = os.path.realpath(path)
    if os.path.lexists(path) and _is_open(os.path.realpath(os.path.dirname(path))):
        yield from _read_entry(path, name)


def _read_entry(path: str, name: str) -> Iterator[tuple[str, EtcEntry]]:
    if os.path.islink(path):
        target = os.readlink(path)
        if not target.startswith(_MANUALS):
            yield name, target
    elif (data := _read_public_bytes(path)) is not None:
        yield name, data


def _read_public_bytes(path: str) -> bytes | None:
    # Opened before it is checked, without blocking: it may be a pipe.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with auto_close(descriptor):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _has_permissions(status, stat.S_IROTH) or status.st_size > _MAX_FILE:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(_MAX_FILE)


def _is_open(directory: str) -> bool:
    """Whether a directory, given by its real path, is accessible to all users of the machine."""
    return all(_has_permissions(os.stat(step), stat.S_IXOTH) for step in (directory, *Path(directory).parents))


def _has_permissions(status: os.stat_result, permissions: int) -> bool:
    return status.st_mode & permissions == permissions


ETC_STORE_NAME = ".system"
"""The name of the store in the directory of the workspaces, so that it is accessible with them."""

MAX_UNUSED_SECONDS = 24 * 60 * 60.0
"""The age after its last use at which an unused directory is removed."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY, _FILE = 0o555, 0o444
_TRIES = 20


class EtcStore:
    """The generated `/etc` directories below `root`, which is created if missing."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, entries: EtcEntries) -> int:
        """Open or create a world-readable directory with exactly these entries; the caller closes the descriptor.

        Raises `ExecutorUnavailable` if it cannot be created.
        """
        name = digest_entries(entries)
        try:
            self._root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root.mkdir(mode=0o700, exist_ok=True)
            # It only contains public files, and sandboxes run as other users.
            self._root.chmod(0o755)
            for _ in range(_TRIES):
                with suppress(FileNotFoundError):
                    return _open_locked(self._root / name)
                with suppress(FileExistsError):
                    return self._build(entries, name)
        except OSError as error:
            why = error.strerror or str(error)
            raise ExecutorUnavailable(f"cannot store the /etc of sandboxes in {self._root}: {why}") from error
        raise ExecutorUnavailable(f"the /etc of sandboxes is repeatedly removed from {self._root}")

    def sweep(self, *, older_than: float = MAX_UNUSED_SECONDS) -> int:
        """Remove directories that are not in use and were not opened for `older_than` seconds, and unfinished ones
        after a day. Returns the number removed."""
        removed = 0
        with auto_close(os.open(self._root, _READ)) as root:
            for name in os.listdir(root):
                if _DIGEST.fullmatch(name):
                    removed += _remove_unused(root, name, older_than)
                elif name.startswith(TEMPORARY_PREFIX):
                    removed += _remove_unused(root, name, MAX_UNUSED_SECONDS)
        return removed

    def _build(self, entries: EtcEntries, name: str) -> int:
        """Create a directory under this name; raises `FileExistsError` if another process was faster."""
        aside = TEMPORARY_PREFIX + secrets.token_hex(8)
        with auto_close(os.open(self._root, _READ)) as root:
            try:
                _write_entries(self._root / aside, entries)
                # Locked before it gets its name, so that it cannot be removed before we return.
                descriptor = _open_locked(self._root / aside)
                try:
                    _publish(root, aside, name)
                except BaseException:
                    os.close(descriptor)
                    raise
            finally:
                remove_entry(root, aside)
        # The next sweep tries again.
        with suppress(OSError):
            self.sweep()
        return descriptor


def _open_locked(path: Path) -> int:
    """Open a directory and lock it against removal; raises `FileNotFoundError`."""
    descriptor = os.open(path, _READ)
    try:
        # Some file systems have no locks.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.utime(descriptor)
        _check_name(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_name(path: Path, descriptor: int) -> None:
    """Raise `FileNotFoundError` for a directory that was renamed, and so is being removed."""
    if not os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor)):
        raise FileNotFoundError(errno.ENOENT, "it was removed", str(path))


def _publish(root: int, aside: str, name: str) -> None:
    try:
        os.rename(aside, name, src_dir_fd=root, dst_dir_fd=root)
    except OSError as error:
        # A directory that is not empty is not replaced.
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise FileExistsError(errno.EEXIST, "another process was faster", name) from error
        raise
    os.fsync(root)


def _write_entries(target: Path, entries: EtcEntries) -> None:
    """Create a durable directory of these entries, regardless of the umask."""
    found = {"."}
    for path, entry in entries.items():
        parts = path.split("/")
        last = len(parts) if entry is None else len(parts) - 1
        found.update("/".join(parts[: count + 1]) for count in range(last))
    directories = sorted(found, key=lambda path: (path != ".", path))  # parents first
    for directory in directories:
        (target / directory).mkdir(mode=0o700)
    for path, entry in entries.items():
        if isinstance(entry, str):
            os.symlink(entry, target / path)
        elif entry is not None:
            _write_file(target / path, entry)
    for directory in reversed(directories):
        with auto_close(os.open(target / directory, _READ)) as descriptor:
            os.fchmod(descriptor, _DIRECTORY)
            os.fsync(descriptor)


def _write_file(path: Path, data: bytes) -> None:
    with auto_close(os.open(path, _NEW, 0o600)) as descriptor:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.fchmod(descriptor, _FILE)
        os.fsync(descriptor)


def _remove_unused(root: int, name: str, older_than: float) -> bool:
    with suppress(FileNotFoundError, BlockingIOError):
        with auto_close(os.open(name, _READ, dir_fd=root)) as descriptor:
            if time.time() - os.fstat(descriptor).st_mtime < older_than:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Since it was opened, another process may have removed it and a third one may have made it again.
            if not os.path.samestat(os.stat(name, dir_fd=root, follow_symlinks=False), os.fstat(descriptor)):
                return False
            # Renamed first, so that no process finds a partial directory.
            leaving = TEMPORARY_PREFIX + secrets.token_hex(8)
            os.rename(name, leaving, src_dir_fd=root, dst_dir_fd=root)
        return remove_entry(root, leaving)
    return False


class EtcCache:
    """The open `/etc` directories of a backend, one per store; `more` are additional entries."""

    def __init__(self, more: EtcEntries) -> None:
        self._more = more
        self._held: dict[Path, int] = {}
        self._replaced: list[int] = []
        self._opening = CrossLoopLock()

    async def get_descriptor(self, store: Path) -> int:
        """The descriptor of the directory in this store, which the cache closes. It is created again if removed.

        Raises `ExecutorUnavailable` if it cannot be created.
        """
        found = self._held.get(store)
        if found is not None and not _is_gone(found):
            return found
        async with self._opening:
            found = self._held.get(store)
            if found is None or _is_gone(found):
                self._held[store] = await run_in_thread(lambda: EtcStore(store).open(self._entries), undo=os.close)
                if found is not None:
                    # A caller may be about to use it.
                    self._replaced.append(found)
            return self._held[store]

    def close(self) -> None:
        """Close all descriptors."""
        for descriptor in (*self._held.values(), *self._replaced):
            os.close(descriptor)
        self._held.clear()
        self._replaced.clear()

    @cached_property
    def _entries(self) -> EtcEntries:
        return collect_etc_entries(self._more)


def _is_gone(descriptor: int) -> bool:
    return os.fstat(descriptor).st_nlink == 0


_PROGRAMS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

_HIDDEN = ("/proc/keys",)
"""Kernel keys of the user, which are not confined by namespaces."""


def find_visible_system(read_only: Sequence[Path]) -> VisibleSystem:
    """The parts of the system that every command sees, and `read_only` directories at their own paths."""
    binds = ["/usr"]
    links: list[tuple[str, str]] = []
    for path in _PROGRAMS:
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.exists(path):
            binds.append(path)
    for path in map(str, read_only):
        real = os.path.realpath(path)
        if not any(Path(real).is_relative_to(bind) for bind in binds):
            binds.append(real)
        if real != path and not any(Path(path).is_relative_to(bind) for bind in binds):
            links.append((real, path))
    # With a root host, each session has its own user, without keys.
    hidden = () if os.geteuid() == 0 else tuple(filter(os.path.exists, _HIDDEN))
    outside = tuple((target, path) for target, path in links if not _is_in_etc(path))
    places = ((path, None) for path in binds if _is_in_etc(path))
    linked = ((path, target) for target, path in links if _is_in_etc(path))
    return VisibleSystem(tuple(binds), outside, hidden, (*places, *linked))


def _is_in_etc(path: str) -> bool:
    return path.startswith(f"{ETC}/")
