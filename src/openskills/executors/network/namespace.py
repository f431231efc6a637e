"""Network namespace of one command.

A listening socket inside the network namespace of a sandbox, held by this process outside.

A way out of the sandbox for one command: the proxy of its allow-list, and nothing else.
"""

import asyncio
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Final

from openskills.concurrency import run_in_thread
from openskills.errors import ExecutorUnavailable
from openskills.executors.network.proxy import FilteringProxy
from openskills.executors.supervisor import SupervisedProcess
from openskills.subprocesses import start_helper

PROGRAM: Final = Path(__file__).parents[1] / "programs" / "netns.py"
PORT: Final = 3128
"""A new namespace has nobody on any port, so the number can be known before there is one."""

_TIMEOUT = 10.0
_INT = struct.Struct("i")


async def listen_inside(pid: int, *, uid: int | None, port: int = PORT) -> socket.socket:
    """A socket that listens on 127.0.0.1 of the sandbox: who is inside connects, and we accept out here.

    `pid` is a process in the sandbox, or the one outside that made it (bwrap). `uid` is the user that made it, when
    that is somebody else than we are. Raises `ExecutorUnavailable` when there is no such namespace or it cannot be
    entered; it never listens in our own.
    """
    words = (str(word) for word in (pid, -1 if uid is None else uid, port))
    helper = start_helper([sys.executable, "-I", "-S", str(PROGRAM), *words], {})
    found: list[socket.socket] = []
    try:
        try:
            answer = await _receive_answer(helper.connection, found)
        finally:
            await run_in_thread(helper.close)
    except BaseException:
        for listener in found:
            listener.close()
        raise
    if found:
        return found[0]
    reason = answer.decode("utf-8", "replace") or "the program that enters its namespace has failed"
    raise ExecutorUnavailable(f"the sandbox cannot be connected to the network proxy: {reason}")


async def _receive_answer(connection: socket.socket, found: list[socket.socket]) -> bytes:
    """What the program said; the socket that it sent goes into `found`."""
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    arrived = asyncio.Event()
    loop.add_reader(connection, arrived.set)
    try:
        async with asyncio.timeout(_TIMEOUT):
            await arrived.wait()
        # Not recv_fds(), which forgets the flags: for a moment every new child would inherit the socket.
        answer, ancillary, _, _ = connection.recvmsg(1000, socket.CMSG_SPACE(_INT.size), socket.MSG_CMSG_CLOEXEC)
    except TimeoutError:
        return f"no answer within {_TIMEOUT:g} seconds".encode()
    except OSError as error:
        return str(error).encode()
    finally:
        loop.remove_reader(connection)
    for _, _, data in ancillary:
        found += [socket.socket(fileno=descriptor) for (descriptor,) in _INT.iter_unpack(data)]
    return answer


_MAX_REPORTED = 20


async def connect_proxy(kept: SupervisedProcess, proxy: FilteringProxy, uid: int | None) -> asyncio.Task[None]:
    """Let a command that is held begin, with this proxy on its loopback. The task ends the proxy with the command.

    Raises `ExecutorUnavailable` when the proxy cannot be put there; the command is ended then, and was never run.
    """
    try:
        await kept.wait_ready()
        await proxy.start(await listen_inside(kept.pid, uid=uid))
    except BaseException:
        kept.signal(signal.SIGKILL)
        raise
    # Whoever makes the result asks to be called later than this, and finds the notes.
    kept.add_done_callback(lambda _: _report_refusals(kept, proxy))
    kept.release()
    return asyncio.get_running_loop().create_task(_close_after(kept, proxy))


async def _close_after(kept: SupervisedProcess, proxy: FilteringProxy) -> None:
    try:
        await kept.wait()
    finally:
        await proxy.close()


def _report_refusals(kept: SupervisedProcess, proxy: FilteringProxy) -> None:
    """Each refusal once, at most a few: a command may try as often as it likes."""
    seen = dict.fromkeys(f"network: {refusal.target}: {refusal.reason}" for refusal in proxy.refusals)
    kept.notes.extend(list(seen)[:_MAX_REPORTED])
