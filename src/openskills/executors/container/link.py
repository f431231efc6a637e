"""How a container and this process find each other: a private directory with a socket that the container calls once.

The directory is mounted read-only into the container. One call is taken; then the socket is gone, so that no command
can call, and nothing connects the container with this machine but the connection that we hold.
"""

import asyncio
import json
import os
import platform
import secrets
import shutil
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, cast

from openskills.errors import ExecutorUnavailable
from openskills.executors.container.spec import PROGRAM, etc_files
from openskills.executors.inside import container_keeper
from openskills.executors.processes import keeping
from openskills.executors.sandbox import seccomp

PREFIX: Final = "container-"
_LINKS = "bin"
_CALLS_WITHIN = 20.0
_LOOK_AGAIN = 0.2
_LONGEST_LINE = 4096
_CREDENTIALS = struct.Struct("3i")
_SHARED = (
    "it must be an engine on this machine that sees the same files, with a runtime that uses this machine's kernel "
    "(runc, crun); engines in a virtual machine, remote ones, runsc and kata cannot be used"
)

Alive = Callable[[], Awaitable[bool]]


class ContainerLink:
    """The private directory of one container, in a directory that only we can enter."""

    def __init__(self, parent: Path, uid: int, gid: int) -> None:
        self.directory = parent / f"{PREFIX}{secrets.token_hex(8)}"
        self._uid = uid
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.setblocking(False)
            self._fill(gid)
        except BaseException:
            self.close()
            raise

    async def taken(self, alive: Alive) -> socket.socket:
        """The call of the container, which has said that its image will do.

        Raises `ExecutorUnavailable` with the reason when it does not call, calls as another user, or lacks something.
        """
        try:
            connection = await self._called(alive)
        finally:
            self._listener.close()
            (self.directory / container_keeper.SOCKET).unlink(missing_ok=True)
        try:
            self._check_user(connection)
            async with asyncio.timeout(_CALLS_WITHIN):
                problem, python = _said_in(await _line(connection))
        except BaseException:
            connection.close()
            raise
        if problem is None:
            self._link(python)
            return connection
        connection.close()
        raise ExecutorUnavailable(f"the image of the container cannot be used: {problem}")

    def close(self) -> None:
        """Remove the directory."""
        self._listener.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _fill(self, gid: int) -> None:
        # Readable for the user inside; nobody else of this machine gets past the directory above.
        self.directory.mkdir(mode=0o755)
        self.directory.chmod(0o755)
        files: dict[str, bytes] = {
            PROGRAM: Path(container_keeper.__file__).read_bytes(),
            container_keeper.KEEPER: keeping.PROGRAM.read_bytes(),
            container_keeper.FILTER: seccomp.program(platform.machine()),
        }
        files |= {name: text.encode() for name, text in etc_files(self._uid, gid).items()}
        for name, data in files.items():
            (self.directory / name).write_bytes(data)
            (self.directory / name).chmod(0o644)
        (self.directory / _LINKS).mkdir()
        (self.directory / _LINKS).chmod(0o755)
        self._listen()

    def _link(self, python: str | None) -> None:
        """Give the commands both names of the interpreter; they are links inside the container, and lead there."""
        for name in ("python", "python3") if python else ():
            (self.directory / _LINKS / name).symlink_to(python or "")

    def _listen(self) -> None:
        descriptor = os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The name of a socket may have 108 bytes, and the directory can lie deep.
            self._listener.bind(f"/proc/self/fd/{descriptor}/{container_keeper.SOCKET}")
        finally:
            os.close(descriptor)
        (self.directory / container_keeper.SOCKET).chmod(0o666)
        self._listener.listen(1)

    async def _called(self, alive: Alive) -> socket.socket:
        loop = asyncio.get_running_loop()
        accepting = loop.create_task(loop.sock_accept(self._listener))
        deadline = loop.time() + _CALLS_WITHIN
        try:
            while not (await asyncio.wait([accepting], timeout=_LOOK_AGAIN))[0]:
                await _check_patience(alive, deadline)
        except BaseException:
            await _forgotten(accepting)
            raise
        return accepting.result()[0]

    def _check_user(self, connection: socket.socket) -> None:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(credentials)
        if uid != self._uid:
            raise ExecutorUnavailable(
                f"the engine runs the user {self._uid} of a container as {uid} of this machine, so its commands could "
                "not write to their workspace; use an engine that does not map users (not rootless, no userns-remap)"
            )


async def _check_patience(alive: Alive, deadline: float) -> None:
    if not await alive():
        raise ExecutorUnavailable(f"the container ended before it called; {_SHARED}")
    if asyncio.get_running_loop().time() > deadline:
        raise ExecutorUnavailable(f"the container did not call within {_CALLS_WITHIN:g} seconds; {_SHARED}")


async def _forgotten(accepting: "asyncio.Task[tuple[socket.socket, Any]]") -> None:
    accepting.cancel()
    await asyncio.wait([accepting])
    if not accepting.cancelled() and accepting.exception() is None:
        accepting.result()[0].close()


async def _line(connection: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    line = bytearray()
    while not line.endswith(b"\n"):
        # What comes after the line is for somebody else.
        data = await loop.sock_recv(connection, 1)
        line += data
        if not data or len(line) > _LONGEST_LINE:
            raise ExecutorUnavailable("the container hung up before it said anything that can be understood")
    return bytes(line)


def _said_in(line: bytes) -> tuple[str | None, str | None]:
    try:
        said = cast("dict[str, Any]", json.loads(line))
        problem, python = said["problem"], said.get("python")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ExecutorUnavailable("the container said something that cannot be understood") from None
    return None if problem is None else str(problem), None if python is None else str(python)
