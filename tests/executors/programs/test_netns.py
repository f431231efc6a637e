"""The program that enters a sandbox's network does so without any rights, too."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from openskills.executors.network.namespace import PROGRAM
from tests.conftest import RequireProgram, skip_unless_root
from tests.executors.netbox import TIMEOUT, UID, dropped, netbox


@pytest.fixture(autouse=True)
def programs(require_program: RequireProgram) -> None:
    require_program("bwrap")
    require_program("setpriv")


def listen(pid: int, uid: int, *, ordinary: bool) -> tuple[bytes, list[int]]:
    """Run the program, as an ordinary user or as we are; gives what it says and hands over."""
    # As text, and by the system's interpreter: an ordinary user may not get to ours.
    python = (shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable) if ordinary else sys.executable
    ours, theirs = socket.socketpair()
    words = [str(word) for word in (pid, uid, 3128, theirs.fileno())]
    argv = [python, "-I", "-S", "-c", Path(PROGRAM).read_text("utf-8"), *words]
    with ours, theirs:
        subprocess.run(
            dropped(argv) if ordinary else argv, pass_fds=[theirs.fileno()], timeout=TIMEOUT, cwd="/", check=True
        )
        theirs.close()
        said, descriptors, _, _ = socket.recv_fds(ours, 1000, 1)
    return said, descriptors


@pytest.mark.parametrize("ordinary", [True, False])
def test_it_hands_over_a_socket_of_the_sandbox(ordinary: bool) -> None:
    uid = UID if os.geteuid() == 0 and not ordinary else -1
    with netbox("exec 3<>/dev/tcp/127.0.0.1/3128; cat <&3") as box:
        said, descriptors = listen(box.pid, uid, ordinary=ordinary)
        assert said == b"\0"
        with socket.socket(fileno=descriptors[0]) as listener:
            listener.settimeout(TIMEOUT)
            assert listener.getsockname() == ("127.0.0.1", 3128)
            box.begin()
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"from outside")
        assert box.output() == b"from outside"


def test_it_says_why_it_cannot() -> None:
    said, descriptors = listen(os.getpid(), -1, ordinary=False)
    assert said == f"process {os.getpid()} has no network namespace of its own".encode()
    assert descriptors == []


def test_somebody_elses_sandbox_stays_closed_to_an_ordinary_user() -> None:
    skip_unless_root("two users are needed")
    with subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        # It answers, so it is in its own network.
        other.stdin.write(b"there\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"there\n"
        said, descriptors = listen(other.pid, -1, ordinary=True)
        other.stdin.close()
        other.wait(TIMEOUT)
    assert b"Permission denied" in said
    assert descriptors == []
