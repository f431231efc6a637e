"""Files of this machine that a workspace may be given: only below roots that somebody has configured. Blocking."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded
from openskills.executors.files.faults import told
from openskills.executors.files.globs import compiled
from openskills.executors.files.listing import listing
from openskills.executors.files.openat2 import open_beneath, opened

MAX_FILES = 10_000

_FILE = os.O_RDONLY | os.O_NONBLOCK


def host_place(roots: Sequence[Path], path: PurePosixPath) -> tuple[Path, str]:
    """The root that a path is below, and the rest of it. Raises `ForbiddenPath` when there is none."""
    if not roots:
        raise ForbiddenPath(
            f"host://{path} is not available: no directories of this machine are shared;"
            " name some with OPENSKILL_HOST_ROOTS or `host_roots`"
        )
    candidates = {
        PurePosixPath(name): root for root in roots for name in (os.path.realpath(root), os.path.abspath(root))
    }
    fitting = [name for name in candidates if path.is_relative_to(name)]
    if not fitting:
        shared = ", ".join(map(str, roots))
        raise ForbiddenPath(f"host://{path} is in none of the directories that are shared (host_roots): {shared}")
    nearest = max(fitting, key=lambda name: len(name.parts))
    return candidates[nearest], str(path.relative_to(nearest))


class HostFiles:
    """What lies at one path below a root: a file, or the files of a directory. Close it."""

    def __init__(self, root: Path, rest: str) -> None:
        """Raises `InvalidArgument` when there is nothing, `ForbiddenPath` when a link leads out of the root,
        `LimitExceeded` for a directory of more than 10,000 files."""
        self._shown = str(root / rest)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with told(self._shown, field="inputs.from"), opened(os.open(root, flags)) as directory:
            self._descriptor = open_beneath(directory, rest, _FILE)
        self.is_directory = stat.S_ISDIR(os.fstat(self._descriptor).st_mode)
        self.names: tuple[str, ...] = ("",)
        """The paths of the files below it; one empty path for a file."""
        self.skipped: tuple[str, ...] = ()
        """What is no file and is left out."""
        try:
            self._look()
        except BaseException:
            self.close()
            raise

    def open(self, name: str) -> tuple[int, bool]:
        """A descriptor for reading one of the files, and whether it is a program. The descriptor is the caller's."""
        if not name:
            descriptor = os.dup(self._descriptor)
        else:
            with told(name, field="inputs.from"):
                descriptor = open_beneath(self._descriptor, name, _FILE, links=False)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise InvalidArgument("inputs.from", f"{(name or self._shown)!r} is no regular file")
        return descriptor, bool(status.st_mode & 0o100)

    def close(self) -> None:
        """Give back the descriptor."""
        os.close(self._descriptor)

    def _look(self) -> None:
        if not self.is_directory:
            descriptor, _ = self.open("")
            os.close(descriptor)
            return
        found = listing(self._descriptor, compiled(["**"]), since=None, limit=MAX_FILES)
        if not found.complete:
            raise LimitExceeded(f"{self._shown!r} has more than {MAX_FILES:,} files; name a smaller directory")
        self.names = tuple(info.path for info in found.files)
        self.skipped = found.skipped
