"""At most once: a request that comes again gets the answer of the first time, and nothing is run."""

import asyncio
import base64
import hashlib
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

from openskills.artifacts.threads import to_the_end
from openskills.errors import (
    CommandDenied,
    ExecutorUnavailable,
    ForbiddenPath,
    InvalidArgument,
    LimitExceeded,
    SkillError,
)
from openskills.executors.records.journal import Begun, Earlier, Journal, State
from openskills.executors.requests import RunRequest, RunResult, interrupted
from openskills.executors.spec import Isolation
from openskills.executors.stored import result_from, stored

_INTERRUPTED = "the host ended while it ran; what it did until then is done, and it is not run again"


class Replay:
    """The requests of one session, in a journal that survives this process; opened when the first one comes."""

    def __init__(self, directory: Path, isolation: Isolation) -> None:
        self._directory = directory
        self._opened: Journal | None = None
        self._opening = threading.Lock()
        self._isolation = isolation
        self._running: dict[str, tuple[str, asyncio.Task[RunResult]]] = {}

    async def once(self, request: RunRequest, run: Callable[[], Awaitable[RunResult]]) -> RunResult:
        """Run a request unless it began before; then wait for the one that runs, or give the answer that it got.

        When this returns the answer is durable. One that was running when the host died is `interrupted`. Raises
        `InvalidArgument` when its id was used for another request.
        """
        id_, wanted = str(request.request_id), fingerprint(request)
        running = self._running.get(id_)
        if running is not None:
            return await self._same(id_, wanted, *running)
        task = asyncio.ensure_future(self._first(id_, wanted, run))
        self._running[id_] = (wanted, task)
        try:
            return await task
        finally:
            del self._running[id_]

    def close(self) -> None:
        """Let another process have the journal."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    async def _same(self, id_: str, wanted: str, known: str, running: asyncio.Task[RunResult]) -> RunResult:
        if wanted != known:
            raise InvalidArgument("request_id", f"{id_!r} is the id of another request, which is running")
        await asyncio.wait([running])
        if running.cancelled():
            raise ExecutorUnavailable(f"the request {id_} was cancelled while it ran; use a new request id")
        return replace(running.result(), replayed=True)

    async def _first(self, id_: str, wanted: str, run: Callable[[], Awaitable[RunResult]]) -> RunResult:
        begun: Begun | Earlier | None = None
        try:
            begun = await to_the_end(lambda: self._journal.begin(id_, wanted, durable=True))
            if isinstance(begun, Earlier):
                return self._answer(begun, id_)
            result = await run()
            await self._finish(id_, stored(result))
        except SkillError as error:
            if isinstance(begun, Begun):
                await self._give_up(id_, error.reason, error.message)
            raise
        except BaseException as error:
            # Cancelled, perhaps while it was being written down that it began.
            if not isinstance(begun, Earlier):
                await self._give_up(id_, "CANCELLED", f"it was broken off ({type(error).__name__})")
            raise
        return result

    async def _give_up(self, id_: str, reason: str, message: str) -> None:
        # It may never have begun, or its answer may be there already.
        with suppress(InvalidArgument):
            await asyncio.shield(self._finish(id_, {"error": reason, "message": message}))

    @property
    def _journal(self) -> Journal:
        # Asked for in worker threads: the first two requests may come together.
        with self._opening:
            if self._opened is None:
                self._opened = Journal(self._directory)
            return self._opened

    async def _finish(self, id_: str, record: Mapping[str, object]) -> None:
        await to_the_end(lambda: self._journal.finish(id_, record, durable=True))

    def _answer(self, earlier: Earlier, id_: str) -> RunResult:
        if earlier.state is State.INTERRUPTED:
            return interrupted(self._isolation, id_, _INTERRUPTED)
        if earlier.state is State.RUNNING:
            raise ExecutorUnavailable(f"the request {id_} is running at this moment; ask again")
        record = earlier.record
        if "error" in record:
            raise _same_error(str(record["error"]), f"{record['message']} (request {id_}, which is not run again)")
        return replace(result_from(cast("Mapping[str, Any]", record)), replayed=True)


def _same_error(reason: str, message: str) -> SkillError:
    """An error of the same kind as the first time, as far as a message makes one."""
    kinds = {
        CommandDenied.reason: CommandDenied,
        ForbiddenPath.reason: ForbiddenPath,
        LimitExceeded.reason: LimitExceeded,
    }
    if reason == InvalidArgument.reason:
        field, _, what = message.partition(": ")
        return InvalidArgument(field, what)
    return kinds.get(reason, ExecutorUnavailable)(message)


def fingerprint(request: RunRequest) -> str:
    """What makes two requests the same: everything but their id."""
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    values |= {
        "request_id": None,
        "env": sorted(request.env.items()),
        "stdin": hashlib.sha256(request.stdin).hexdigest(),
    }
    whole = repr(sorted(values.items()))
    return base64.b64encode(hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest()).decode()
