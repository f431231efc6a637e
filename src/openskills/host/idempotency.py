"""`Idempotency-Key`: a request that is sent again gets the response of the first one, and its skill runs once.

Follows the IETF draft: responses are kept for 24 hours per key, skill and caller. While the first request is running, a
second one gets 409; the same key with another body gets 422. The work goes on when its caller is gone. If the worker
process dies, the response is `INTERRUPTED`. A key is free again only if its skill was never called.

A caller gets a result only after it was stored. Otherwise a host that dies before it can store the result would have
sent one response, and other hosts would send `INTERRUPTED`.
"""

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from openskills.errors import InvalidArgument, KeyReused, RequestInFlight, RunInterrupted, StoreUnavailable
from openskills.host.database import Database
from openskills.host.http import HttpResponse, Trace, build_headers, encode_result
from openskills.host.model import failure_outcome, normalize_outcome
from openskills.host.service import Invocation, InvokeRequest
from openskills.host.workers import HostWorker, open_worker
from openskills.sql import SqlConnection, select_rows
from openskills.version import __version__

IDEMPOTENCY_HEADER = b"idempotency-key"
REPLAYED_HEADER = (b"idempotent-replayed", b"true")
KEEP_SECONDS = 24 * 60 * 60.0
CLOSE_TIMEOUT = 5.0
"""Seconds that unfinished work gets at shutdown to store its response."""
_KEY_PATTERN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")
_FIRST_PAUSE, _MAX_PAUSE = 0.1, 5.0
_RETRY_AFTER = 1.0
T = TypeVar("T")
_log = logging.getLogger("openskills.host")

_CLEANUP_INTERVAL = 60.0
_SELECT = "SELECT request, expires, status, body, worker, trace_id FROM answers WHERE id = ?"
_INSERT = """
    INSERT INTO answers (id, request, token, expires, worker, trace_id) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET request = excluded.request, token = excluded.token, expires = excluded.expires,
        worker = excluded.worker, trace_id = excluded.trace_id, status = NULL, body = NULL
"""
# After this worker was taken for dead, the request may have been answered with INTERRUPTED: that stays.
_UPDATE = "UPDATE answers SET status = ?, body = ?, expires = ? WHERE id = ? AND token = ? AND status IS NULL"
_END = "UPDATE answers SET status = ?, body = ? WHERE id = ?"
_DELETE = "DELETE FROM answers WHERE id = ? AND token = ?"
_DELETE_EXPIRED = "DELETE FROM answers WHERE id IN (SELECT id FROM answers WHERE expires < ? LIMIT ?)"
_DELETE_BATCH = 500


@dataclass(frozen=True, slots=True)
class IdempotentResponse:
    """The stored response to an earlier request."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class IdempotencyClaim:
    """The right to execute a request; pass it to `finish`."""

    id: str
    token: str = field(repr=False)


class IdempotencyStore:
    """Responses by key in the host's database, shared by all workers. Belongs to one event loop."""

    def __init__(
        self,
        store: Database,
        worker: HostWorker | None = None,
        *,
        keep: float = KEEP_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._worker = worker or open_worker(store)
        self._keep = keep
        self._clock = clock
        self._tidied = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def begin(
        self, key: str, asked: InvokeRequest, *, skill_id: str, mode: str = "sync"
    ) -> IdempotentResponse | IdempotencyClaim:
        """Claim a request, or return its stored response. A claim must be passed to `start`, `finish` or `abandon`.

        Raises `InvalidArgument` for an invalid key, `RequestInFlight` (409), `KeyReused` (422), and `StoreUnavailable`.
        """
        found = _compute_id(_check_key(key), asked.principal.name, skill_id)
        fresh = IdempotencyClaim(found, secrets.token_hex(16))
        digest = hashlib.sha256(f"{mode}:".encode() + asked.body).hexdigest()
        now = self._clock()
        if now - self._tidied > _CLEANUP_INTERVAL:
            await self._clean_up(now)

        def claim(at: SqlConnection) -> IdempotentResponse | IdempotencyClaim:
            # Of two hosts that get the same request, the second one waits for the first.
            at.lock(f"answer {fresh.id}")
            earlier = _find_response(at, fresh.id, digest, now, skill_id, self._worker)
            if earlier is None:
                self._worker.hold(at)
                values = (fresh.id, digest, fresh.token, now + self._keep, self._worker.id, asked.trace_id)
                at.execute(_INSERT, values)
            return earlier or fresh

        try:
            return await self._store.write(claim)
        except StoreUnavailable:
            if self._store.is_shared:
                # It may have been stored before the connection was lost, and would block the key.
                self._track(self._retry(_DELETE, (fresh.id, fresh.token)))
            raise

    def start(self, claim: IdempotencyClaim, work: Coroutine[Any, Any, Invocation]) -> asyncio.Task[Invocation]:
        """Perform a claimed request in a task of its own, which nobody should cancel, and store its response."""

        async def perform() -> Invocation:
            ended = await work
            if ended.started:
                await self.finish(claim, ended.result.status, ended.body)
            else:
                await self.abandon(claim)
            return ended

        return self._track(perform())

    async def finish(self, claim: IdempotencyClaim, status: int, body: bytes) -> None:
        """Store the response.

        Raises `StoreUnavailable` with the detail `executed` if the database cannot be written: then it is stored in
        the background as soon as possible, and must not be sent before. Raises `RunInterrupted` if other hosts took
        this one for dead and have answered the request: both callers have to get the same.
        """
        values = (status, body, self._clock() + self._keep, claim.id, claim.token)
        try:
            changed = await self._store.write(lambda at: at.execute(_UPDATE, values).rowcount)
        except StoreUnavailable as error:
            _log.warning("cannot store an idempotent response yet: %s", error)
            self._track(self._retry(_UPDATE, values))
            details = {"retry_after": _RETRY_AFTER, **error.details, "executed": True}
            raise StoreUnavailable(error.message, **details) from error
        if not changed and self._store.is_shared:
            message = "this host was paused or cut off, and others have answered the request as interrupted"
            raise RunInterrupted(message, retryable=False)

    async def abandon(self, claim: IdempotencyClaim) -> None:
        """Free the key of a request whose skill was not called."""
        # Should that fail, the key is answered with INTERRUPTED after this worker has ended.
        with suppress(StoreUnavailable):
            await self._store.write(lambda at: at.execute(_DELETE, (claim.id, claim.token)))

    async def close(self) -> None:
        """Wait a moment for running work. What does not end counts as interrupted."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.to_thread(self._worker.close)

    def _track(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end_task)
        return task

    def _end_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # Its caller may be gone; then nobody else would look at the error.
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("a request with an Idempotency-Key has no result for its caller: %s", error)

    async def _retry(self, sql: str, values: tuple[Any, ...]) -> None:
        pause = _FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE)
            with suppress(StoreUnavailable):
                await self._store.write(lambda at: at.execute(sql, values))
                return

    async def _clean_up(self, now: float) -> None:
        removed = await self._store.write(lambda at: at.execute(_DELETE_EXPIRED, (now, _DELETE_BATCH)).rowcount)
        # If there may be more, the next request removes it.
        if removed < _DELETE_BATCH:
            self._tidied = now


def _find_response(
    at: SqlConnection, row: str, request: str, now: float, skill_id: str, worker: HostWorker
) -> IdempotentResponse | None:
    for known, expires, status, body, owner, trace_id in select_rows(at, _SELECT, (row,)):
        if expires <= now:
            break
        if known != request:
            raise KeyReused("this Idempotency-Key was used with another body or mode; use a new key")
        if status is not None:
            return IdempotentResponse(status, bytes(body))
        if worker.is_alive(owner, at):
            raise RequestInFlight("the first request with this Idempotency-Key is still running", retry_after=1.0)
        said = "the worker process ended during the first request with this Idempotency-Key; how far it got is unknown"
        outcome = failure_outcome(RunInterrupted(said, retryable=False))
        result = normalize_outcome(outcome, skill_id=skill_id, trace_id=trace_id, latency_ms=0.0, version=__version__)
        response = IdempotentResponse(result.status, encode_result(result)[1])
        at.execute(_END, (response.status, response.body, row))
        return response
    return None


def _check_key(key: str) -> str:
    # Quoted in the draft, unquoted by most clients.
    bare = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
    if _KEY_PATTERN.fullmatch(bare) is None:
        raise InvalidArgument("Idempotency-Key", "use 1 to 255 ASCII characters, such as a UUID")
    return bare


def _compute_id(key: str, principal_name: str, route: str) -> str:
    # With lengths, so that different triples have different ids.
    parts = "".join(f"{len(part)}:{part}" for part in (key, principal_name, route))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def build_replay(earlier: IdempotentResponse, trace: Trace) -> HttpResponse:
    """The stored response, byte for byte, with the trace id of the first request."""
    found = orjson.loads(earlier.body)
    headers = build_headers(Trace(found["trace_id"], trace.here), earlier.body)
    headers.append(REPLAYED_HEADER)
    if earlier.status == 202:
        headers.append(location_header(found["data"]["id"]))
    return HttpResponse(earlier.status, headers, earlier.body)


def location_header(run_id: str) -> tuple[bytes, bytes]:
    return b"location", f"/runs/{run_id}".encode()
