"""One run in the process that does it: its task, and its events on their way to the database."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from openskills.errors import RunCancelled, RunInterrupted, SkillError, StoreUnavailable
from openskills.host.books import run_rows
from openskills.host.books.database import Database
from openskills.host.books.run_output import RunOutput
from openskills.host.books.run_states import Run, RunState, ended, without_result
from openskills.host.result import InvokeResult
from openskills.host.runner import Emitted, Listener

Make = Callable[[Listener], Awaitable[InvokeResult]]

_log = logging.getLogger("openskills.host")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0


class LiveRun:
    """Does a run, writes what it shows, and at last how it ended. `changed` is called when something was written."""

    def __init__(self, run: Run, store: Database, output: RunOutput, changed: Callable[[], None]) -> None:
        self._run = run
        self._store = store
        self._output = output
        self._changed = changed
        self._writing: asyncio.Task[None] | None = None
        self._doing: asyncio.Task[InvokeResult] | None = None
        self._cancelled = False
        self._stopped = False
        self._ended = False

    async def go(self, make: Make) -> None:
        """Do it, to the end, whatever that is. A cancellation of this ends the skill and is written as interrupted."""
        state, result = await self._outcome(make)
        self._ended = True
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._end(state, result)

    def cancel(self) -> None:
        """Somebody wants it to end. Safe to call twice, and when it has ended."""
        self._cancelled = True
        if self._doing is not None:
            self._doing.cancel()

    def stop(self) -> None:
        """The host ends, and the skill with it: that is written as interrupted. One that is done is written so."""
        self._stopped = True
        if self._doing is not None:
            self._doing.cancel()

    async def _outcome(self, make: Make) -> tuple[RunState, InvokeResult]:
        if self._cancelled:
            return self._without(RunState.CANCELLED, _CANCELLED)
        if self._stopped:
            return self._without(RunState.INTERRUPTED, _STOPPED)
        # A task of its own: who cancels the skill does not cancel the writing of its end.
        self._doing = asyncio.ensure_future(_made(make, self._show))
        try:
            result = await self._doing
        except asyncio.CancelledError:
            if self._cancelled:
                return self._without(RunState.CANCELLED, _CANCELLED)
            self._doing.cancel()
            await asyncio.wait([self._doing])
            return self._without(RunState.INTERRUPTED, _STOPPED)
        except SkillError as error:
            return self._without(RunState.FAILED, error)
        except BaseException:
            await self._end(*self._without(RunState.FAILED, SkillError("the host failed; its log says why")))
            raise
        return _state_of(result), result

    def _without(self, state: RunState, error: SkillError) -> tuple[RunState, InvokeResult]:
        return state, without_result(self._run, error, time.time())

    def _show(self, emitted: Emitted) -> None:
        if self._ended:
            return
        self._output.add(emitted)
        # While a batch is written the next one gathers.
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while shown := self._output.take():
            now = time.time()
            try:
                await self._store.write(
                    lambda at, shown=shown, now=now: run_rows.add_events(at, self._run.id, shown, now)
                )
            except StoreUnavailable as error:
                # They are written with the next ones, or at the end.
                self._output.put_back(shown)
                _log.warning("events of the run %s wait: %s", self._run.id, error)
                return
            self._changed()

    async def _end(self, state: RunState, result: InvokeResult) -> None:
        run = ended(self._run, state, result, time.time(), cut=self._output.cut)
        shown = self._output.take()
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._store.write(lambda at: run_rows.end(at, run, shown))
            except StoreUnavailable as error:
                # Somebody will ask for the result, so it is worth waiting for a disk that is full.
                _log.warning("the end of the run %s is not written yet: %s", run.id, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                self._changed()
                return


def _state_of(result: InvokeResult) -> RunState:
    failure = result.outcome.failure
    if failure is None:
        return RunState.SUCCEEDED
    # A host that stops may give a result instead of passing the cancellation on.
    return _STATES.get(str(failure.details.get("reason")), RunState.FAILED)


async def _made(make: Make, listener: Listener) -> InvokeResult:
    return await make(listener)


_STATES = {RunInterrupted.reason: RunState.INTERRUPTED, RunCancelled.reason: RunState.CANCELLED}
_CANCELLED = RunCancelled("the run was cancelled before it was done")
_STOPPED = RunInterrupted("the host was stopped while this ran")
