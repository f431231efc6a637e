"""What the `/etc` of a sandbox holds: users of its own, and the public parts of the machine's. Blocking.

Links stay links, so nothing is followed to where it leads; files are taken that everybody on the machine may read.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from openskills.executors.files.openat2 import opened
from openskills.executors.sandbox.bubblewrap import HOME, USER

ETC = "/etc"
Entry = bytes | str | None
"""A file with this content, a link that leads there, or a directory."""
Entries = Mapping[str, Entry]
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


def etc_entries(more: Entries, etc: str = ETC) -> dict[str, Entry]:
    """Everything that `/etc` is to hold; `more` has paths as the sandbox sees them.

    Files that are no regular ones, that not everybody may read, or of more than 8 MiB are left out.
    """
    entries: dict[str, Entry] = {}
    for directory in DIRECTORIES:
        entries.update(_public_tree(_below(directory), etc))
    for path in FILES:
        entries.update(_public_entry(_below(path), etc))
    entries.update((name, text.encode()) for name, text in _OURS.items())
    entries.update((_below(path), entry) for path, entry in more.items())
    return entries


def digest(entries: Entries) -> str:
    """Names exactly these entries: the same on every machine."""
    found = hashlib.sha256(_VERSION)
    for path, entry in sorted(entries.items()):
        kind = b"d" if entry is None else b"l" if isinstance(entry, str) else b"f"
        content = entry if isinstance(entry, bytes) else os.fsencode(entry or "")
        found.update(b"%s%s\0%s" % (kind, os.fsencode(path), hashlib.sha256(content).digest()))
    return found.hexdigest()


def _below(path: str) -> str:
    return path.removeprefix(f"{ETC}/")


def _public_tree(name: str, etc: str) -> Iterator[tuple[str, Entry]]:
    """What a directory holds, which may itself be behind a link, as on some systems."""
    real = os.path.realpath(f"{etc}/{name}")
    if not os.path.isdir(real) or not _may(os.stat(real), stat.S_IROTH) or not _is_open(real):
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
                    if _may(entry.stat(follow_symlinks=False), stat.S_IROTH | stat.S_IXOTH):
                        waiting.append((entry.path, path))
                else:
                    yield from _entry(entry.path, path)


def _public_entry(name: str, etc: str) -> Iterator[tuple[str, Entry]]:
    """One file, or a link to what is shown anyway; behind another link only when everybody gets there."""
    path = f"{etc}/{name}"
    if os.path.islink(path) and not os.path.realpath(path).startswith("/usr/"):
        path = os.path.realpath(path)
    if os.path.lexists(path) and _is_open(os.path.realpath(os.path.dirname(path))):
        yield from _entry(path, name)


def _entry(path: str, name: str) -> Iterator[tuple[str, Entry]]:
    if os.path.islink(path):
        target = os.readlink(path)
        if not target.startswith(_MANUALS):
            yield name, target
    elif (data := _public_bytes(path)) is not None:
        yield name, data


def _public_bytes(path: str) -> bytes | None:
    # Opened before it is looked at, and without waiting: it may be a pipe.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with opened(descriptor):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _may(status, stat.S_IROTH) or status.st_size > _MAX_FILE:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(_MAX_FILE)


def _is_open(directory: str) -> bool:
    """Whether everybody on this machine gets into a directory, given by its real path."""
    return all(_may(os.stat(step), stat.S_IXOTH) for step in (directory, *Path(directory).parents))


def _may(status: os.stat_result, permissions: int) -> bool:
    return status.st_mode & permissions == permissions
