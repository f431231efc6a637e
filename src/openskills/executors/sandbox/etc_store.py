"""Directories that sandboxes have as their `/etc`, each kept under the digest of what is in it. Blocking.

Any number of processes may use the store at once. A directory is built beside its place and gets its name in one step,
so whoever finds the name finds all of it. Who uses one has a shared lock on it, and nobody removes it meanwhile.
"""

import errno
import fcntl
import os
import re
import secrets
import time
from contextlib import suppress
from pathlib import Path

from openskills.errors import ExecutorUnavailable
from openskills.executors.files.openat2 import opened
from openskills.executors.files.removal import remove_entry
from openskills.executors.sandbox.etc_entries import Entries, digest
from openskills.files import ARRIVING

NAME = ".system"
"""The store's own name in the directory of the workspaces: who gets to these gets to it."""

FORGOTTEN = 24 * 60 * 60.0
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

    def open(self, entries: Entries) -> int:
        """A descriptor of a directory that holds exactly these entries, readable for everybody. It is the caller's.

        Raises `ExecutorUnavailable` when there is none and none can be made.
        """
        name = digest(entries)
        try:
            # What it lies in is for us alone, as long as nobody opens it.
            self._root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root.mkdir(mode=0o700, exist_ok=True)
            # Only what everybody may see is in it, and those who are to see it are not us.
            self._root.chmod(0o755)
            for _ in range(_TRIES):
                with suppress(FileNotFoundError):
                    return _held(self._root / name)
                with suppress(FileExistsError):
                    return self._built(entries, name)
        except OSError as error:
            why = error.strerror or str(error)
            raise ExecutorUnavailable(f"what sandboxes see as /etc cannot be kept in {self._root}: {why}") from error
        raise ExecutorUnavailable(f"what sandboxes see as /etc is removed from {self._root} again and again")

    def sweep(self, *, older_than: float = FORGOTTEN) -> int:
        """Remove what nobody uses and nobody has begun to use for so long, and what somebody began to build a day ago
        and never finished. Says how many were removed."""
        removed = 0
        with opened(os.open(self._root, _READ)) as root:
            for name in os.listdir(root):
                if _DIGEST.fullmatch(name):
                    removed += _is_removed(root, name, older_than)
                elif name.startswith(ARRIVING):
                    removed += _is_removed(root, name, FORGOTTEN)
        return removed

    def _built(self, entries: Entries, name: str) -> int:
        """A new directory under this name; raises `FileExistsError` when somebody else was faster."""
        aside = ARRIVING + secrets.token_hex(8)
        with opened(os.open(self._root, _READ)) as root:
            try:
                _write(self._root / aside, entries)
                # Held before it has its name: nobody has removed it when we return.
                descriptor = _held(self._root / aside)
                try:
                    _give_name(root, aside, name)
                except BaseException:
                    os.close(descriptor)
                    raise
            finally:
                remove_entry(root, aside)
        # What cannot be removed now is there at the next sweep.
        with suppress(OSError):
            self.sweep()
        return descriptor


def _held(path: Path) -> int:
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


def _give_name(root: int, aside: str, name: str) -> None:
    try:
        os.rename(aside, name, src_dir_fd=root, dst_dir_fd=root)
    except OSError as error:
        # A directory that holds something is not replaced.
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise FileExistsError(errno.EEXIST, "somebody else was faster", name) from error
        raise
    os.fsync(root)


def _write(target: Path, entries: Entries) -> None:
    """Make a directory of these entries that survives a power cut, whatever mask this process has for modes."""
    directories = _directories(entries)
    for directory in directories:
        (target / directory).mkdir(mode=0o700)
    for path, entry in entries.items():
        if isinstance(entry, str):
            os.symlink(entry, target / path)
        elif entry is not None:
            _write_file(target / path, entry)
    for directory in reversed(directories):
        with opened(os.open(target / directory, _READ)) as descriptor:
            os.fchmod(descriptor, _DIRECTORY)
            os.fsync(descriptor)


def _write_file(path: Path, data: bytes) -> None:
    with opened(os.open(path, _NEW, 0o600)) as descriptor:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.fchmod(descriptor, _FILE)
        os.fsync(descriptor)


def _directories(entries: Entries) -> list[str]:
    """All directories, each after the one that it lies in."""
    found = {"."}
    for path, entry in entries.items():
        parts = path.split("/")
        last = len(parts) if entry is None else len(parts) - 1
        found.update("/".join(parts[: count + 1]) for count in range(last))
    return sorted(found, key=lambda path: (path != ".", path))


def _is_removed(root: int, name: str, older_than: float) -> bool:
    with suppress(FileNotFoundError, BlockingIOError):
        with opened(os.open(name, _READ, dir_fd=root)) as descriptor:
            if time.time() - os.fstat(descriptor).st_mtime < older_than:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Under another name first: nobody must find half of it.
            leaving = ARRIVING + secrets.token_hex(8)
            os.rename(name, leaving, src_dir_fd=root, dst_dir_fd=root)
        return remove_entry(root, leaving)
    return False
