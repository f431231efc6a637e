"""The same request twice is done once: answers are kept under the key that the client chose.

As the IETF draft of the `Idempotency-Key` header says: an answer is kept for 24 hours for each key, route and caller;
while the first request is under way a second gets 409; the same key with another body gets 422.
"""

import hashlib
import re
import secrets
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from openskills.errors import InvalidArgument, KeyReused, RequestInFlight
from openskills.host.books.database import Database
from openskills.host.books.database_opening import rows

KEEP = 24 * 60 * 60.0
LEASE = 120.0
_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")
_COME_BACK = frozenset({429, 503})
"""An answer with one of these did nothing; it is not kept, so that the client can try again with its key."""

_TIDY_EVERY = 60.0
_FIND = "SELECT request, expires, status, body FROM answers WHERE id = ?"
_BEGIN = "INSERT OR REPLACE INTO answers (id, request, token, expires) VALUES (?, ?, ?, ?)"
_FINISH = "UPDATE answers SET status = ?, body = ?, expires = ? WHERE id = ? AND token = ?"
_FORGET = "DELETE FROM answers WHERE id = ? AND token = ?"
_TIDY = "DELETE FROM answers WHERE id IN (SELECT id FROM answers WHERE expires < ? LIMIT ?)"
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Replayed:
    """The request was done before: this was the answer."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Fresh:
    """The request is ours to do; give this to `finish`."""

    id: str
    token: str = field(repr=False)


class Idempotency:
    """Answers by key in the host's database, shared by all workers.

    A worker that dies in the middle frees its keys when the lease of the request is over.
    """

    def __init__(self, store: Database, *, keep: float = KEEP, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._keep = keep
        self._clock = clock
        self._tidied = 0.0

    async def begin(
        self, key: str, principal_name: str, route: str, body_digest: str, *, lease: float = LEASE
    ) -> Replayed | Fresh:
        """Whether this request is to be done, or what was answered before.

        `lease` is how many seconds it can take at most. Raises `InvalidArgument` for a key that is none,
        `RequestInFlight` (409), `KeyReused` (422), and `StoreUnavailable`: what cannot be remembered is not promised.
        """
        found = _id_of(_checked(key), principal_name, route)
        fresh = Fresh(found, secrets.token_hex(16))
        now = self._clock()
        if now - self._tidied > _TIDY_EVERY:
            await self._tidy(now)
        return await self._store.write(lambda at: _begin(at, fresh, body_digest, now, lease))

    async def finish(self, fresh: Fresh, status: int, body: bytes) -> bool:
        """Keep the answer. An answer that says "come back later" is not kept, and frees the key.

        False when the lease was over and somebody else has the key now.
        """
        if status in _COME_BACK:
            return await self.abandon(fresh)
        values = (status, body, self._clock() + self._keep, fresh.id, fresh.token)
        return await self._store.write(lambda at: at.execute(_FINISH, values).rowcount > 0)

    async def abandon(self, fresh: Fresh) -> bool:
        """There is no answer, as when the client went away: the key is free again."""
        return await self._store.write(lambda at: at.execute(_FORGET, (fresh.id, fresh.token)).rowcount > 0)

    async def _tidy(self, now: float) -> None:
        removed = await self._store.write(lambda at: at.execute(_TIDY, (now, _AT_ONCE)).rowcount)
        # When there is more to remove, the next request does it.
        if removed < _AT_ONCE:
            self._tidied = now


def _begin(at: sqlite3.Connection, fresh: Fresh, request: str, now: float, lease: float) -> Replayed | Fresh:
    for known, expires, status, body in rows(at, _FIND, (fresh.id,)):
        if expires <= now:
            break
        if known != request:
            raise KeyReused("this Idempotency-Key came before with another body; use a new key for new work")
        if status is not None:
            return Replayed(status, bytes(body))
        message = "the first request with this Idempotency-Key is under way; its answer can be had when it is done"
        raise RequestInFlight(message, retry_after=1.0)
    at.execute(_BEGIN, (fresh.id, request, fresh.token, now + lease))
    return fresh


def _checked(key: str) -> str:
    # The draft has it in quotes, most clients do not.
    bare = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
    if _KEY.fullmatch(bare) is None:
        raise InvalidArgument("Idempotency-Key", "use 1 to 255 characters of ASCII, such as a UUID")
    return bare


def _id_of(key: str, principal_name: str, route: str) -> str:
    # Lengths, so that no two different triples become one.
    parts = "".join(f"{len(part)}:{part}" for part in (key, principal_name, route))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()
