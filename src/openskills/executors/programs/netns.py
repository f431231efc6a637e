"""Standalone program that opens a listening socket in another process's network namespace and passes it on.

It is run as `python -I -S netns.py PID UID PORT FD` and imports nothing of ours. It has one thread, which is required
to change the user namespace. It sends over FD one zero byte with the socket, or an error message.
"""

import ctypes
import fcntl
import os
import socket
import sys

_NS_GET_USERNS = 0xB701
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_WAITING = 128


def open_listener(pid: int, uid: int, port: int) -> socket.socket:
    """A socket that listens on the loopback interface of the sandbox that this process is, or has started."""
    net = _open_namespace(pid)
    owner = fcntl.ioctl(net, _NS_GET_USERNS)
    if uid >= 0:
        # Become the user of the sandbox, without any other privileges.
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    if not _is_same_namespace(owner, "/proc/self/ns/user"):
        _enter_namespace(owner, _CLONE_NEWUSER)
    _enter_namespace(net, _CLONE_NEWNET)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(_WAITING)
    return listener


def _open_namespace(pid: int) -> int:
    """The network namespace of the process or its child; never our own, where anyone could connect."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        children = [int(word) for word in file.read().split()]
    for candidate in (pid, *children):
        namespace = os.open(f"/proc/{candidate}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        if not _is_same_namespace(namespace, "/proc/self/ns/net"):
            return namespace
        os.close(namespace)
    raise OSError(f"process {pid} has no network namespace of its own")


def _is_same_namespace(namespace: int, path: str) -> bool:
    return os.path.samestat(os.fstat(namespace), os.stat(path))


def _enter_namespace(namespace: int, kind: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, kind):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot enter the namespace: {os.strerror(number)}")


def main(pid: int, uid: int, port: int, descriptor: int) -> None:
    """Send the socket or the error over the descriptor."""
    connection = socket.socket(fileno=descriptor)
    try:
        listener = open_listener(pid, uid, port)
    except OSError as error:
        connection.sendall(str(error).encode("utf-8", "replace")[:1000])
    else:
        socket.send_fds(connection, [b"\0"], [listener.fileno()])


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:5]))
