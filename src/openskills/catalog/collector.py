"""The garbage collector of Python, told when there is nothing for it to find."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """For work that makes many values and no garbage: the collector would look at all of them over and over.

    Several threads may be in here at once; the collector goes on when the first one leaves.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
