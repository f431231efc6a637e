"""`Idempotency-Key` on the wire: a request that comes again gets the answer of the first."""

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress

import orjson

from openskills.errors import StoreUnavailable
from openskills.host.books.idempotency import Fresh, Idempotency, Replayed
from openskills.host.wire.answers import Answer, headers_for
from openskills.host.wire.exchange import Exchange
from openskills.host.wire.trace_ids import Trace

HEADER = b"idempotency-key"


class Replays:
    """Has each piece of work done once."""

    def __init__(self, idempotency: Idempotency) -> None:
        self._idempotency = idempotency

    async def once(
        self,
        exchange: Exchange,
        work: Callable[[], Awaitable[Answer]],
        *,
        principal: str,
        route: str,
        body: bytes,
        lease: float,
    ) -> Answer:
        """The answer of the work, or that of an earlier request with this key. `lease` is how long the work may take.

        Raises `SkillError` for a key that is none, is in use (409), or belongs to another body (422).
        """
        key = exchange.header(HEADER)
        if key is None:
            return await work()
        begun = await self._idempotency.begin(key, principal, route, hashlib.sha256(body).hexdigest(), lease=lease)
        if isinstance(begun, Replayed):
            return replayed(begun, exchange.trace)
        return await self._first(begun, work)

    async def _first(self, fresh: Fresh, work: Callable[[], Awaitable[Answer]]) -> Answer:
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


def replayed(earlier: Replayed, trace: Trace) -> Answer:
    """An earlier answer again, byte for byte. Its trace id is that of the request that did the work."""
    found = orjson.loads(earlier.body)
    headers = headers_for(Trace(found["trace_id"], trace.here), earlier.body)
    headers.append((b"idempotent-replayed", b"true"))
    if earlier.status == 202:
        headers.append(location_of(found["data"]["id"]))
    return Answer(earlier.status, headers, earlier.body)


def location_of(run_id: str) -> tuple[bytes, bytes]:
    """The header that says where a run can be looked at."""
    return b"location", f"/runs/{run_id}".encode()
