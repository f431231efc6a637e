"""Which directories another user cannot get to, though it may see what is in them, and how to show them to it.

`bwrap` finds what it mounts by path, as the user that it runs as. What lies below root's home is out of its reach, so
the process that starts it gets a view of the file system in which the way there is open, and nothing else.
"""

import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "inside" / "reach_enter.py"


def reaching(directories: Sequence[Path], argv: Sequence[str]) -> list[str]:
    """A command line that starts `argv` where other users can get to all `directories`. Needs root."""
    real = topmost(Path(os.path.realpath(directory)) for directory in directories)
    covers = covered(real, lambda path: bool(os.stat(path).st_mode & stat.S_IXOTH))
    lists = (json.dumps([str(path) for path in paths]) for paths in (covers, real))
    return [sys.executable, "-I", "-S", str(PROGRAM), *lists, *argv]


def topmost(directories: Iterable[Path]) -> list[Path]:
    """The directories that lie below no other of them. Pure."""
    found: list[Path] = []
    for directory in sorted(set(directories)):
        if not any(directory.is_relative_to(above) for above in found):
            found.append(directory)
    return found


def covered(directories: Sequence[Path], is_open: Callable[[Path], bool]) -> list[Path]:
    """The topmost directories on the way to these that other users cannot pass through. Pure."""
    found: dict[Path, None] = {}
    for directory in directories:
        way = reversed(directory.parents)
        if closed := next((step for step in way if not is_open(step)), None):
            found[closed] = None
    return list(found)


def let_pass(tree: Path, uid: int) -> None:
    """Let the user of a workspace get to its directory, past the one that is ours: pass, not list.

    Needs root; other users of the machine still cannot.
    """
    ours = tree.parent
    os.chown(ours, -1, uid)
    ours.chmod(0o710)
    ours.parent.chmod(stat.S_IMODE(ours.parent.stat().st_mode) | stat.S_IXOTH)
