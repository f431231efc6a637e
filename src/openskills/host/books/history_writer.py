"""The thread that writes the history, a batch at a time, so that no call ever waits for a disk."""

import logging
import threading
import time
from collections import deque
from pathlib import Path

from openskills.errors import SkillError
from openskills.host.books.database_connection import Connected
from openskills.host.books.history_rows import forget, put
from openskills.host.books.run_record import RunRecord

_log = logging.getLogger("openskills.host")
_PAUSE = 0.05
_AFTER_FAILURE = 1.0
_BATCH = 1_000
_ROUNDS = 3
_WARN_EVERY = 60.0
_FORGET_EVERY = 300.0
_DAY = 24 * 60 * 60.0


class HistoryWriter:
    """Takes records at once and writes them every 50 ms. What the disk does not take is lost, counted and said.

    At most `most` records wait; a disk that comes back in time loses none.
    """

    def __init__(self, path: Path, *, keep_days: float, keep_rows: int, most: int, patience: float) -> None:
        self._connected = Connected(path, patience)
        self._keep_days = keep_days
        self._keep_rows = keep_rows
        self._most = most
        self._waiting: deque[RunRecord] = deque()
        self._batch: list[RunRecord] = []
        self._something = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._warned = -_WARN_EVERY
        self._tidied = -_FORGET_EVERY
        self.lost = 0

    def take(self, record: RunRecord) -> None:
        """Take a record; never waits."""
        if len(self._waiting) >= self._most:
            self.lost += 1
            return
        self._waiting.append(record)
        if self._thread is None or not self._something.is_set():
            self._start()
            self._something.set()

    def end(self) -> None:
        """Write what waits, or count it as lost, and end the thread. Blocking."""
        # What is taken while the thread is about to end is nobody's, so it is looked for again; not for ever.
        for _ in range(_ROUNDS):
            if self._waiting:
                self._start()
            thread = self._thread
            if thread is None:
                return
            self._ending.set()
            self._something.set()
            thread.join()
            with self._starting:
                # Somebody may have been quicker to begin anew.
                self._thread = None if self._thread is thread else self._thread

    def _start(self) -> None:
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._ending.clear()
                self._thread = threading.Thread(target=self._work, name="openskills-history", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while not self._ending.is_set():
            self._something.wait()
            # Whatever comes in this time goes into the same transaction.
            self._ending.wait(_PAUSE)
            self._something.clear()
            if not self._write_all() and not self._ending.is_set():
                self._something.set()
                self._ending.wait(_AFTER_FAILURE)
        if not self._write_all():
            self.lost += len(self._waiting) + len(self._batch)
            self._waiting.clear()
            self._batch.clear()
        self._connected.close()

    def _write_all(self) -> bool:
        try:
            while self._batch or self._waiting:
                while self._waiting and len(self._batch) < _BATCH:
                    self._batch.append(self._waiting.popleft())
                self._connected.use(lambda connection: put(connection, self._batch))
                self._batch.clear()
            self._tidy()
        except SkillError as error:
            self._warn(error)
            return False
        return True

    def _tidy(self) -> None:
        now = time.monotonic()
        if now - self._tidied < _FORGET_EVERY:
            return
        before = time.time() - self._keep_days * _DAY
        removed = self._connected.use(lambda found: forget(found, before=before, keep_rows=self._keep_rows))
        # When there is more to remove it goes on with the next batch.
        if not removed:
            self._tidied = now

    def _warn(self, error: SkillError) -> None:
        now = time.monotonic()
        if now - self._warned >= _WARN_EVERY:
            self._warned = now
            waiting, lost = len(self._waiting) + len(self._batch), self.lost
            _log.warning("the history is not written: %s (%s rows wait, %s are lost)", error, waiting, lost)
