"""A run that goes on at the host, whoever watches."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any

from openskills.errors import BadSkillOutput, HostUnavailable
from openskills.host.calling.connection import Answered, Connection
from openskills.host.calling.listing import told
from openskills.host.calling.reading import excerpt, read_result
from openskills.host.calling.request import Ask, run_path
from openskills.host.calling.stream import events_in
from openskills.host.calling.stream_events import StreamEvent, ended
from openskills.host.result import InvokeResult

_MOST_BREAKS = 5
"""How often in a row a stream may break off without anything new."""


class StartedRun:
    """A run of the host. `id` is empty when the host had the result, or a refusal, at once."""

    def __init__(
        self,
        connection: Connection,
        run_id: str,
        trace_id: str,
        timeout: float | None,
        done: InvokeResult | None = None,
    ) -> None:
        self.id = run_id
        self.trace_id = trace_id
        self._connection = connection
        self._timeout = timeout
        self._done = done

    async def events(self, after: str | None = None) -> AsyncGenerator[StreamEvent]:
        """What the run does, from its beginning or from after the event of an id, to its result.

        A stream that breaks off is taken up again where it was. Closing the generator leaves the run alone.
        """
        if self._done is not None:
            yield ended(self._done)
            return
        deadline = None if self._timeout is None else asyncio.get_running_loop().time() + self._timeout
        breaks = 0
        numbered = True
        # Where events have no ids, to begin again would be to tell them twice.
        while numbered and breaks <= _MOST_BREAKS:
            with suppress(HostUnavailable):
                async with aclosing(self._watch(after, deadline)) as watched:
                    async for event in watched:
                        breaks, after, numbered = 0, event.id or after, event.id is not None
                        self._done = event.result
                        yield event
                        if event.result is not None:
                            return
            breaks += 1
            await asyncio.sleep(self._connection.limits.retries.before_next(breaks, 0.5))
        raise HostUnavailable(f"{self._connection.base} ends the events of the run {self.id} before its result")

    async def result(self) -> InvokeResult:
        """Wait for the end."""
        async with aclosing(self.events()) as events:
            async for event in events:
                if event.result is not None:
                    return event.result
        raise HostUnavailable(f"the run {self.id} has no result")

    async def status(self) -> Mapping[str, Any]:
        """What the host says of the run now. Raises `SkillFailed` for one that it does not know any more."""
        return told(await self._ask("GET", ""))

    async def cancel(self) -> None:
        """End the run. One that has ended already stays as it is."""
        if self._done is None:
            told(await self._ask("POST", ":cancel"))

    async def _ask(self, method: str, rest: str) -> InvokeResult:
        # To cancel twice is to cancel.
        ask = Ask(method, run_path(self.id, rest), {"X-Trace-Id": self.trace_id}, repeatable=True)
        answer = await self._connection.fetch(ask, asyncio.get_running_loop().time() + (self._timeout or 30.0))
        return read_result(answer.body, status=answer.status)

    async def _watch(self, after: str | None, deadline: float | None) -> AsyncGenerator[StreamEvent]:
        headers = {"Accept": "text/event-stream", "X-Trace-Id": self.trace_id}
        if after is not None:
            headers["Last-Event-ID"] = after
        ask = Ask("GET", run_path(self.id, "/events"), headers, repeatable=True)
        async with (
            self._connection.opened(ask, deadline) as answer,
            aclosing(events_in(self._connection, answer)) as events,
        ):
            async for event in events:
                yield event


def started(connection: Connection, answer: Answered[bytes], timeout: float | None) -> StartedRun:
    """The run that an answer to `Prefer: respond-async` tells of. A host may also answer with the result itself."""
    result = read_result(answer.body, status=answer.status)
    if answer.status != 202:
        return StartedRun(connection, "", result.trace_id, timeout, result)
    data = result.outcome.data or {}
    run_id = data.get("run_id") or data.get("id") or answer.headers.get("location", "").rpartition("/")[2]
    if not isinstance(run_id, str) or not run_id:
        raise BadSkillOutput("the host started a run and did not say which", excerpt=excerpt(answer.body))
    return StartedRun(connection, run_id, result.trace_id, timeout)
