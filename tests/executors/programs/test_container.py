"""The first process of a container, run without one: what it needs is a directory and a socket."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openskills.executors.container.backend import ContainerLink
from openskills.executors.programs import container
from openskills.executors.supervisor import LaunchRequest, Supervisor

LOOK = "grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status; ls /proc/self/fd; cat /proc/$PPID/environ"


@pytest.fixture
def short() -> Generator[Path]:
    """A directory whose name is short, as it is in a container: the name of a socket may have 108 bytes."""
    with tempfile.TemporaryDirectory(prefix="openskills-") as directory:
        yield Path(directory)


@contextmanager
def started(directory: Path, path: str) -> "Generator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-I", "-S", container.__file__, str(directory)]
    with subprocess.Popen(command, env={"PATH": path}, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


async def always() -> bool:
    return True


async def test_it_calls_and_serves_commands_that_cannot_look_into_it(short: Path) -> None:
    async def scenario() -> str:
        connection = await link.accept(always)
        control = Supervisor(connection)
        keeper = await control.fork()
        reading, writing = os.pipe()
        try:
            with open(os.devnull) as nothing:
                fds = {0: nothing.fileno(), 1: writing, 2: writing}
                kept = await keeper.start(LaunchRequest(("bash", "-c", LOOK), {"PATH": os.defpath}, "/", fds))
            await kept.wait()
            return os.read(reading, 65536).decode()
        finally:
            os.close(reading)
            os.close(writing)
            await keeper.close()
            await control.close()

    link = ContainerLink(short, os.getuid(), os.getgid())
    try:
        with started(link.directory, os.defpath) as process:
            said = await scenario()
            # Nobody is there any more, so it ends.
            assert process.wait(20) == 0
    finally:
        link.close()
    assert "NoNewPrivs:\t1\n" in said
    assert "Seccomp:\t2\n" in said
    assert "\n0\n1\n2\n3\n" in said
    if os.getuid() != 0:
        assert "Permission denied" in said


def test_an_image_without_bash_is_named(short: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short / container.SOCKET))
        listener.listen(1)
        with started(short, str(short)) as process:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(1000) == b'{"problem": "it has no bash"}\n'
            assert process.wait(20) == 0


async def test_an_image_with_one_name_for_its_interpreter_asks_for_both(short: Path) -> None:
    programs = short / "programs"
    programs.mkdir()
    (programs / "bash").symlink_to("/bin/bash")
    for name, wanted in (("python3", ["python", "python3"]), ("python", [])):
        (programs / name).symlink_to(sys.executable)
        link = ContainerLink(short, os.getuid(), os.getgid())
        try:
            with started(link.directory, str(programs)) as process:
                (await link.accept(always)).close()
                process.wait(20)
            links = link.directory / "bin"
            assert sorted(os.listdir(links)) == wanted
            assert all(os.readlink(links / name) == sys.executable for name in wanted)
        finally:
            link.close()


def test_it_ends_when_nobody_answers(short: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short / container.SOCKET))
    with started(short, os.defpath) as process:
        assert process.wait(20) == 1
        assert process.stderr
        assert b"ConnectionRefusedError" in process.stderr.read()


async def test_it_ends_when_the_host_is_gone_before_it_speaks(short: Path) -> None:
    link = ContainerLink(short, os.getuid(), os.getgid())
    try:
        with started(link.directory, os.defpath) as process:
            connection = await link.accept(always)
            connection.close()
            await asyncio.sleep(0)
            assert process.wait(20) == 0
    finally:
        link.close()
