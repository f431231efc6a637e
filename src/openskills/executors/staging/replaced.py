"""Which snapshot a skill of a workspace was made from, and what becomes of one that another has replaced. Blocking.

The record is written last. So after a crash in between, the replaced directory is the one that the record names, under
another name: that is how its `.venv` finds its way back.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from openskills.errors import ForbiddenPath
from openskills.executors.files.openat2 import open_beneath, opened
from openskills.executors.layout import SKILLS, VENV
from openskills.executors.staging.copying import DIRECTORY
from openskills.files import ARRIVING, replace_file

STAGED = "staged"
"""The directory beside the tree that says which snapshots are in it, out of the reach of scripts."""

_READ = os.O_RDONLY | os.O_DIRECTORY
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


def remember(tree: Path, name: str, digest: str) -> None:
    """Write down that the skill `name` of this workspace has this digest."""
    directory = tree.parent / STAGED
    directory.mkdir(mode=0o700, exist_ok=True)
    inode = os.lstat(tree / SKILLS / name).st_ino
    replace_file(directory / name, f"{digest} {inode}".encode("ascii"))


def remembered(tree: Path, name: str) -> tuple[str, int] | None:
    """The digest that was written down for a skill, and the inode of its directory; None when there is nothing."""
    try:
        digest, _, inode = (tree.parent / STAGED / name).read_text("ascii").partition(" ")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return (digest, int(inode)) if inode.isdigit() else None


def keep_venv(skills: int, replaced: str, target: int) -> None:
    """Take over the `.venv` of what was replaced. It takes the place of the empty one in one step, so that there is
    one at any moment, also after a crash. One that is not empty any more stays."""
    try:
        before = open_beneath(skills, replaced, _READ, links=False)
    except (OSError, ForbiddenPath):
        return
    with opened(before), suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(VENV, dir_fd=before, follow_symlinks=False).st_mode):
            # Who is not root needs the permission to take something out of a directory.
            os.fchmod(before, 0o700)
            _move_venv(before, target)
            os.fchmod(before, DIRECTORY)


def recover(tree: Path, skills: int) -> None:
    """Finish what a crash interrupted after a skill had been replaced, and before its `.venv` was taken over.

    `skills` is a descriptor of the workspace's skills. Nothing is done in the usual case.
    """
    waiting = {
        os.lstat(entry, dir_fd=skills).st_ino: entry for entry in os.listdir(skills) if entry.startswith(ARRIVING)
    }
    for name, inode in _all_remembered(tree) if waiting else ():
        if inode in waiting:
            _take_back(skills, waiting[inode], name)


def _take_back(skills: int, replaced: str, name: str) -> None:
    try:
        current = open_beneath(skills, name, _READ, links=False)
    except FileNotFoundError:
        # Where the system cannot exchange two names in one step there is a moment without.
        os.rename(replaced, name, src_dir_fd=skills, dst_dir_fd=skills)
        return
    except (OSError, ForbiddenPath):
        return
    with opened(current):
        os.fchmod(current, 0o700)
        keep_venv(skills, replaced, current)
        os.fchmod(current, DIRECTORY)


def _move_venv(before: int, target: int) -> None:
    try:
        os.rename(VENV, VENV, src_dir_fd=before, dst_dir_fd=target)
    except OSError as error:
        if error.errno not in _NOT_EMPTY:
            raise


def _all_remembered(tree: Path) -> Iterator[tuple[str, int]]:
    with suppress(FileNotFoundError):
        for name in os.listdir(tree.parent / STAGED):
            record = remembered(tree, name)
            if record is not None:
                yield name, record[1]
