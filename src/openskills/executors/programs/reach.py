"""Standalone program that makes directories reachable for every user, in its own mount namespace.

    python -I -S reach.py COVERS DIRECTORIES PROGRAM ARGUMENTS…

Each of COVERS (a JSON list) is hidden behind an empty directory that can be traversed but not listed, and each of
DIRECTORIES is mounted again at its own path below. Unrelated file systems are unmounted, because sandboxes that are
created from here read the list of mounts many times. It needs root, and imports nothing of ours.
"""

import ctypes
import json
import os
import sys

_NEW_MOUNTS = 0x00020000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
_NOSUID, _NODEV = 2, 4
_DETACH = 2
_SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/dev", "/proc", "/tmp")  # noqa: S108
_NOT_NEEDED = ("/dev/shm", "/dev/mqueue", "/dev/hugepages")  # noqa: S108

_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: "bytes | None", target: str, kind: "bytes | None", flags: int, data: "bytes | None" = None) -> None:
    if _libc.mount(source, target.encode(), kind, ctypes.c_ulong(flags), data):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _enter_mount_namespace(covers: "list[str]", directories: "list[str]") -> None:
    if _libc.unshare(_NEW_MOUNTS):
        number = ctypes.get_errno()
        if not covers:
            return
        raise OSError(number, os.strerror(number), covers[0])
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    hidden = [directory for directory in directories if any(_is_below(directory, cover) for cover in covers)]
    opened = [os.open(directory, os.O_PATH | os.O_DIRECTORY) for directory in hidden]
    for cover in covers:
        _mount(b"tmpfs", cover, b"tmpfs", _NOSUID | _NODEV, b"mode=711,size=1m")
    for directory, descriptor in zip(hidden, opened, strict=True):
        os.makedirs(directory, mode=0o711, exist_ok=True)
        _mount(f"/proc/self/fd/{descriptor}".encode(), directory, None, _BIND | _RECURSIVE)
        os.close(descriptor)
    needed = [*covers, *directories, *_SYSTEM]
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mounted = [line.split()[4] for line in file]
    for point in sorted(mounted, key=len, reverse=True):
        # The usual mounts below /dev are needed only if one of the directories is there.
        paths = directories if point in _NOT_NEEDED else needed
        used = any(_is_below(path, point) or _is_below(point, path) for path in paths)
        # A mount that cannot be removed only costs time.
        if not used:
            _libc.umount2(os.fsencode(point), _DETACH)


def _is_below(path: str, other: str) -> bool:
    return path == other or path.startswith(other.rstrip("/") + "/")


if __name__ == "__main__":
    os.umask(0o066)
    try:
        _enter_mount_namespace(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
    except OSError as error:
        sys.exit(f"cannot make {error.filename or 'a mount namespace'} reachable for another user: {error.strerror}")
    os.execv(sys.argv[3], sys.argv[3:])  # noqa: S606 - the given program
