"""Shows which worker processes of a host are alive.

With SQLite each has a locked file next to the host's database. The kernel unlocks the file when its process ends,
however that happens. The file contains what a worker wants to survive it; what has been written survives a kill, not a
power cut. With PostgreSQL each has a row with the time of its last heartbeat, by the clock of the server.
"""

import fcntl
import logging
import os
import platform
import secrets
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from openskills.errors import SkillError
from openskills.host.database import Database, open_connection
from openskills.sql import SqlConnection, select_rows

HEARTBEAT_INTERVAL = 1.0
MAX_SILENCE = 5.0
"""Seconds without a heartbeat after which a worker counts as dead."""
_log = logging.getLogger("openskills.host")
_WARN_INTERVAL = 60.0
_NOW = "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"
_BEAT = f"""
    INSERT INTO workers (id, machine, pid, beat) VALUES (?, ?, ?, {_NOW})
    ON CONFLICT (id) DO UPDATE SET beat = excluded.beat
"""  # noqa: S608 - our own words
# While the server was down nobody could send a heartbeat.
_IS_FRESH = (
    f"{_NOW} - greatest(beat, CAST(extract(epoch FROM pg_postmaster_start_time()) AS DOUBLE PRECISION)) < {MAX_SILENCE}"
)
_IS_ALIVE = f"SELECT 1 FROM workers WHERE id = ? AND {_IS_FRESH}"  # noqa: S608 - our own words
_FORGET_SECONDS = 24 * 60 * 60.0
WORKER_IS_DEAD = f"NOT EXISTS (SELECT 1 FROM workers WHERE workers.id = worker AND {_IS_FRESH})"  # noqa: S608 - our own words
"""A condition of PostgreSQL for rows with a column `worker`."""


_LIST = f"SELECT id, machine, pid, {_NOW} - beat, {_IS_FRESH} FROM workers ORDER BY machine, pid, id"  # noqa: S608 - our own words


def list_workers(at: SqlConnection) -> list[dict[str, Any]]:
    """The workers of all hosts that share this database of PostgreSQL, also those that died within a day."""
    return [
        {
            "id": id_,
            "machine": machine,
            "pid": pid,
            "seen_seconds_ago": round(max(0.0, age), 3),
            "is_alive": bool(fresh),
        }
        for id_, machine, pid, age, fresh in select_rows(at, _LIST)
    ]


class WorkerHeartbeat:
    """The row of this worker in PostgreSQL. A thread writes the time every second, as long as the process lives.

    A worker that was paused, or could not reach the database, counts as dead after five seconds; others then end what
    it was doing as interrupted, and what it writes later changes nothing that has ended.
    """

    def __init__(self, store: Database) -> None:
        self.id = secrets.token_hex(8)
        self._row = (self.id, platform.node(), os.getpid())
        self._connection = open_connection(store.place)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._beat = -MAX_SILENCE
        self._users = 1
        self._warned = -_WARN_INTERVAL

    def hold(self, at: SqlConnection | None = None) -> None:
        """Write the row in this transaction, unless the thread has just done so."""
        if at is not None and time.monotonic() - self._beat > 2 * HEARTBEAT_INTERVAL:
            at.execute(_BEAT, self._row)
        with self._lock:
            if self._thread is None and not self._ending.is_set():
                self._thread = threading.Thread(target=self._run, name="openskills-heartbeat", daemon=True)
                self._thread.start()

    def is_alive(self, worker: str, at: SqlConnection | None = None) -> bool:
        """Whether the worker has sent a heartbeat lately, or this is the one."""
        if worker == self.id:
            return True
        assert at is not None  # noqa: S101 - callers are in a transaction or a query
        return bool(worker) and bool(select_rows(at, _IS_ALIVE, (worker,)))

    def share(self) -> "WorkerHeartbeat":
        """The same worker for another part of the host, which closes it, too."""
        self._users += 1
        return self

    def close(self) -> None:
        """Stop the thread and remove the row, when all parts have closed it."""
        self._users -= 1
        if self._users > 0:
            return
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                # Before, so that the row is never younger than this says.
                now = time.monotonic()
                self._connection.use(self._write)
                self._beat = now
            except SkillError as error:
                if time.monotonic() - self._warned > _WARN_INTERVAL:
                    self._warned = time.monotonic()
                    _log.warning("cannot show other hosts that this one is alive: %s", error.message)
            self._ending.wait(HEARTBEAT_INTERVAL)
        # If that fails, the row is ignored after a few seconds.
        with suppress(SkillError):
            self._connection.use(lambda at: at.execute("DELETE FROM workers WHERE id = ?", (self.id,)))
        self._connection.close()

    def _write(self, at: SqlConnection) -> None:
        at.execute(_BEAT, self._row)
        if self._beat < 0:
            at.execute(f"DELETE FROM workers WHERE beat < {_NOW} - ?", (_FORGET_SECONDS,))  # noqa: S608 - our own words


class WorkerLock:
    """The locked file of this worker. `database` is None for a database in memory, which no other worker shares.

    The file is created by `hold`, and removed by `close` or, if the worker was killed, by who notices it.
    """

    def __init__(self, database: Path | None) -> None:
        self.id = secrets.token_hex(8)
        self._directory = None if database is None else database.with_name(f"{database.name}.workers")
        self.descriptor: int | None = None

    def hold(self, at: SqlConnection | None = None) -> None:  # noqa: ARG002 - see `HostWorker`
        """Create and lock the file, unless that is done. Raises `OSError`."""
        if self._directory is None or self.descriptor is not None:
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._directory / self.id
        while self.descriptor is None:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Until it was locked, somebody may have removed it as that of a dead worker.
            if os.fstat(descriptor).st_nlink > 0:
                self.descriptor = descriptor
            else:
                os.close(descriptor)

    def is_alive(self, worker: str, at: SqlConnection | None = None) -> bool:  # noqa: ARG002 - see `HostWorker`
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


HostWorker: TypeAlias = WorkerHeartbeat | WorkerLock
"""Shows others that this worker is alive, and whether they are. `at` is a connection in a transaction."""


def open_worker(store: Database) -> HostWorker:
    """A new worker that uses this database; others notice it after `hold`."""
    return WorkerHeartbeat(store) if store.is_shared else WorkerLock(store.path)
