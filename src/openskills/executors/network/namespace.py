"""Connect a sandbox to its proxy: a listening socket in its network namespace, held by this process outside."""

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
"""A new namespace has all ports free, so the number can be fixed."""

_TIMEOUT = 10.0
_INT = struct.Struct("i")


async def listen_inside(pid: int, *, uid: int | None, port: int = PORT) -> socket.socket:
    """A socket that listens on 127.0.0.1 of the sandbox, for us to accept connections from inside.

    `pid` is a process in the sandbox, or the one outside that made it (bwrap). `uid` is the user that made it, if not
    us. Raises `ExecutorUnavailable` if the namespace does not exist or cannot be entered; it never listens in our own.
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
    reason = answer.decode("utf-8", "replace") or "the program that enters its namespace failed"
    raise ExecutorUnavailable(f"cannot connect the sandbox to the network proxy: {reason}")


async def _receive_answer(connection: socket.socket, found: list[socket.socket]) -> bytes:
    """The program's message; the socket that it sent is added to `found`."""
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    arrived = asyncio.Event()
    loop.add_reader(connection, arrived.set)
    try:
        async with asyncio.timeout(_TIMEOUT):
            await arrived.wait()
        # Not recv_fds(), which ignores the flags: for a moment every new child would inherit the socket.
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


async def connect_proxy(process: SupervisedProcess, proxy: FilteringProxy, uid: int | None) -> asyncio.Task[None]:
    """Start a held command with this proxy on its loopback. The returned task closes the proxy with the command.

    Raises `ExecutorUnavailable` if that fails; the command is killed then, and never ran.
    """
    try:
        await process.wait_ready()
        await proxy.start(await listen_inside(process.pid, uid=uid))
    except BaseException:
        process.signal(signal.SIGKILL)
        raise

    def report_refusals(_: object) -> None:
        seen = dict.fromkeys(f"network: {refusal.target}: {refusal.reason}" for refusal in proxy.refusals)
        process.notes.extend(list(seen)[:_MAX_REPORTED])

    # Registered before the callback that builds the result, which includes the notes.
    process.add_done_callback(report_refusals)
    process.release()
    return asyncio.get_running_loop().create_task(_close_after(process, proxy))


async def _close_after(process: SupervisedProcess, proxy: FilteringProxy) -> None:
    try:
        await process.wait()
    finally:
        await proxy.close()
