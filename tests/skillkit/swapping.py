"""Somebody who changes two names for each other while a skill is at work."""

import ctypes
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE


@contextmanager
def swapping(one: Path, other: Path) -> Generator[None]:
    """While the block runs, what has the one name and what has the other change places, again and again."""
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    stop = threading.Event()
    failed: list[int] = []

    def swap() -> None:
        while not stop.is_set():
            if exchange(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
                failed.append(ctypes.get_errno())
                return

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        stop.set()
        swapper.join()
    assert not failed, os.strerror(failed[0])
