"""Swaps what is at a path as fast as it can: `python -m tests.hostile.probes.swapping OUTSIDE`.

`out/race/place` is a directory and a link to OUTSIDE by turns, `out/race/file` a file and a link into OUTSIDE. Both
places have a `secret.txt`; only what is in the workspace may ever be handed out.
"""

import os
import sys
from pathlib import Path

INSIDE = "inside the workspace"


def main(outside: str) -> None:
    """Begin, say so, and never end."""
    os.makedirs("out/race/place")
    Path("out/race/place/secret.txt").write_text(INSIDE, "ascii")
    Path("out/race/file").write_text(INSIDE, "ascii")
    os.symlink(outside, "out/race/.away")
    os.symlink(f"{outside}/secret.txt", "out/race/.link")
    sys.stdout.write("swapping\n")
    sys.stdout.flush()
    here = os.open("out/race", os.O_RDONLY)
    while True:
        for place, other in (("place", ".away"), ("file", ".link")):
            _exchange(here, place, other)


def _exchange(here: int, place: str, other: str) -> None:
    os.rename(place, ".kept", src_dir_fd=here, dst_dir_fd=here)
    os.rename(other, place, src_dir_fd=here, dst_dir_fd=here)
    os.rename(place, other, src_dir_fd=here, dst_dir_fd=here)
    os.rename(".kept", place, src_dir_fd=here, dst_dir_fd=here)


if __name__ == "__main__":
    main(*sys.argv[1:])
