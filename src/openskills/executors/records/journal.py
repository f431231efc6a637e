"""At most once: which requests began in a workspace, and how they ended. Blocking.

A request that began in a process which is no more reads as interrupted: nobody knows how far it came, so it is never
run again under the same id. What `finish` was told with `durable` survives a loss of power; everything survives the end
of the process, at whatever moment.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import cast

from openskills.artifacts.disk import flush_directory
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.records.journal_lines import ENDED, began, ended, line_in, lines_in
from openskills.files import ARRIVING, replace_file_durably

KEEP = 1000
KEEP_BYTES = 32 * 1024 * 1024
"""How many requests are remembered, and in how many bytes; the latest one always is."""

_REQUEST = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_LOG, _LOCK = "log", "lock"


class State(StrEnum):
    """What became of an earlier request."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Begun:
    """The request is new; whoever has this runs it, and tells the journal how it ended."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """The request began before and must not be run; `record` is what `finish` was told, empty unless finished."""

    state: State
    record: Mapping[str, object]


@dataclass(slots=True)
class _Entry:
    fingerprint: str
    state: State
    began: "_Span | None" = None
    ended: "_Span | None" = None


_Span = tuple[int, int]
"""Where a line is in the file: its first byte, and how many there are without its end."""


class Journal:
    """The journal of one workspace, in a directory of its own. One process at a time has it; its threads may share it.

    Only the last `keep` requests are remembered: an id that comes again after that is new.
    """

    def __init__(self, directory: Path, *, keep: int = KEEP) -> None:
        """Open it, or begin one. Raises `ExecutorUnavailable` when another process has it or the disk fails."""
        self._path = directory / _LOG
        self._keep = keep
        self._entries: dict[str, _Entry] = {}
        self._guard = threading.Lock()
        self._named = False
        self._log = self._lock = -1
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            self._lock = _locked(directory / _LOCK)
            _remove_arrivals(directory)
            self._open()
        except OSError as error:
            self.close()
            raise self._unusable(error) from error
        except BaseException:
            self.close()
            raise

    def begin(self, request_id: str, fingerprint: str, *, durable: bool = False) -> Begun | Earlier:
        """Ask to run a request: `Begun` when nobody did before, otherwise what became of it.

        `fingerprint` says what is requested. Raises `InvalidArgument` when the same id was used for something else, or
        is no id, and `ExecutorUnavailable` when it cannot be written down; then it must not be run.
        """
        if not _REQUEST.fullmatch(request_id):
            raise InvalidArgument("request_id", f"{request_id[:140]!r} is no id; use 1 to 128 of A-Z a-z 0-9 . _ : -")
        digest = hashlib.sha256(fingerprint.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        with self._guard:
            known = self._entries.get(request_id)
            if known is not None:
                return self._earlier(request_id, known, digest)
            span = self._append(began(request_id, digest, time.time()), durable=durable)
            self._entries[request_id] = _Entry(digest, State.RUNNING, began=span)
        return Begun(request_id)

    def finish(self, request_id: str, record: Mapping[str, object], *, durable: bool) -> None:
        """Write down how a request ended that began here. Once this returns, `begin` answers with it.

        Raises `InvalidArgument` for a request that is not running or a record that is no JSON, `ExecutorUnavailable`
        when it cannot be written down.
        """
        with self._guard:
            entry = self._entries.get(request_id)
            if entry is None or entry.state is not State.RUNNING:
                raise InvalidArgument("request_id", f"{request_id[:140]!r} is not running here")
            try:
                text = ended(request_id, entry.fingerprint, record)
            except (TypeError, ValueError) as error:
                raise InvalidArgument("record", f"cannot be written as JSON: {error}") from None
            entry.ended = self._append(text, durable=durable)
            entry.state = State.FINISHED
            self._forget_the_oldest()

    def close(self) -> None:
        """Let another process have it. What is running here then reads as interrupted. Safe to call twice."""
        with self._guard:
            if self._lock >= 0:
                # Said aloud: closing would not free it as long as a forked child has a copy.
                fcntl.flock(self._lock, fcntl.LOCK_UN)
                os.close(self._lock)
            if self._log >= 0:
                os.close(self._log)
            self._log = self._lock = -1

    def _earlier(self, request_id: str, entry: _Entry, digest: str) -> Earlier:
        if entry.fingerprint != digest:
            raise InvalidArgument("request_id", f"{request_id!r} was used for another request; give each its own")
        if entry.ended is None:
            return Earlier(entry.state, {})
        line = line_in(self._text(entry.ended))
        if line is None:
            raise ExecutorUnavailable(f"the journal {self._path} is damaged: a result cannot be read")
        return Earlier(entry.state, cast("dict[str, object]", json.loads(line.rest)))

    def _text(self, span: _Span) -> bytes:
        return os.pread(self._log, span[1], span[0])

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._log = os.open(self._path, flags, 0o600)
        data = _content(self._log)
        # What a crash cut short goes, so that the next line begins where a line begins.
        self._end = data.rfind(b"\n") + 1
        if self._end != len(data):
            os.ftruncate(self._log, self._end)
        self._remember(data)

    def _remember(self, data: bytes) -> None:
        """The entries of all lines; what has not ended began in a process that is no more."""
        for line in lines_in(data):
            entry = self._entries.setdefault(line.request, _Entry(line.fingerprint, State.INTERRUPTED))
            if line.kind == ENDED:
                entry.state, entry.ended = State.FINISHED, (line.offset, line.length)
            else:
                entry.began = (line.offset, line.length)

    def _append(self, text: bytes, *, durable: bool) -> _Span:
        """Write one line after the others; leaves no part of it when that fails."""
        if self._log < 0:
            raise ExecutorUnavailable(f"the journal {self._path} is closed")
        try:
            written = os.pwrite(self._log, text, self._end)
            if durable:
                self._settle()
        except OSError as error:
            self._cut_back()
            raise self._unusable(error) from error
        if written != len(text):
            self._cut_back()
            raise self._unusable(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        self._end += len(text)
        return self._end - len(text), len(text) - 1

    def _cut_back(self) -> None:
        # Where even that fails, opening it does it: a line that is not whole counts as not there.
        with suppress(OSError):
            os.ftruncate(self._log, self._end)

    def _settle(self) -> None:
        os.fdatasync(self._log)
        if not self._named:
            # The names on the way to it, once: those of the journal, of the workspace, and of all workspaces.
            for directory in list(self._path.parents)[:3]:
                flush_directory(directory)
            self._named = True

    def _forget_the_oldest(self) -> None:
        """Begin a new file with the latest requests when the old one has many more."""
        if len(self._entries) < 2 * self._keep and self._end < 2 * KEEP_BYTES:
            return
        kept: list[tuple[str, _Entry]] = []
        size = 0
        for number, (request, entry) in enumerate(reversed(self._entries.items())):
            size += sum(span[1] + 1 for span in (entry.began, entry.ended) if span)
            if entry.state is State.RUNNING or number == 0 or (number < self._keep and size <= KEEP_BYTES):
                kept.append((request, entry))
        self._rewrite(dict(reversed(kept)))

    def _rewrite(self, kept: Mapping[str, _Entry]) -> None:
        spans = (span for entry in kept.values() for span in (entry.began, entry.ended) if span)
        try:
            replace_file_durably(self._path, b"".join(self._text(span) + b"\n" for span in spans))
        except OSError:
            return  # no room for a second file; the old one goes on growing until there is
        try:
            os.close(self._log)
            self._log = -1
            self._entries.clear()
            self._open()
        except OSError as error:
            raise self._unusable(error) from error
        for request, entry in kept.items():
            self._entries[request].state = entry.state

    def _unusable(self, error: OSError) -> ExecutorUnavailable:
        what = error.strerror or str(error)
        return ExecutorUnavailable(f"the journal {self._path} cannot be used: {what}; make room, or check its owner")


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ExecutorUnavailable(f"the journal {path.parent} is in use by another process; try again later") from None
    return descriptor


def _content(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    pieces: list[bytes] = []
    place = 0
    while place < size and (piece := os.pread(descriptor, size - place, place)):
        pieces.append(piece)
        place += len(piece)
    return b"".join(pieces)


def _remove_arrivals(directory: Path) -> None:
    """Remove what a process left that was killed while it began a new file."""
    for name in os.listdir(directory):
        if name.startswith(ARRIVING):
            os.unlink(directory / name)
