"""Request journal: a repeated request id gets the first answer, and nothing is run again.

Each line says that a request began or how it ended:

    checksum  B  request  fingerprint  time
    checksum  E  request  fingerprint  result as JSON

A partial last line, left by a crash, was never acknowledged; lines with a wrong checksum are ignored. A request that
began in a process that has died is interrupted: how far it came is unknown, so it never runs again under the same id.
Durable lines survive a loss of power; all lines survive the end of the process.
"""

import asyncio
import errno
import fcntl
import hashlib
import json
import os
import re
import threading
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from openskills.artifacts.store import Artifact
from openskills.concurrency import run_in_thread
from openskills.errors import (
    CommandDenied,
    ExecutorUnavailable,
    ForbiddenPath,
    InvalidArgument,
    LimitExceeded,
    SkillError,
)
from openskills.executors.protocol import RequestKeeper
from openskills.executors.requests import RunRequest, RunResult, build_interrupted_result
from openskills.executors.spec import CapturedOutput, CommandResult, Isolation, build_reader
from openskills.executors.staging.inputs import StagedInput
from openskills.executors.staging.outputs import OutputFile, allot_bytes
from openskills.filesystem import TEMPORARY_PREFIX, flush_directory, replace_file

BEGAN, ENDED = b"B", b"E"
_PARTS = 4


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One complete line and its position in the file. `rest` is the time or the result."""

    offset: int
    length: int
    kind: bytes
    request: str
    fingerprint: str
    rest: bytes


def format_begin_line(request: str, fingerprint: str, time: float) -> bytes:
    """The line for the start of a request."""
    return _format_line(BEGAN, request, fingerprint, b"%.3f" % time)


def format_end_line(request: str, fingerprint: str, result: Mapping[str, object]) -> bytes:
    """The line for the end of a request. Raises `TypeError` or `ValueError` if the result is not JSON."""
    # JSON escapes newlines and everything beyond ASCII.
    text = json.dumps(result, allow_nan=False, separators=(",", ":"))
    return _format_line(ENDED, request, fingerprint, text.encode())


def parse_lines(data: bytes) -> Iterator[JournalLine]:
    """Every complete line, in order."""
    offset = 0
    while (end := data.find(b"\n", offset)) >= 0:
        if found := parse_line(data[offset:end], offset):
            yield found
        offset = end + 1


def parse_line(text: bytes, offset: int = 0) -> JournalLine | None:
    """Parse a line without its newline; None if it is incomplete."""
    body = text[9:]
    parts = body.split(b" ", 3)
    if text[:9] != _checksum(body) or len(parts) != _PARTS:
        return None
    kind, request, fingerprint, rest = parts
    return JournalLine(offset, len(text), kind, request.decode("ascii"), fingerprint.decode("ascii"), rest)


def _format_line(kind: bytes, request: str, fingerprint: str, rest: bytes) -> bytes:
    body = b" ".join((kind, request.encode("ascii"), fingerprint.encode("ascii"), rest))
    return _checksum(body) + body + b"\n"


def _checksum(body: bytes) -> bytes:
    return b"%08x " % zlib.crc32(body)


KEEP = 1000
KEEP_BYTES = 32 * 1024 * 1024
"""The maximum number and bytes of remembered requests; the latest one is always remembered."""

_REQUEST = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_LOG, _LOCK = "log", "lock"


class RequestState(StrEnum):
    """The state of an earlier request."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class EarlierRequest:
    """The request began before and must not run; `record` is the one given to `finish`, empty unless finished."""

    state: RequestState
    record: Mapping[str, object]


@dataclass(slots=True)
class _JournalEntry:
    fingerprint: str
    state: RequestState
    began: "_ByteRange | None" = None
    ended: "_ByteRange | None" = None


_ByteRange = tuple[int, int]
"""The offset of a line in the file, and its length without the newline."""


class Journal:
    """The journal of one workspace, in its own directory. It belongs to one process, whose threads may share it.

    Only the last `keep` requests are remembered; an older id counts as new.
    """

    def __init__(self, directory: Path, *, keep: int = KEEP) -> None:
        """Open or create it. Raises `ExecutorUnavailable` if another process has it or the disk fails."""
        self._path = directory / _LOG
        self._keep = keep
        self._entries: dict[str, _JournalEntry] = {}
        self._guard = threading.Lock()
        self._named = False
        self._log = self._lock = -1
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            self._lock = _lock_journal(directory / _LOCK)
            for name in os.listdir(directory):
                # A process was killed while it rewrote the journal.
                if name.startswith(TEMPORARY_PREFIX):
                    os.unlink(directory / name)
            self._open()
        except OSError as error:
            self.close()
            raise self._journal_error(error) from error
        except BaseException:
            self.close()
            raise

    def begin(self, request_id: str, fingerprint: str, *, durable: bool = False) -> EarlierRequest | None:
        """Register a request: None if it is new and the caller has to run it, otherwise its state.

        `fingerprint` identifies what is requested. Raises `InvalidArgument` for an invalid id, or one that was used for
        another request, and `ExecutorUnavailable` if it cannot be recorded; then it must not run.
        """
        if not _REQUEST.fullmatch(request_id):
            raise InvalidArgument(
                "request_id", f"invalid id {request_id[:140]!r}; use 1 to 128 characters of A-Z a-z 0-9 . _ : -"
            )
        digest = hashlib.sha256(fingerprint.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        with self._guard:
            known = self._entries.get(request_id)
            if known is not None:
                earlier = self._describe_earlier(request_id, known, digest)
                # A denied command never ran, and the next answer to the approval question may be yes.
                if earlier.record.get("error") != CommandDenied.reason:
                    return earlier
            span = self._append(format_begin_line(request_id, digest, time.time()), durable=durable)
            self._entries[request_id] = _JournalEntry(digest, RequestState.RUNNING, began=span)
        return None

    def finish(self, request_id: str, record: Mapping[str, object], *, durable: bool) -> None:
        """Record how a request ended that began here; from now on `begin` returns it.

        Raises `InvalidArgument` if the request is not running or the record is not JSON, `ExecutorUnavailable` if it
        cannot be written.
        """
        with self._guard:
            entry = self._entries.get(request_id)
            if entry is None or entry.state is not RequestState.RUNNING:
                raise InvalidArgument("request_id", f"{request_id[:140]!r} is not running here")
            try:
                text = format_end_line(request_id, entry.fingerprint, record)
            except (TypeError, ValueError) as error:
                raise InvalidArgument("record", f"cannot be written as JSON: {error}") from None
            entry.ended = self._append(text, durable=durable)
            entry.state = RequestState.FINISHED
            self._compact_if_large()

    def close(self) -> None:
        """Release it to other processes; running requests then count as interrupted. Safe to call twice."""
        with self._guard:
            if self._lock >= 0:
                # Explicitly: closing does not free it while a forked child has a copy.
                fcntl.flock(self._lock, fcntl.LOCK_UN)
                os.close(self._lock)
            if self._log >= 0:
                os.close(self._log)
            self._log = self._lock = -1

    def _describe_earlier(self, request_id: str, entry: _JournalEntry, digest: str) -> EarlierRequest:
        if entry.fingerprint != digest:
            raise InvalidArgument("request_id", f"{request_id!r} was used for another request; use a new id")
        if entry.ended is None:
            return EarlierRequest(entry.state, {})
        line = parse_line(self._read_range(entry.ended))
        if line is None:
            raise ExecutorUnavailable(f"the journal {self._path} is damaged: a result cannot be read")
        return EarlierRequest(entry.state, cast("dict[str, object]", json.loads(line.rest)))

    def _read_range(self, span: _ByteRange) -> bytes:
        return os.pread(self._log, span[1], span[0])

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._log = os.open(self._path, flags, 0o600)
        with open(self._log, "rb", closefd=False) as file:
            data = file.read()
        # Remove a partial line that a crash left.
        self._end = data.rfind(b"\n") + 1
        if self._end != len(data):
            os.ftruncate(self._log, self._end)
        for line in parse_lines(data):
            # A request without an end began in a process that has died.
            entry = self._entries.setdefault(line.request, _JournalEntry(line.fingerprint, RequestState.INTERRUPTED))
            if line.kind == ENDED:
                entry.state, entry.ended = RequestState.FINISHED, (line.offset, line.length)
            else:
                entry.state, entry.ended = RequestState.INTERRUPTED, None
                entry.began = (line.offset, line.length)

    def _append(self, text: bytes, *, durable: bool) -> _ByteRange:
        """Append one line; leaves no part of it on failure."""
        if self._log < 0:
            raise ExecutorUnavailable(f"the journal {self._path} is closed")
        failure: OSError | None = None
        try:
            if os.pwrite(self._log, text, self._end) != len(text):
                failure = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            elif durable:
                self._sync()
        except OSError as error:
            failure = error
        if failure is not None:
            # If this fails, too, the next opening ignores the partial line.
            with suppress(OSError):
                os.ftruncate(self._log, self._end)
            raise self._journal_error(failure) from failure
        self._end += len(text)
        return self._end - len(text), len(text) - 1

    def _sync(self) -> None:
        os.fdatasync(self._log)
        if not self._named:
            # Once: the directories of the journal, of the workspace, and of all workspaces.
            for directory in list(self._path.parents)[:3]:
                flush_directory(directory)
            self._named = True

    def _compact_if_large(self) -> None:
        """Rewrite the file with the latest requests if it has many more."""
        if len(self._entries) < 2 * self._keep and self._end < 2 * KEEP_BYTES:
            return
        kept: list[tuple[str, _JournalEntry]] = []
        size = 0
        for number, (request, entry) in enumerate(reversed(self._entries.items())):
            size += sum(span[1] + 1 for span in (entry.began, entry.ended) if span)
            if entry.state is RequestState.RUNNING or number == 0 or (number < self._keep and size <= KEEP_BYTES):
                kept.append((request, entry))
        self._rewrite(dict(reversed(kept)))

    def _rewrite(self, kept: Mapping[str, _JournalEntry]) -> None:
        spans = (span for entry in kept.values() for span in (entry.began, entry.ended) if span)
        try:
            replace_file(self._path, b"".join(self._read_range(span) + b"\n" for span in spans), durable=True)
        except OSError:
            return  # the disk is full; the old file grows until there is space
        try:
            os.close(self._log)
            self._log = -1
            self._entries.clear()
            self._open()
        except OSError as error:
            raise self._journal_error(error) from error
        for request, entry in kept.items():
            self._entries[request].state = entry.state

    def _journal_error(self, error: OSError) -> ExecutorUnavailable:
        what = error.strerror or str(error)
        return ExecutorUnavailable(f"cannot use the journal {self._path}: {what}; check disk space and permissions")


def _lock_journal(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ExecutorUnavailable(f"the journal {path.parent} is in use by another process; try again later") from None
    return descriptor


INLINE_BYTES = 256 * 1024
"""The maximum bytes of output file content in one journal record; the files themselves stay in the workspace."""

_ENDED = ("exit_code", "ending", "duration_ms", "cpu_ms", "memory_bytes", "detail")


def record_from_result(result: RunResult) -> dict[str, Any]:
    """The JSON record of a result, from which the same request is answered again."""
    ended = result.ended
    shares = allot_bytes([len(file.data) for file in result.output_files], INLINE_BYTES)
    files = [
        {**_record_from_file(file), "data": _encode_bytes(file.data) if share == len(file.data) else None}
        for file, share in zip(result.output_files, shares, strict=True)
    ]
    return {
        **{name: getattr(ended, name) for name in _ENDED},
        "stdout": _record_from_stream(ended.stdout),
        "stderr": _record_from_stream(ended.stderr),
        "isolation": str(result.isolation),
        "run_id": result.run_id,
        "digest": result.digest,
        "output_files": files,
        "artifact_files": [_record_from_artifact(artifact) for artifact in result.artifact_files],
        "staged_inputs": [asdict(staged) for staged in result.staged_inputs],
        "warnings": list(result.warnings),
    }


def result_from_record(record: Mapping[str, Any]) -> RunResult:
    """The result of a record made by `record_from_result`."""
    count = sum(file["data"] is None for file in record["output_files"])
    missing = (f"the content of {count} files is not kept with this answer; read them by their ref",) if count else ()
    ended = {name: record[name] for name in (*_ENDED, "stdout", "stderr") if name in record}
    return RunResult(
        build_reader(CommandResult)(ended),
        Isolation(record["isolation"]),
        record["run_id"],
        digest=record["digest"],
        output_files=tuple(map(_file_from_record, record["output_files"])),
        artifact_files=tuple(map(_artifact_from_record, record["artifact_files"])),
        staged_inputs=build_reader(tuple[StagedInput, ...])(record["staged_inputs"]),
        warnings=(*record["warnings"], *missing),
    )


def result_to_json(result: RunResult) -> dict[str, Any]:
    """A result as JSON for programs."""
    return {
        "stdout": result.stdout,
        "stderr": result.stderr,
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "duration_ms": result.ended.duration_ms,
        "isolation": str(result.isolation),
        "ending": str(result.ended.ending),
        "detail": result.ended.detail,
        "run_id": result.run_id,
        "skill_digest": result.digest,
        "output_files": [_file_to_json(file) for file in result.output_files],
        "artifact_files": [_record_from_artifact(artifact) for artifact in result.artifact_files],
        "staged_inputs": [{"from": one.source, "to": one.to} for one in result.staged_inputs],
        "warnings": list(result.warnings),
        "replayed": result.replayed,
    }


def _file_to_json(file: OutputFile) -> dict[str, Any]:
    found = {"name": file.path, **_record_from_file(file), "ref": file.ref}
    text = file.text() if file.data else None
    return found if text is None else {**found, "content": text}


def _record_from_file(file: OutputFile) -> dict[str, Any]:
    return {"path": file.path, "size_bytes": file.size, "mime_type": file.mime_type, "truncated": file.truncated}


def _file_from_record(record: Mapping[str, Any]) -> OutputFile:
    data = record["data"]
    truncated = record["truncated"] or data is None
    return OutputFile(
        record["path"], b64decode(data or ""), record["size_bytes"], record["mime_type"], truncated=truncated
    )


def _record_from_artifact(artifact: Artifact) -> dict[str, Any]:
    return {
        "name": artifact.name,
        "version": artifact.version,
        "ref": artifact.ref,
        "size_bytes": artifact.size,
        "mime_type": artifact.mime_type,
        "sha256": artifact.sha256,
        "created_at": artifact.created_at.isoformat(),
    }


def _artifact_from_record(record: Mapping[str, Any]) -> Artifact:
    return Artifact(
        record["name"],
        record["version"],
        record["size_bytes"],
        record["mime_type"],
        record["sha256"],
        datetime.fromisoformat(record["created_at"]),
    )


def _record_from_stream(captured: CapturedOutput) -> dict[str, Any]:
    return {"head": _encode_bytes(captured.head), "tail": _encode_bytes(captured.tail), "cut": captured.cut}


def _encode_bytes(data: bytes) -> str:
    return b64encode(data).decode("ascii")


_BEGAN_ELSEWHERE = "it began on another machine; it may have had effects and is not run again"
_INTERRUPTED = "the host process ended while it ran; it may have had effects and is not run again"


class RequestDeduplicator:
    """Runs each request of a session at most once. The journal is opened by the first request.

    `keeper` is asked, too, if other machines can use the workspace.
    """

    def __init__(self, directory: Path, isolation: Isolation, *, keeper: RequestKeeper | None = None) -> None:
        self._directory = directory
        self._keeper = keeper
        self._opened: Journal | None = None
        self._opening = threading.Lock()
        self._isolation = isolation
        self._running: dict[str, tuple[str, asyncio.Task[RunResult]]] = {}

    @property
    def is_available(self) -> bool:
        """Whether the workspace has a directory on this machine, which the journal is kept in and removed with."""
        return self._directory.parent.is_dir()

    async def run_once(self, request: RunRequest, run: Callable[[], Awaitable[RunResult]]) -> RunResult:
        """Run a request unless it began before; otherwise wait for it, or return its recorded answer.

        When this returns, the answer is recorded. A request that was running when the host died is `interrupted`.
        Raises `InvalidArgument` if the id was used for another request.
        """
        id_, wanted = str(request.request_id), build_fingerprint(request)
        running = self._running.get(id_)
        if running is not None:
            return await self._join_running(id_, wanted, *running)
        task = asyncio.ensure_future(self._run_first(request, wanted, run))
        self._running[id_] = (wanted, task)
        try:
            return await task
        finally:
            del self._running[id_]

    def close(self) -> None:
        """Close the journal."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    async def _join_running(self, id_: str, wanted: str, known: str, running: asyncio.Task[RunResult]) -> RunResult:
        if wanted != known:
            raise InvalidArgument("request_id", f"{id_!r} is used by another request, which is running")
        await asyncio.wait([running])
        if running.cancelled():
            raise ExecutorUnavailable(f"the request {id_} was cancelled while it ran; use a new request id")
        return replace(running.result(), replayed=True)

    async def _run_first(self, request: RunRequest, wanted: str, run: Callable[[], Awaitable[RunResult]]) -> RunResult:
        id_, durable = str(request.request_id), request.durable
        began, earlier = False, None
        try:
            earlier = await run_in_thread(lambda: self._journal.begin(id_, wanted, durable=durable))
            if earlier is not None:
                return self._replay(earlier, id_)
            began = True
            if self._keeper is None or await self._keeper.claim_request(id_):
                result = await run()
            else:
                result = build_interrupted_result(self._isolation, id_, _BEGAN_ELSEWHERE)
            await self._finish(id_, record_from_result(result), durable=durable)
        except SkillError as error:
            if began:
                await self._record_failure(id_, error.reason, error.message)
            if began and self._keeper is not None and isinstance(error, CommandDenied):
                # It never ran, and may be allowed when it is repeated.
                await self._keeper.release_request(id_)
            raise
        except BaseException as error:
            # Cancelled, perhaps while its start was being recorded.
            if earlier is None:
                await self._record_failure(id_, "CANCELLED", f"the request was cancelled ({type(error).__name__})")
            raise
        return result

    async def _record_failure(self, id_: str, reason: str, message: str) -> None:
        # It may not have begun, or may have an answer already.
        with suppress(InvalidArgument):
            await asyncio.shield(self._finish(id_, {"error": reason, "message": message}, durable=True))

    @property
    def _journal(self) -> Journal:
        # Called in worker threads: the first two requests may come together.
        with self._opening:
            if self._opened is None:
                self._opened = Journal(self._directory)
            return self._opened

    async def _finish(self, id_: str, record: Mapping[str, object], *, durable: bool) -> None:
        await run_in_thread(lambda: self._journal.finish(id_, record, durable=durable))

    def _replay(self, earlier: EarlierRequest, id_: str) -> RunResult:
        if earlier.state is RequestState.INTERRUPTED:
            return build_interrupted_result(self._isolation, id_, _INTERRUPTED)
        if earlier.state is RequestState.RUNNING:
            raise ExecutorUnavailable(f"the request {id_} is still running; try again later")
        record = earlier.record
        if "error" in record:
            raise _error_from_record(str(record["error"]), f"{record['message']} (request {id_} is not run again)")
        return replace(result_from_record(cast("Mapping[str, Any]", record)), replayed=True)


def _error_from_record(reason: str, message: str) -> SkillError:
    """An error of the same class as the first time, if a message is enough to build one."""
    kinds = {kind.reason: kind for kind in (CommandDenied, ForbiddenPath, LimitExceeded)}
    if reason == InvalidArgument.reason:
        field, _, what = message.partition(": ")
        return InvalidArgument(field, what)
    return kinds.get(reason, ExecutorUnavailable)(message)


def build_fingerprint(request: RunRequest) -> str:
    """A digest of everything in a request but its id, and where its packages are."""
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    stdin = hashlib.sha256(request.stdin).hexdigest()
    values |= {"request_id": None, "packages": None, "env": sorted(request.env.items()), "stdin": stdin}
    whole = repr(sorted(values.items()))
    return _encode_bytes(hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest())
