"""Files in memory, to hand something to a program that nobody else may read."""

import fcntl
import os


def in_memory(data: bytes) -> int:
    """A descriptor of a file without a name that holds `data`, at its beginning. The descriptor is the caller's."""
    return _written(os.memfd_create("openskills", os.MFD_CLOEXEC), data)


class Sealed:
    """A file without a name that nobody can change, for many programs one after the other or at once."""

    def __init__(self, data: bytes) -> None:
        self._descriptor = _written(os.memfd_create("openskills", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), data)
        unchangeable = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, unchangeable)

    def reading(self) -> int:
        """A new descriptor that reads it from its beginning, whatever others have read. It is the caller's."""
        return os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Let it go when the last reader has."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _written(descriptor: int, data: bytes) -> int:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
