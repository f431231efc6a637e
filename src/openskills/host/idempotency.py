"""Idempotency-Key.

The same request twice is done once: answers are kept under the key that the client chose.

As the IETF draft of the `Idempotency-Key` header says: an answer is kept for 24 hours for each key, route and caller;
while the first request is under way a second gets 409; the same key with another body gets 422.

`Idempotency-Key` on the wire: a request that comes again gets the answer of the first.
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
from openskills.host.database import Database, select_rows
from openskills.host.http import HttpExchange, HttpResponse, Trace, build_headers

KEEP_SECONDS = 24 * 60 * 60.0
LEASE_SECONDS = 120.0
_KEY_PATTERN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")
_RETRY_STATUSES = frozenset({429, 503})
"""An answer with one of these did nothing; it is not kept, so that the client can try again with its key."""

_CLEANUP_INTERVAL = 60.0
_SELECT = "SELECT request, expires, status, body FROM answers WHERE id = ?"
_INSERT = "INSERT OR REPLACE INTO answers (id, request, token, expires) VALUES (?, ?, ?, ?)"
_UPDATE = "UPDATE answers SET status = ?, body = ?, expires = ? WHERE id = ? AND token = ?"
_DELETE = "DELETE FROM answers WHERE id = ? AND token = ?"
_DELETE_EXPIRED = "DELETE FROM answers WHERE id IN (SELECT id FROM answers WHERE expires < ? LIMIT ?)"
_DELETE_BATCH = 500


@dataclass(frozen=True, slots=True)
class IdempotentResponse:
    """The request was done before: this was the answer."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class IdempotencyClaim:
    """The request is ours to do; give this to `finish`."""

    id: str
    token: str = field(repr=False)


class IdempotencyStore:
    """Answers by key in the host's database, shared by all workers.

    A worker that dies in the middle frees its keys when the lease of the request is over.
    """

    def __init__(self, store: Database, *, keep: float = KEEP_SECONDS, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._keep = keep
        self._clock = clock
        self._tidied = 0.0

    async def begin(
        self, key: str, principal_name: str, route: str, body_digest: str, *, lease: float = LEASE_SECONDS
    ) -> IdempotentResponse | IdempotencyClaim:
        """Whether this request is to be done, or what was answered before.

        `lease` is how many seconds it can take at most. Raises `InvalidArgument` for a key that is none,
        `RequestInFlight` (409), `KeyReused` (422), and `StoreUnavailable`: what cannot be remembered is not promised.
        """
        found = _compute_id(_check_key(key), principal_name, route)
        fresh = IdempotencyClaim(found, secrets.token_hex(16))
        now = self._clock()
        if now - self._tidied > _CLEANUP_INTERVAL:
            await self._clean_up(now)
        return await self._store.write(lambda at: _claim_key(at, fresh, body_digest, now, lease))

    async def finish(self, fresh: IdempotencyClaim, status: int, body: bytes) -> bool:
        """Keep the answer. An answer that says "come back later" is not kept, and frees the key.

        False when the lease was over and somebody else has the key now.
        """
        if status in _RETRY_STATUSES:
            return await self.abandon(fresh)
        values = (status, body, self._clock() + self._keep, fresh.id, fresh.token)
        return await self._store.write(lambda at: at.execute(_UPDATE, values).rowcount > 0)

    async def abandon(self, fresh: IdempotencyClaim) -> bool:
        """There is no answer, as when the client went away: the key is free again."""
        return await self._store.write(lambda at: at.execute(_DELETE, (fresh.id, fresh.token)).rowcount > 0)

    async def _clean_up(self, now: float) -> None:
        removed = await self._store.write(lambda at: at.execute(_DELETE_EXPIRED, (now, _DELETE_BATCH)).rowcount)
        # When there is more to remove, the next request does it.
        if removed < _DELETE_BATCH:
            self._tidied = now


def _claim_key(
    at: sqlite3.Connection, fresh: IdempotencyClaim, request: str, now: float, lease: float
) -> IdempotentResponse | IdempotencyClaim:
    for known, expires, status, body in select_rows(at, _SELECT, (fresh.id,)):
        if expires <= now:
            break
        if known != request:
            raise KeyReused("this Idempotency-Key came before with another body; use a new key for new work")
        if status is not None:
            return IdempotentResponse(status, bytes(body))
        message = "the first request with this Idempotency-Key is under way; its answer can be had when it is done"
        raise RequestInFlight(message, retry_after=1.0)
    at.execute(_INSERT, (fresh.id, request, fresh.token, now + lease))
    return fresh


def _check_key(key: str) -> str:
    # The draft has it in quotes, most clients do not.
    bare = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
    if _KEY_PATTERN.fullmatch(bare) is None:
        raise InvalidArgument("Idempotency-Key", "use 1 to 255 characters of ASCII, such as a UUID")
    return bare


def _compute_id(key: str, principal_name: str, route: str) -> str:
    # Lengths, so that no two different triples become one.
    parts = "".join(f"{len(part)}:{part}" for part in (key, principal_name, route))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


IDEMPOTENCY_HEADER = b"idempotency-key"


class IdempotencyGuard:
    """Has each piece of work done once."""

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
        """The answer of the work, or that of an earlier request with this key. `lease` is how long the work may take.

        Raises `SkillError` for a key that is none, is in use (409), or belongs to another body (422).
        """
        key = exchange.header(IDEMPOTENCY_HEADER)
        if key is None:
            return await work()
        begun = await self._idempotency.begin(key, principal, route, hashlib.sha256(body).hexdigest(), lease=lease)
        if isinstance(begun, IdempotentResponse):
            return build_replay(begun, exchange.trace)
        return await self._run_claim(begun, work)

    async def _run_claim(self, fresh: IdempotencyClaim, work: Callable[[], Awaitable[HttpResponse]]) -> HttpResponse:
        try:
            answer = await work()
        except BaseException:
            # There is no answer to keep: who called is gone, or the work could not begin.
            with suppress(StoreUnavailable):
                await self._idempotency.abandon(fresh)
            raise
        # The work is done; that it cannot be remembered must not take its answer away.
        with suppress(StoreUnavailable):
            await self._idempotency.finish(fresh, answer.status, answer.body)
        return answer


def build_replay(earlier: IdempotentResponse, trace: Trace) -> HttpResponse:
    """An earlier answer again, byte for byte. Its trace id is that of the request that did the work."""
    found = orjson.loads(earlier.body)
    headers = build_headers(Trace(found["trace_id"], trace.here), earlier.body)
    headers.append((b"idempotent-replayed", b"true"))
    if earlier.status == 202:
        headers.append(location_header(found["data"]["id"]))
    return HttpResponse(earlier.status, headers, earlier.body)


def location_header(run_id: str) -> tuple[bytes, bytes]:
    """The header that says where a run can be looked at."""
    return b"location", f"/runs/{run_id}".encode()
