"""Things that a hostile script leaves behind."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from openskills.executors.files.descriptors import remove_entry


@contextmanager
def deep(directory: Path, depth: int) -> Generator[None]:
    """Directories `d` in each other, deeper than any path can say, with a file in the last one.

    They are gone after the block, because nobody else who cleans up can remove them.
    """
    root = os.open(directory, os.O_RDONLY)
    descriptor = os.dup(root)
    for _ in range(depth):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=descriptor))
    os.close(descriptor)
    try:
        yield
    finally:
        remove_entry(root, "d")
        os.close(root)


_SWAP = """
import os, sys
place, kept, link = sys.argv[1:]
print(flush=True)
while True:
    os.rename(place, kept)
    os.rename(link, place)
    os.rename(place, link)
    os.rename(kept, place)
"""


@contextmanager
def swapping(place: Path, link_to: Path) -> Generator[None]:
    """While in the block, `place` is a directory and a link to another one by turns, as fast as a process can."""
    kept, link = place.with_name(".kept"), place.with_name(".link")
    link.symlink_to(link_to)
    argv = [sys.executable, "-I", "-S", "-c", _SWAP, str(place), str(kept), str(link)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()
