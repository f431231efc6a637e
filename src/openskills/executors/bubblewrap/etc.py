"""/etc of a sandbox.

What the `/etc` of a sandbox holds: users of its own, and the public parts of the machine's. Blocking.

Links stay links, so nothing is followed to where it leads; files are taken that everybody on the machine may read.

Directories that sandboxes have as their `/etc`, each kept under the digest of what is in it. Blocking.

Any number of processes may use the store at once. A directory is built beside its place and gets its name in one step,
so whoever finds the name finds all of it. Who uses one has a shared lock on it, and nobody removes it meanwhile.

The `/etc` of a backend's sandboxes: made when it is first needed, and held as long as the backend lives.

What of this machine the commands in a sandbox may see. Blocking, once per executor.

What they see of `/etc` is a copy: see `collect_etc_entries.py`.
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
from pathlib import Path

from openskills.concurrency import CrossLoopLock, run_in_thread
from openskills.errors import ExecutorUnavailable
from openskills.executors.bubblewrap.profile import HOME, USER, VisibleSystem
from openskills.executors.files.beneath import auto_close, remove_entry
from openskills.filesystem import TEMPORARY_PREFIX

ETC = "/etc"
EtcEntry = bytes | str | None
"""A file with this content, a link that leads there, or a directory."""
EtcEntries = Mapping[str, EtcEntry]
"""Entries by their paths below `/etc`. The directories on the way to them go without saying."""

DIRECTORIES = (
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ca-certificates/extracted",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
)
FILES = ("/etc/ld.so.cache", "/etc/ssl/openssl.cnf", "/etc/localtime")

_MAX_FILE, _MAX_ENTRIES = 8 * 1024 * 1024, 10_000
# Each link costs time when the copy is made, and nobody reads manuals in a sandbox.
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
    """Everything that `/etc` is to hold; `more` has paths as the sandbox sees them.

    Files that are no regular ones, that not everybody may read, or of more than 8 MiB are left out.
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
    """Names exactly these entries: the same on every machine."""
    found = hashlib.sha256(_VERSION)
    for path, entry in sorted(entries.items()):
        kind = b"d" if entry is None else b"l" if isinstance(entry, str) else b"f"
        content = entry if isinstance(entry, bytes) else os.fsencode(entry or "")
        found.update(b"%s%s\0%s" % (kind, os.fsencode(path), hashlib.sha256(content).digest()))
    return found.hexdigest()


def _strip_etc(path: str) -> str:
    return path.removeprefix(f"{ETC}/")


def _read_public_tree(name: str, etc: str) -> Iterator[tuple[str, EtcEntry]]:
    """What a directory holds, which may itself be behind a link, as on some systems."""
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
    """One file, or a link to what is shown anyway; behind another link only when everybody gets there."""
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
    # Opened before it is looked at, and without waiting: it may be a pipe.
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
    """Whether everybody on this machine gets into a directory, given by its real path."""
    return all(_has_permissions(os.stat(step), stat.S_IXOTH) for step in (directory, *Path(directory).parents))


def _has_permissions(status: os.stat_result, permissions: int) -> bool:
    return status.st_mode & permissions == permissions


ETC_STORE_NAME = ".system"
"""The store's own name in the directory of the workspaces: who gets to these gets to it."""

MAX_UNUSED_SECONDS = 24 * 60 * 60.0
"""For how many seconds nobody must have begun to use a directory before it is removed."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY, _FILE = 0o555, 0o444
_TRIES = 20


class EtcStore:
    """The directories below `root`, which is made when it is missing."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, entries: EtcEntries) -> int:
        """A descriptor of a directory that holds exactly these entries, readable for everybody. It is the caller's.

        Raises `ExecutorUnavailable` when there is none and none can be made.
        """
        name = digest_entries(entries)
        try:
            # What it lies in is for us alone, as long as nobody opens it.
            self._root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root.mkdir(mode=0o700, exist_ok=True)
            # Only what everybody may see is in it, and those who are to see it are not us.
            self._root.chmod(0o755)
            for _ in range(_TRIES):
                with suppress(FileNotFoundError):
                    return _open_locked(self._root / name)
                with suppress(FileExistsError):
                    return self._build(entries, name)
        except OSError as error:
            why = error.strerror or str(error)
            raise ExecutorUnavailable(f"what sandboxes see as /etc cannot be kept in {self._root}: {why}") from error
        raise ExecutorUnavailable(f"what sandboxes see as /etc is removed from {self._root} again and again")

    def sweep(self, *, older_than: float = MAX_UNUSED_SECONDS) -> int:
        """Remove what nobody uses and nobody has begun to use for so long, and what somebody began to build a day ago
        and never finished. Says how many were removed."""
        removed = 0
        with auto_close(os.open(self._root, _READ)) as root:
            for name in os.listdir(root):
                if _DIGEST.fullmatch(name):
                    removed += _remove_unused(root, name, older_than)
                elif name.startswith(TEMPORARY_PREFIX):
                    removed += _remove_unused(root, name, MAX_UNUSED_SECONDS)
        return removed

    def _build(self, entries: EtcEntries, name: str) -> int:
        """A new directory under this name; raises `FileExistsError` when somebody else was faster."""
        aside = TEMPORARY_PREFIX + secrets.token_hex(8)
        with auto_close(os.open(self._root, _READ)) as root:
            try:
                _write_entries(self._root / aside, entries)
                # Held before it has its name: nobody has removed it when we return.
                descriptor = _open_locked(self._root / aside)
                try:
                    _publish(root, aside, name)
                except BaseException:
                    os.close(descriptor)
                    raise
            finally:
                remove_entry(root, aside)
        # What cannot be removed now is there at the next sweep.
        with suppress(OSError):
            self.sweep()
        return descriptor


def _open_locked(path: Path) -> int:
    """A directory that nobody removes from now on; raises `FileNotFoundError`."""
    descriptor = os.open(path, _READ)
    try:
        # Some file systems have no locks; they keep what they have until a sweep comes in a bad moment.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.utime(descriptor)
        _check_name(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_name(path: Path, descriptor: int) -> None:
    """Raise `FileNotFoundError` for a directory that lost its name, and so will lose the rest."""
    if not os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor)):
        raise FileNotFoundError(errno.ENOENT, "somebody has removed it", str(path))


def _publish(root: int, aside: str, name: str) -> None:
    try:
        os.rename(aside, name, src_dir_fd=root, dst_dir_fd=root)
    except OSError as error:
        # A directory that holds something is not replaced.
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise FileExistsError(errno.EEXIST, "somebody else was faster", name) from error
        raise
    os.fsync(root)


def _write_entries(target: Path, entries: EtcEntries) -> None:
    """Make a directory of these entries that survives a power cut, whatever mask this process has for modes."""
    directories = _list_directories(entries)
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


def _list_directories(entries: EtcEntries) -> list[str]:
    """All directories, each after the one that it lies in."""
    found = {"."}
    for path, entry in entries.items():
        parts = path.split("/")
        last = len(parts) if entry is None else len(parts) - 1
        found.update("/".join(parts[: count + 1]) for count in range(last))
    return sorted(found, key=lambda path: (path != ".", path))


def _remove_unused(root: int, name: str, older_than: float) -> bool:
    with suppress(FileNotFoundError, BlockingIOError):
        with auto_close(os.open(name, _READ, dir_fd=root)) as descriptor:
            if time.time() - os.fstat(descriptor).st_mtime < older_than:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Under another name first: nobody must find half of it.
            leaving = TEMPORARY_PREFIX + secrets.token_hex(8)
            os.rename(name, leaving, src_dir_fd=root, dst_dir_fd=root)
        return remove_entry(root, leaving)
    return False


class EtcCache:
    """One directory for each store; `more` is what it holds besides the usual things."""

    def __init__(self, more: EtcEntries) -> None:
        self._more = more
        self._entries: EtcEntries | None = None
        self._held: dict[Path, int] = {}
        self._replaced: list[int] = []
        self._opening = CrossLoopLock()

    async def get_descriptor(self, store: Path) -> int:
        """The directory in this store; it stays ours. A new one when somebody has removed it.

        Raises `ExecutorUnavailable` when it cannot be made.
        """
        found = self._held.get(store)
        if found is not None and not _is_gone(found):
            return found
        async with self._opening:
            found = self._held.get(store)
            if found is None or _is_gone(found):
                self._held[store] = await run_in_thread(
                    lambda: EtcStore(store).open(self._load_entries()), undo=os.close
                )
                if found is not None:
                    # Somebody may be about to hand it on.
                    self._replaced.append(found)
            return self._held[store]

    def close(self) -> None:
        """Let all of them go."""
        for descriptor in (*self._held.values(), *self._replaced):
            os.close(descriptor)
        self._held.clear()
        self._replaced.clear()

    def _load_entries(self) -> EtcEntries:
        if self._entries is None:
            self._entries = collect_etc_entries(self._more)
        return self._entries


def _is_gone(descriptor: int) -> bool:
    return os.fstat(descriptor).st_nlink == 0


SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PROGRAMS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

_HIDDEN = ("/proc/keys",)
"""The names of a user's keys, which have no namespace."""


def find_visible_system(read_only: Sequence[Path]) -> VisibleSystem:
    """The parts of the system that every command sees, and `read_only` directories at the paths that they have here."""
    binds = ["/usr"]
    links: list[tuple[str, str]] = []
    for path in _PROGRAMS:
        _add_program_path(path, binds, links)
    for directory in read_only:
        _add_directory(str(directory), binds, links)
    # A user that a root host has for one session only has no keys.
    hidden = () if os.geteuid() == 0 else tuple(filter(os.path.exists, _HIDDEN))
    outside = tuple((target, path) for target, path in links if not _is_in_etc(path))
    places = ((path, None) for path in binds if _is_in_etc(path))
    linked = ((path, target) for target, path in links if _is_in_etc(path))
    return VisibleSystem(tuple(binds), outside, hidden, (*places, *linked))


def _is_in_etc(path: str) -> bool:
    return path.startswith(f"{ETC}/")


def _add_program_path(path: str, binds: list[str], links: list[tuple[str, str]]) -> None:
    if os.path.islink(path):
        links.append((os.readlink(path), path))
    elif os.path.exists(path):
        binds.append(path)


def _add_directory(path: str, binds: list[str], links: list[tuple[str, str]]) -> None:
    real = os.path.realpath(path)
    if not any(Path(real).is_relative_to(bind) for bind in binds):
        binds.append(real)
    if real != path and not any(Path(path).is_relative_to(bind) for bind in binds):
        links.append((real, path))
