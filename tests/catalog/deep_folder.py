"""Something that even root cannot read: modes do not stop root, a path longer than the system takes stops everybody."""

import os
from pathlib import Path


def make_too_deep(folder: Path) -> None:
    """Folders in folders until the innermost cannot be opened by its path."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=here)
        below = os.open("x" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
