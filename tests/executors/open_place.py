"""A directory that every user of the machine gets to.

What lies on the way to `tmp_path` is closed to others, and shared with every test that runs at the same time: who opens
it changes what those see, until the next pytest closes it again.
"""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def open_place() -> Generator[Path]:
    """Such a directory; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="openskills-open-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
