"""Shows which worker processes of a host are alive, with a locked file for each next to the host's database.

The kernel unlocks the file when its process ends, however that happens. The file contains what a worker wants to
survive it; what has been written survives a kill, not a power cut.
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
        self.descriptor: int | None = None

    def hold(self) -> None:
        """Create and lock the file, unless that is done. Raises `OSError`."""
        if self._directory is None or self.descriptor is not None:
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, linked = self._directory / self.id, False
        while not linked:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Until it was locked, somebody may have removed it as that of a dead worker.
            linked = os.fstat(descriptor).st_nlink > 0
            if not linked:
                os.close(descriptor)
            else:
                self.descriptor = descriptor

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
            if not os.fstat(descriptor).st_size:
                path.unlink(missing_ok=True)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def find_dead(self) -> list[Path]:
        """The files of dead workers that have content. Raises `OSError`."""
        if self._directory is None or not self._directory.is_dir():
            return []
        # `is_alive` removes files without content.
        dead = [self._directory / name for name in os.listdir(self._directory) if not self.is_alive(name)]
        return [path for path in dead if path.exists()]

    def close(self) -> None:
        """Unlock and remove the file: from now on this worker counts as dead. Safe to call twice."""
        if self._directory is not None and self.descriptor is not None:
            with suppress(OSError):
                (self._directory / self.id).unlink()
            # Explicitly: closing does not free it while a forked child has a copy of the descriptor.
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            os.close(self.descriptor)
            self.descriptor = None
