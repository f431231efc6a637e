"""What a call could leave in a sandbox. The rest: `tests/host/running/test_sandboxed.py`."""

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
traces = program.Traces()
exec(sys.argv[2])
print(traces.undone(), sorted(os.listdir("/tmp")), sorted(os.listdir("/tmp/first")))
"""


@pytest.fixture
def after(require_program: RequireProgram) -> Callable[[str], str]:
    """Whether what some code leaves is undone, in a sandbox without any of our own parts."""
    return partial(printed, require_program("bwrap"), PROGRAM)


NOTHING = "True ['first'] ['place']"


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
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (77, 77))",
        "os.nice(5)",
        "os.chmod('/tmp', 0o700)",
        "import socket; global_socket = socket.create_server(('127.0.0.1', 0))",
    ],
)
def test_what_cannot_be_undone_is_told(after: Callable[[str], str], code: str) -> None:
    assert after(code).startswith("False")


def test_a_tree_that_is_too_deep_or_too_large_is_not_undone(after: Callable[[str], str]) -> None:
    deep = "path = '/tmp'\nfor n in range(300):\n    path += '/d'\n    os.mkdir(path)"
    assert after(deep).startswith("False")
    assert after("for n in range(11_000): os.mkdir(f'/tmp/{n}')").startswith("False")
    assert os.path.exists("/tmp")
