"""Shows which worker processes of a host are alive, with a locked file for each next to the host's database.

The kernel unlocks the file when its process ends, however that happens.
"""

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path


class WorkerLock:
    """The locked file of this worker. `database` is None for a database in memory, which no other worker shares.

    The file is created by `hold`, and removed by `close` or, if the worker was killed, by who notices it.
    """

    def __init__(self, database: Path | None) -> None:
        self.id = secrets.token_hex(8)
        self._directory = None if database is None else database.with_name(f"{database.name}.workers")
        self._descriptor: int | None = None

    def hold(self) -> None:
        """Create and lock the file, unless that is done. Raises `OSError`."""
        if self._directory is None or self._descriptor is not None:
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._directory / self.id, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._descriptor = descriptor

    def is_alive(self, worker: str) -> bool:
        """Whether the worker with this id is running. Raises `OSError`."""
        if worker == self.id:
            return True
        if self._directory is None or not worker:
            return False
        path = self._directory / worker
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            # Shared, so that two who look at once do not see each other.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                path.unlink()
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def close(self) -> None:
        """Unlock and remove the file: from now on this worker counts as dead. Safe to call twice."""
        if self._directory is not None and self._descriptor is not None:
            with suppress(OSError):
                (self._directory / self.id).unlink()
            # Explicitly: closing does not free it while a forked child has a copy of the descriptor.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None
