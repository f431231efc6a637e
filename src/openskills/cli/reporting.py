"""What the library says while a command of this program runs, for the person at the shell."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from openskills.cli.output import plain, warn

LIBRARY = "openskills"


class _OnStderr(logging.Handler):
    """One line for each record, without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        warn((record.levelname.lower(), "yellow"), f": {plain(record.getMessage())}")


@contextmanager
def reported() -> Generator[None]:
    """As long as the block lasts, warnings of the library go to stderr: by itself it prints nothing."""
    logger, handler = logging.getLogger(LIBRARY), _OnStderr(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
