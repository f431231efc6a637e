"""Standalone program that lets another user write to directories of root, in its own mount namespace.

    python -I -S idmap.py UID DIRECTORIES PROGRAM ARGUMENTS…

Each of DIRECTORIES (a JSON list) is mounted over itself, so that files of root belong to UID there, and files that UID
creates belong to root. It runs in a mount namespace of its own (`reach.py`). If the kernel or the file system does not
support this, nothing is changed, and UID cannot write. It needs root, and imports nothing of ours.
"""

import ctypes
import json
import os
import sys

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CLONE, _CLOEXEC, _EMPTY_PATH, _FROM_EMPTY_PATH, _RECURSIVE = 1, 0o2000000, 0x1000, 4, 0x8000
_IDMAP = 0x00100000
_NEW_USERS = 0x10000000
_HERE = -100
_LAST = 2**32 - 2

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "users")]


def _call_kernel(number: int, *arguments: object) -> int:
    result = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)


def open_user_namespace(uid: int) -> int:
    """A descriptor of a user namespace that maps root to `uid`, and every other user to itself."""
    ready, go = os.pipe()
    said, saying = os.pipe()
    child = os.fork()
    if child == 0:
        done = _libc.unshare(_NEW_USERS)
        os.write(saying, b"." if done == 0 else b"!")
        os.close(go)
        os.read(ready, 1)
        os._exit(0)
    try:
        if os.read(said, 1) != b".":
            raise OSError("user namespaces are not available")
        lines = f"0 {uid} 1\n1 1 {uid - 1}\n{uid + 1} {uid + 1} {_LAST - uid}\n".encode()
        for name in ("uid_map", "gid_map"):
            descriptor = os.open(f"/proc/{child}/{name}", os.O_WRONLY)
            os.write(descriptor, lines)
            os.close(descriptor)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for descriptor in (ready, go, said, saying):
            os.close(descriptor)
        os.waitpid(child, 0)


def mount_idmapped(directory: str, users: int) -> None:
    """Mount a directory over itself with the owners of that namespace."""
    path = os.fsencode(directory)
    tree = _call_kernel(_OPEN_TREE, _HERE, path, ctypes.c_uint(_CLONE | _CLOEXEC | _RECURSIVE))
    try:
        wanted = _MountAttributes(_IDMAP, 0, 0, users)
        size = ctypes.c_size_t(ctypes.sizeof(wanted))
        _call_kernel(_MOUNT_SETATTR, tree, b"", ctypes.c_uint(_EMPTY_PATH | _RECURSIVE), ctypes.byref(wanted), size)
        _call_kernel(_MOVE_MOUNT, tree, b"", _HERE, path, ctypes.c_uint(_FROM_EMPTY_PATH))
    finally:
        os.close(tree)


if __name__ == "__main__":
    try:
        namespace = open_user_namespace(int(sys.argv[1]))
        for one in json.loads(sys.argv[2]):
            mount_idmapped(one, namespace)
    except OSError as error:
        sys.stderr.write(f"cannot make directories of root writable: {error}\n")
    os.execv(sys.argv[3], sys.argv[3:])  # noqa: S606 - the given program
