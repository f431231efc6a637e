"""The first process of a container, run without one: what it needs is a directory and a socket."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from openskills.executors.container.link import ContainerLink
from openskills.executors.inside import container_keeper
from openskills.executors.processes.keeping import Keeper, Launch
from openskills.sync import run

LOOK = "grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status; ls /proc/self/fd; cat /proc/$PPID/environ"


@contextmanager
def started(directory: Path, path: str) -> "Generator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-I", "-S", container_keeper.__file__, str(directory)]
    with subprocess.Popen(command, env={"PATH": path}, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


async def always() -> bool:
    return True


def test_it_calls_and_serves_commands_that_cannot_look_into_it(tmp_path: Path) -> None:
    async def scenario() -> str:
        connection = await link.taken(always)
        control = Keeper(connection)
        keeper = await control.fork()
        reading, writing = os.pipe()
        try:
            with open(os.devnull) as nothing:
                fds = {0: nothing.fileno(), 1: writing, 2: writing}
                kept = await keeper.start(Launch(("bash", "-c", LOOK), {"PATH": os.defpath}, "/", fds))
            await kept.exited()
            return os.read(reading, 65536).decode()
        finally:
            os.close(reading)
            os.close(writing)
            await keeper.close()
            await control.close()

    link = ContainerLink(tmp_path, os.getuid(), os.getgid())
    try:
        with started(link.directory, os.defpath) as process:
            said = run(scenario())
            # Nobody is there any more, so it ends.
            assert process.wait(20) == 0
    finally:
        link.close()
    assert "NoNewPrivs:\t1\n" in said
    assert "Seccomp:\t2\n" in said
    assert "\n0\n1\n2\n3\n" in said
    if os.getuid() != 0:
        assert "Permission denied" in said


def test_an_image_without_bash_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / container_keeper.SOCKET))
        listener.listen(1)
        with started(tmp_path, str(tmp_path)) as process:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(1000) == b'{"problem": "it has no bash"}\n'
            assert process.wait(20) == 0


def test_it_ends_when_nobody_answers(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / container_keeper.SOCKET))
    with started(tmp_path, os.defpath) as process:
        assert process.wait(20) == 1
        assert process.stderr
        assert b"ConnectionRefusedError" in process.stderr.read()


def test_it_ends_when_the_host_is_gone_before_it_speaks(tmp_path: Path) -> None:
    async def scenario() -> None:
        connection = await link.taken(always)
        connection.close()
        await asyncio.sleep(0)

    link = ContainerLink(tmp_path, os.getuid(), os.getgid())
    try:
        with started(link.directory, os.defpath) as process:
            run(scenario())
            assert process.wait(20) == 0
    finally:
        link.close()
