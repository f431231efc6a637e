"""A small program that opens a listening socket inside another process's network namespace, hands it over and ends.

It runs by itself (`python -I -S netns_listen.py PID UID PORT FD`), so it imports nothing of ours. It has one thread,
because only such a process may change its user namespace. What goes over FD: one zero byte with the socket, or the
reason why there is none.
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
    """A socket that listens on the loopback of the sandbox that this process is, or that it has started."""
    net = _open_namespace(pid)
    owner = fcntl.ioctl(net, _NS_GET_USERNS)
    if uid >= 0:
        # From here on this is the user who made the sandbox, and has power over nothing else.
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
    """The network namespace of the process or of its child; never our own, where everybody could connect."""
    for candidate in (pid, *_list_children(pid)):
        namespace = os.open(f"/proc/{candidate}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        if not _is_same_namespace(namespace, "/proc/self/ns/net"):
            return namespace
        os.close(namespace)
    raise OSError(f"process {pid} has no network namespace of its own")


def _list_children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def _is_same_namespace(namespace: int, path: str) -> bool:
    return os.path.samestat(os.fstat(namespace), os.stat(path))


def _enter_namespace(namespace: int, kind: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, kind):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot enter the namespace: {os.strerror(number)}")


def main(pid: int, uid: int, port: int, descriptor: int) -> None:
    """Answer on the descriptor, and end."""
    connection = socket.socket(fileno=descriptor)
    try:
        listener = open_listener(pid, uid, port)
    except OSError as error:
        connection.sendall(str(error).encode("utf-8", "replace")[:1000])
    else:
        socket.send_fds(connection, [b"\0"], [listener.fileno()])


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:5]))
