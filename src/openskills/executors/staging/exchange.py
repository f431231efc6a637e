"""Two names in a directory that change places in one step."""

import ctypes
import errno
import os
import secrets
from collections.abc import Callable
from functools import cache

_EXCHANGE = 2
_NOT_HERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP})


def exchange(directory: int, first: str, second: str) -> None:
    """Let two existing names in the directory of this descriptor change places.

    In one step where the system can do that; elsewhere there is a moment in which `second` does not exist.
    """
    if _by_kernel(directory, first, second):
        return
    between = f"{first}-{secrets.token_hex(4)}"
    os.rename(second, between, src_dir_fd=directory, dst_dir_fd=directory)
    os.rename(first, second, src_dir_fd=directory, dst_dir_fd=directory)
    os.rename(between, first, src_dir_fd=directory, dst_dir_fd=directory)


def _by_kernel(directory: int, first: str, second: str) -> bool:
    call = _renameat2()
    if call is None:
        return False
    number = call(directory, os.fsencode(first), os.fsencode(second))
    if number in _NOT_HERE:
        return False
    if number:
        raise OSError(number, os.strerror(number), first, None, second)
    return True


@cache
def _renameat2() -> Callable[[int, bytes, bytes], int] | None:
    """The call, which gives an error number or 0; None where there is no such call."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def call(directory: int, first: bytes, second: bytes) -> int:
        return ctypes.get_errno() if function(directory, first, directory, second, _EXCHANGE) else 0

    return call
