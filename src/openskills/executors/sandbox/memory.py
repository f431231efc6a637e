"""A file in memory, to hand something to a program that nobody else may read."""

import os


def in_memory(data: bytes) -> int:
    """A descriptor of a file without a name that holds `data`, at its beginning. The descriptor is the caller's."""
    descriptor = os.memfd_create("openskills", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
