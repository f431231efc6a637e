"""What can be left in a sandbox. That it is looked for after each command: `tests/executors/sandbox/test_kept.py`."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.conftest import RequireProgram
from tests.executors.programs.bare_sandbox import printed

PROGRAM = """
import os, resource, socket, sys
sys.path[:0] = [sys.argv[1]]
from traces import surroundings
before = surroundings()
assert before == surroundings()
exec(sys.argv[2])
print(before == surroundings())
"""
ACL = "struct.pack('<I', 2) + b''.join(struct.pack('<HHI', tag, 0, 2**32 - 1) for tag in (1, 4, 32))"
LEFT = {
    "nothing": ("open('/tmp/x', 'w').close(); os.unlink('/tmp/x')", "True"),
    "a mode": ("os.chmod('/dev/shm', 0o700)", "False"),
    "an attribute": (f"import struct; os.setxattr('/tmp', 'system.posix_acl_default', {ACL})", "False"),
    "a limit": ("resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))", "False"),
    "a priority": ("os.nice(5)", "False"),
    "a socket": ("kept = socket.socketpair()", "False"),
    "a port": ("kept = socket.create_server(('127.0.0.1', 0))", "False"),
}


@pytest.fixture
def after(require_program: RequireProgram) -> Callable[[str], str]:
    """Whether all is as it was after some code, in a sandbox without any of our own parts."""
    return partial(printed, require_program("bwrap"), PROGRAM)


@pytest.mark.parametrize(("code", "same"), LEFT.values(), ids=LEFT)
def test_what_is_left_makes_a_difference_and_what_is_not_does_not(
    after: Callable[[str], str], code: str, same: str
) -> None:
    assert after(code) == same
