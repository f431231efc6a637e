import os
import socket
import subprocess
import sys
from collections.abc import Generator

import pytest

from openskills.subprocesses import HelperProcess, start_helper
from openskills.tools.regex_program import MEMORY
from openskills.tools.search_files import PROGRAM


@pytest.fixture
def program() -> Generator[HelperProcess]:
    helper = start_helper([sys.executable, "-I", "-S", str(PROGRAM), "0", "3"], {})
    helper.connection.settimeout(30)
    yield helper
    helper.close()


def ask(connection: socket.socket, text: str) -> str:
    data = text.encode()
    connection.sendall(len(data).to_bytes(4, "big") + data)
    return exactly(connection, int.from_bytes(exactly(connection, 4), "big")).decode()


def exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        assert piece
        found += piece
    return found


def test_every_frame_is_answered_with_the_lines_that_match(program: HelperProcess) -> None:
    assert ask(program.connection, r"b+") == "+"
    assert ask(program.connection, "abb\nx\nb") == "+0,1 2,0"
    assert ask(program.connection, "") == "+"
    assert ask(program.connection, "b\n" * 9) == "+0,0 1,0 2,0"


def test_a_broken_pattern_is_answered_and_another_may_follow(program: HelperProcess) -> None:
    assert ask(program.connection, "a(").startswith("-missing )")
    assert ask(program.connection, "a") == "+"


def test_it_ends_when_the_connection_does() -> None:
    helper = start_helper([sys.executable, "-I", "-S", str(PROGRAM), "0", "3"], {})
    helper.connection.shutdown(socket.SHUT_RDWR)
    helper.close(timeout=30)
    with pytest.raises(ProcessLookupError):
        os.kill(helper.pid, 0)


def test_it_has_limits_of_its_own() -> None:
    text = (
        "import re, resource, runpy, socket, sys; ours, theirs = socket.socketpair(); ours.close();"
        f"sys.argv = ['x', '0', '3', str(theirs.detach())]; runpy.run_path({str(PROGRAM)!r}, run_name='__main__');"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_CPU)[0] < 60)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [str(MEMORY), "True"], done.stderr
