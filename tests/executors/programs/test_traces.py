"""What a command or a call could leave in a sandbox."""

import os
from collections.abc import Callable
from functools import partial

import pytest

from tests.conftest import RequireProgram
from tests.executors.programs.bare_sandbox import printed

PROGRAM = """
import os, sys
sys.path[:0] = [sys.argv[1]]
import traces as program
os.makedirs("/tmp/first/place")
open("/tmp/first/file", "w").close()
traces = program.Traces()
exec(sys.argv[2])
print(traces.undone(), sorted(os.listdir("/tmp")), sorted(os.listdir("/tmp/first")))
"""


@pytest.fixture
def after(require_program: RequireProgram) -> Callable[[str], str]:
    """Whether what some code leaves is undone, in a sandbox without any of our own parts."""
    return partial(printed, require_program("bwrap"), PROGRAM)


NOTHING = "True ['first'] ['file', 'place']"
# All sockets are closed, but the port of the one that was closed first stays in use for a while.
LINGERING = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
served, _ = server.accept()
client.close()
served.recv(1)
served.close()
server.close()
del client, served, server
"""


@pytest.mark.parametrize(
    "code",
    [
        "",
        "open('/tmp/file', 'w').close(); open('/dev/shm/x', 'w').close()",
        "os.makedirs('/tmp/a/b/c'); os.symlink('/etc', '/tmp/a/link'); os.chmod('/tmp/a/b', 0)",
        "open('/tmp/first/place/new', 'w').close()",
        "os.mkfifo('/dev/shm/fifo')",
    ],
)
def test_files_are_removed_and_what_was_there_first_stays(after: Callable[[str], str], code: str) -> None:
    assert after(code) == NOTHING


@pytest.mark.parametrize(
    "code",
    [
        "open('/tmp/first/file', 'a').write('x')",
        "os.utime('/tmp/first/file', ns=(1, 1))",
        "os.unlink('/tmp/first/file')",
        "os.rename('/tmp/first/place', '/tmp/other'); os.mkdir('/tmp/first/place')",
        "os.chmod('/tmp/first/place', 0o777)",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (77, 77))",
        "os.nice(5)",
        "os.chmod('/tmp', 0o700)",
        "import socket; global_socket = socket.create_server(('127.0.0.1', 0))",
        LINGERING,
        "import ctypes; ctypes.CDLL(None).syscall(program._IOPRIO_GET - 1, 1, 0, 3 << 13 | 7)",
        "import ctypes; ctypes.CDLL(None).semget(77, 1, 0o1666)",
    ],
)
def test_what_cannot_be_undone_is_reported(after: Callable[[str], str], code: str) -> None:
    assert after(code).startswith("False")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("sockets: used 3\nTCP: inuse 0 orphan 12 tw 1 alloc 345 mem 0\nUDP: inuse 0 mem 77\n", True),
        ("sockets: used 4\nTCP: inuse 0 orphan 0 tw 1 alloc 5 mem 1\nUDP: inuse 0 mem 0\n", False),
        ("sockets: used 3\nTCP: inuse 0 orphan 0 tw 10 alloc 5 mem 1\nUDP: inuse 0 mem 0\n", False),
        ("sockets: used 3\nTCP: inuse 0 orphan 0 tw 1 alloc 5 mem 1\nUDP: inuse 2 mem 0\n", False),
        ("sockets: used 3\nTCP: inuse 0 orphan 0 tw 1 alloc 5 mem 1\nUDP: inuse 0 mem 0\nRAW: inuse 1\n", False),
    ],
)
def test_only_socket_counts_of_the_sandbox_matter(after: Callable[[str], str], text: str, same: bool) -> None:
    first = "sockets: used 3\nTCP: inuse 0 orphan 0 tw 1 alloc 5 mem 1\nUDP: inuse 0 mem 0\n"
    code = f"""
descriptor = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(descriptor, {first.encode()!r})
counts = program._SocketCounts([descriptor])
assert counts.are_equal()
os.ftruncate(descriptor, 0)
os.pwrite(descriptor, {text.encode()!r}, 0)
assert counts.are_equal() is {same}
os.close(descriptor)
"""
    assert after(code) == NOTHING


def test_times_of_directories_are_restored(after: Callable[[str], str]) -> None:
    code = """
def times(): return [os.stat(path).st_mtime_ns for path in ("/tmp", "/dev/shm", "/dev/pts", "/tmp/first")]
first = times()
os.utime("/tmp", (7, 7)); os.utime("/tmp/first", (7, 7)); os.mkdir("/dev/shm/new"); os.utime("/dev/pts", (7, 7))
assert first != times() and traces.undone() and first == times()
"""
    assert after(code) == NOTHING


def test_a_tree_that_is_too_deep_or_too_large_is_not_undone(after: Callable[[str], str]) -> None:
    deep = "path = '/tmp'\nfor n in range(300):\n    path += '/d'\n    os.mkdir(path)"
    assert after(deep).startswith("False")
    assert after("for n in range(11_000): os.mkdir(f'/tmp/{n}')").startswith("False")
    assert os.path.exists("/tmp")


COMPARISON = """
import os, resource, socket, sys
sys.path[:0] = [sys.argv[1]]
import traces as program
# As where something is mounted below it.
os.makedirs("/tmp/first/place")
traces = program.Traces(None)
assert traces.undone()
exec(sys.argv[2])
print(traces.undone())
"""
ACL = "struct.pack('<I', 2) + b''.join(struct.pack('<HHI', tag, 0, 2**32 - 1) for tag in (1, 4, 32))"
LEFT = {
    "nothing": ("open('/tmp/x', 'w').close(); os.unlink('/tmp/x')", "True"),
    "a file": ("open('/tmp/x', 'w').close()", "False"),
    "a file in a directory that was there": ("open('/tmp/first/place/x', 'w').close()", "False"),
    "a mode": ("os.chmod('/dev/shm', 0o700)", "False"),
    "an attribute": (f"import struct; os.setxattr('/tmp', 'system.posix_acl_default', {ACL})", "False"),
    "a limit": ("resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))", "False"),
    "a priority": ("os.nice(5)", "False"),
    "an I/O priority": (
        "import ctypes; ctypes.CDLL(None).syscall(program._IOPRIO_GET - 1, 1, 0, 3 << 13 | 7)",
        "False",
    ),
    "a socket": ("kept = socket.socketpair()", "False"),
    "a port": ("kept = socket.create_server(('127.0.0.1', 0))", "False"),
}


@pytest.fixture
def after_comparison(require_program: RequireProgram) -> Callable[[str], str]:
    """Whether all is as it was after some code, in a sandbox without any of our own parts."""
    return partial(printed, require_program("bwrap"), COMPARISON)


@pytest.mark.parametrize(("code", "same"), LEFT.values(), ids=LEFT)
def test_what_is_left_makes_a_difference_and_what_is_not_does_not(
    after_comparison: Callable[[str], str], code: str, same: str
) -> None:
    assert after_comparison(code) == same
