"""A listening socket inside the network namespace of a sandbox, held by this process outside."""

import asyncio
import socket
import struct
import sys
from pathlib import Path
from typing import Final

from openskills.artifacts.threads import to_the_end
from openskills.child import begin
from openskills.errors import ExecutorUnavailable

PROGRAM: Final = Path(__file__).parents[1] / "inside" / "netns_listen.py"
PORT: Final = 3128
"""A new namespace has nobody on any port, so the number can be known before there is one."""

_PATIENCE = 10.0
_INT = struct.Struct("i")


async def listen_inside(pid: int, *, uid: int | None, port: int = PORT) -> socket.socket:
    """A socket that listens on 127.0.0.1 of the sandbox: who is inside connects, and we accept out here.

    `pid` is a process in the sandbox, or the one outside that made it (bwrap). `uid` is the user that made it, when
    that is somebody else than we are. Raises `ExecutorUnavailable` when there is no such namespace or it cannot be
    entered; it never listens in our own.
    """
    words = (str(word) for word in (pid, -1 if uid is None else uid, port))
    helper = begin([sys.executable, "-I", "-S", str(PROGRAM), *words], {})
    found: list[socket.socket] = []
    try:
        try:
            answer = await _answer(helper.connection, found)
        finally:
            await to_the_end(helper.end)
    except BaseException:
        for listener in found:
            listener.close()
        raise
    if found:
        return found[0]
    reason = answer.decode("utf-8", "replace") or "the program that enters its namespace has failed"
    raise ExecutorUnavailable(f"the sandbox cannot be connected to the network proxy: {reason}")


async def _answer(connection: socket.socket, found: list[socket.socket]) -> bytes:
    """What the program said; the socket that it sent goes into `found`."""
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    arrived = asyncio.Event()
    loop.add_reader(connection, arrived.set)
    try:
        async with asyncio.timeout(_PATIENCE):
            await arrived.wait()
        # Not recv_fds(), which forgets the flags: for a moment every new child would inherit the socket.
        answer, ancillary, _, _ = connection.recvmsg(1000, socket.CMSG_SPACE(_INT.size), socket.MSG_CMSG_CLOEXEC)
    except TimeoutError:
        return f"no answer within {_PATIENCE:g} seconds".encode()
    except OSError as error:
        return str(error).encode()
    finally:
        loop.remove_reader(connection)
    for _, _, data in ancillary:
        found += [socket.socket(fileno=descriptor) for (descriptor,) in _INT.iter_unpack(data)]
    return answer
