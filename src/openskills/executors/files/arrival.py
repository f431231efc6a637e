"""A file on its way into a workspace: it appears whole, in one step, or not at all."""

import os
import secrets

from openskills.executors.files.faults import told
from openskills.executors.files.listing import info_of
from openskills.executors.spec import FileInfo
from openskills.files import ARRIVING

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Arrival:
    """Pieces are written to a file beside the place; `commit` gives it its name. `Tree.arriving` makes one."""

    def __init__(self, parent: int, path: str, *, executable: bool, owner: tuple[int, int] | None) -> None:
        """`parent` is a descriptor of the directory, open for as long as this is used; `path` is in the workspace."""
        self._parent = parent
        self._path = path
        self._temporary: str | None = ARRIVING + secrets.token_hex(8)
        self._descriptor = os.open(self._temporary, _FLAGS, 0o600, dir_fd=parent)
        # By what it is opened with, so whatever the umask says.
        os.fchmod(self._descriptor, 0o700 if executable else 0o600)
        if owner is not None:
            os.fchown(self._descriptor, *owner)

    def write(self, piece: bytes) -> None:
        """Add a piece; raises `LimitExceeded` when the disk is full."""
        view = memoryview(piece)
        with told(self._path):
            while view:
                view = view[os.write(self._descriptor, view) :]

    def commit(self) -> FileInfo:
        """Put it in its place. A file or link there is replaced; a link is not followed."""
        assert self._temporary is not None  # noqa: S101  nobody commits twice
        with told(self._path):
            name = os.path.basename(self._path)
            os.rename(self._temporary, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
            self._temporary = None
        return info_of(self._path, os.fstat(self._descriptor))

    def close(self) -> None:
        """Give back the descriptor; what was not committed is removed."""
        os.close(self._descriptor)
        if self._temporary is not None:
            try:
                os.unlink(self._temporary, dir_fd=self._parent)
            except FileNotFoundError:
                # A script can remove whatever it sees.
                self._temporary = None
