"""What the system says, in the words of our caller."""

import errno
import os

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded
from openskills.executors.files.faults import told


@pytest.mark.parametrize(
    ("number", "error", "said"),
    [
        (errno.ENOENT, InvalidArgument, "path: 'out/x' does not exist"),
        (errno.EISDIR, InvalidArgument, "is a directory"),
        (errno.EACCES, InvalidArgument, "permission"),
        (errno.ELOOP, ForbiddenPath, "goes through a link"),
        (errno.ENOSPC, LimitExceeded, "no room for 'out/x'"),
        (errno.EIO, OSError, "Input/output error"),
    ],
)
def test_an_error_of_the_system_becomes_one_that_names_the_path(number: int, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said), told("out/x"):
        raise OSError(number, os.strerror(number), "d")


def test_a_refusal_names_the_path_as_it_was_given() -> None:
    with pytest.raises(ForbiddenPath, match="cwd: 'out/x' leads out"), told("out/x", field="cwd"):
        raise ForbiddenPath("path: 'x' leads out", why="leads out")
