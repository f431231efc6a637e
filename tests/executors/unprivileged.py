"""Doing something as a user without any rights, also when the tests are run by root."""

import os
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

UID = 65001
"""No user of any machine; not in the range from which workspaces get theirs."""


def as_ordinary_user(directory: Path, work: Callable[[Path], None]) -> None:
    """Call `work` with a directory that belongs to the user it is called as; what it raises fails the test.

    When we are root this is in a child process that has given up being root. It reaches the directory as `.`: those
    above it may be closed to it.
    """
    if os.geteuid() != 0:
        work(directory)
        return
    os.chown(directory, UID, UID)
    with warnings.catch_warnings():
        # The child calls nothing that another thread could have had a lock on.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        status = 1
        try:
            os.chdir(directory)
            os.setgroups([])
            os.setgid(UID)
            os.setuid(UID)
            work(Path("."))
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0, "it failed in the child process; its traceback is in the captured output"


def open_descriptors() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))
