"""`Idempotency-Key`: a request that is sent again gets the response of the first one.

Follows the IETF draft: responses are kept for 24 hours per key, route and caller. While the first request is running, a
second one gets 409; the same key with another body gets 422.
"""

import hashlib
import re
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import orjson

from openskills.errors import InvalidArgument, KeyReused, RequestInFlight, StoreUnavailable
from openskills.host.database import Database
from openskills.host.http import HttpExchange, HttpResponse, Trace, build_headers
from openskills.sql import select_rows

KEEP_SECONDS = 24 * 60 * 60.0
LEASE_SECONDS = 120.0
_KEY_PATTERN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")
_RETRY_STATUSES = frozenset({429, 503})
"""Responses after which nothing was done; not stored, so that the client can retry with its key."""

_CLEANUP_INTERVAL = 60.0
_SELECT = "SELECT request, expires, status, body FROM answers WHERE id = ?"
_INSERT = "INSERT OR REPLACE INTO answers (id, request, token, expires) VALUES (?, ?, ?, ?)"
_UPDATE = "UPDATE answers SET status = ?, body = ?, expires = ? WHERE id = ? AND token = ?"
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
    """Responses by key in the host's database, shared by all workers.

    Keys of a worker that died are free again when the lease of the request has expired.
    """

    def __init__(self, store: Database, *, keep: float = KEEP_SECONDS, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._keep = keep
        self._clock = clock
        self._tidied = 0.0

    async def begin(
        self, key: str, principal_name: str, route: str, body_digest: str, *, lease: float = LEASE_SECONDS
    ) -> IdempotentResponse | IdempotencyClaim:
        """Claim a request, or return its stored response. `lease` is how many seconds it can take at most.

        Raises `InvalidArgument` for an invalid key, `RequestInFlight` (409), `KeyReused` (422), and `StoreUnavailable`.
        """
        found = _compute_id(_check_key(key), principal_name, route)
        fresh = IdempotencyClaim(found, secrets.token_hex(16))
        now = self._clock()
        if now - self._tidied > _CLEANUP_INTERVAL:
            await self._clean_up(now)
        return await self._store.write(lambda at: _claim_key(at, fresh, body_digest, now, lease))

    async def finish(self, fresh: IdempotencyClaim, status: int, body: bytes) -> bool:
        """Store the response; 429 and 503 free the key instead. False if the key was lost after the lease."""
        if status in _RETRY_STATUSES:
            return await self.abandon(fresh)
        values = (status, body, self._clock() + self._keep, fresh.id, fresh.token)
        return await self._store.write(lambda at: at.execute(_UPDATE, values).rowcount > 0)

    async def abandon(self, fresh: IdempotencyClaim) -> bool:
        """Free the key without a response, as after a disconnect."""
        return await self._store.write(lambda at: at.execute(_DELETE, (fresh.id, fresh.token)).rowcount > 0)

    async def _clean_up(self, now: float) -> None:
        removed = await self._store.write(lambda at: at.execute(_DELETE_EXPIRED, (now, _DELETE_BATCH)).rowcount)
        # If there may be more, the next request removes it.
        if removed < _DELETE_BATCH:
            self._tidied = now


def _claim_key(
    at: sqlite3.Connection, fresh: IdempotencyClaim, request: str, now: float, lease: float
) -> IdempotentResponse | IdempotencyClaim:
    for known, expires, status, body in select_rows(at, _SELECT, (fresh.id,)):
        if expires <= now:
            break
        if known != request:
            raise KeyReused("this Idempotency-Key was used with another body; use a new key")
        if status is not None:
            return IdempotentResponse(status, bytes(body))
        raise RequestInFlight("the first request with this Idempotency-Key is still running", retry_after=1.0)
    at.execute(_INSERT, (fresh.id, request, fresh.token, now + lease))
    return fresh


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


IDEMPOTENCY_HEADER = b"idempotency-key"


class IdempotencyGuard:
    """Executes each request once."""

    def __init__(self, idempotency: IdempotencyStore) -> None:
        self._idempotency = idempotency

    async def run_once(
        self,
        exchange: HttpExchange,
        work: Callable[[], Awaitable[HttpResponse]],
        *,
        principal: str,
        route: str,
        body: bytes,
        lease: float,
    ) -> HttpResponse:
        """The response of `work`, or the stored one of an earlier request. `lease` is how long the work may take.

        Raises `SkillError` for a key that is invalid, in use (409), or was used with another body (422).
        """
        key = exchange.header(IDEMPOTENCY_HEADER)
        if key is None:
            return await work()
        begun = await self._idempotency.begin(key, principal, route, hashlib.sha256(body).hexdigest(), lease=lease)
        if isinstance(begun, IdempotentResponse):
            return build_replay(begun, exchange.trace)
        try:
            answer = await work()
        except BaseException:
            # No response to store: the caller disconnected, or the work could not start.
            with suppress(StoreUnavailable):
                await self._idempotency.abandon(begun)
            raise
        # The work is done, so its response is sent even if it cannot be stored.
        with suppress(StoreUnavailable):
            await self._idempotency.finish(begun, answer.status, answer.body)
        return answer


def build_replay(earlier: IdempotentResponse, trace: Trace) -> HttpResponse:
    """The stored response, byte for byte, with the trace id of the first request."""
    found = orjson.loads(earlier.body)
    headers = build_headers(Trace(found["trace_id"], trace.here), earlier.body)
    headers.append((b"idempotent-replayed", b"true"))
    if earlier.status == 202:
        headers.append(location_header(found["data"]["id"]))
    return HttpResponse(earlier.status, headers, earlier.body)


def location_header(run_id: str) -> tuple[bytes, bytes]:
    """The `Location` header of a run."""
    return b"location", f"/runs/{run_id}".encode()
