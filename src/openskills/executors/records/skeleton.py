"""The directories that every workspace has. Blocking.

Commands may have put a link in the place of one of them since it was made, so nothing here follows one.
"""

import os
from pathlib import Path

from openskills.executors.layout import INPUTS, OUT, RUNS, SKILLS, WORK
from openskills.executors.records.delete import open_allowed


def make_skeleton(tree: Path, uid: int | None) -> None:
    """Make `tree` with its directories, those that are missing; a link or file in the place of one of them goes.

    New ones have mode 0700 and belong to the user `uid`, or to us. The skills belong to us in any case.
    """
    _make(str(tree), None, uid)
    top = open_allowed(str(tree), None)
    try:
        for name in (SKILLS, WORK, RUNS, OUT):
            _make(name, top, None if name == SKILLS else uid)
        if uid is not None:
            _let_others_read(SKILLS, top)
        work = open_allowed(WORK, top)
        try:
            _make(INPUTS.removeprefix(f"{WORK}/"), work, uid)
        finally:
            os.close(work)
    finally:
        os.close(top)


def _make(name: str, parent: int | None, uid: int | None) -> None:
    """Make one directory, unless there is one."""
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        try:
            os.close(open_allowed(name, parent))
        except NotADirectoryError:
            os.unlink(name, dir_fd=parent)
            os.mkdir(name, 0o700, dir_fd=parent)
        else:
            return
    if uid is not None:
        os.chown(name, uid, uid, dir_fd=parent, follow_symlinks=False)


def _let_others_read(name: str, parent: int) -> None:
    descriptor = open_allowed(name, parent)
    try:
        os.fchmod(descriptor, 0o755)
    finally:
        os.close(descriptor)
