"""Calls skills that are Python callables in this process (`inproc`): `package.module:callable`, plain or async.

A function gets the input as a dict and, if it takes a second argument, a `SkillContext`. It returns a normalized result
or just its data; whatever it raises is a failure of the call. Plain functions run in a pool of threads, and the async
functions of a skill in an event loop in a thread of its own. Skills are not isolated: a function that does not return
keeps its thread after the deadline.
"""

import asyncio
import importlib
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from openskills.errors import SkillError
from openskills.executors.spec import Isolation
from openskills.host.model import (
    Call,
    Failure,
    Listener,
    ManifestFault,
    Outcome,
    Registration,
    SkillOutputEvent,
    failure_outcome,
)
from openskills.host.runners.output import RawSkillOutput, outcome_from_output, timeout_outcome
from openskills.settings import Settings
from openskills.telemetry.mask import get_masker

_log = logging.getLogger("openskills.host")
_MAX_THREADS = 32
_STOP_TIMEOUT = 1.0
"""Seconds that a cancelled async function gets to clean up. A loop that is blocked for so long is replaced."""
_NOTES = {"isolation": str(Isolation.NONE)}
_PARAMETERS_WITH_CONTEXT = 2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SkillContext:
    """The context of a call. `deadline` is a time of `time.monotonic`."""

    trace_id: str
    skill_id: str
    deadline: float
    allowed_root: str | None
    environment: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    traceparent: str | None = None
    listener: Listener | None = field(default=None, repr=False)

    def progress(self, **data: Any) -> None:
        """Send a progress event, if anyone listens. Raises `TypeError` for data that are not JSON."""
        if self.listener is not None:
            self.listener(SkillOutputEvent("progress", orjson.loads(orjson.dumps(data))))


@dataclass(frozen=True, slots=True)
class _SkillFunction:
    call: Callable[..., Any]
    is_async: bool
    takes_context: bool


class FunctionRunner:
    """Implements `SkillRunner`."""

    def __init__(self, settings: Settings) -> None:
        self._threads = ThreadPoolExecutor(
            settings.host_concurrency or _MAX_THREADS, thread_name_prefix="openskills-inproc"
        )
        self._functions: dict[str, _SkillFunction] = {}
        self._loops: dict[str, _LoopThread] = {}

    async def prepare(self, registration: Registration) -> None:
        """See `SkillRunner.prepare`."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._load, registration.entry)

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """See `SkillRunner.invoke`."""
        if registration.entry not in self._functions:
            await self.prepare(registration)
        function = self._functions[registration.entry]
        arguments: tuple[Any, ...] = (dict(call.input),)
        if function.takes_context:
            arguments = (*arguments, _build_context(registration, call))
        if function.is_async:
            outcome = await self._run_async(registration.entry, _await_function(function, arguments, call), call)
        else:
            work = self._threads.submit(copy_context().run, _call_function, function, arguments, call)
            try:
                outcome = await _wait(work, call.deadline)
            finally:
                work.cancel()
        return outcome or timeout_outcome(registration.timeout_ms, RawSkillOutput(b"", notes=_NOTES))

    async def forget(self, skill_id: str) -> None:
        """See `SkillRunner.forget`. Imported modules stay."""

    async def close(self) -> None:
        """See `SkillRunner.close`."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.gather(*(asyncio.to_thread(loop.close) for loop in self._loops.values()))

    async def _run_async(self, entry: str, work: Coroutine[Any, Any, Outcome], call: Call) -> Outcome | None:
        loop = self._loops.get(entry)
        if loop is None:
            loop = self._loops[entry] = _LoopThread()
        ended, cancel = loop.start(work)
        try:
            return await _wait(ended, call.deadline)
        finally:
            if not ended.done():
                cancelled = loop.run(cancel)
                await _wait(ended, asyncio.get_running_loop().time() + _STOP_TIMEOUT)
                if not cancelled.done() and self._loops.get(entry) is loop:
                    _log.warning("%s blocks its event loop; the next call gets a new one", entry)
                    del self._loops[entry]
                    loop.stop()

    def _load(self, entry: str) -> None:
        try:
            self._functions[entry] = load_function(entry)
        except SkillError:
            raise
        except BaseException as error:  # noqa: BLE001 - an import runs code of the skill
            raise ManifestFault("entry", f"cannot import {entry!r}: {_describe(error)}") from None


class _LoopThread:
    """An event loop in a thread of its own; any thread may call its methods."""

    def __init__(self) -> None:
        # asyncio's own loop can go on after a task has raised `SystemExit`.
        self._loop = asyncio.SelectorEventLoop()
        self._stopped = False
        self._thread = threading.Thread(target=self._serve, name="openskills-inproc-loop", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, Outcome]) -> "tuple[Future[Outcome], Callable[[], object]]":
        """Start a task. Returns a future of its end, and a function that cancels it, to be called in the loop."""
        ended: Future[Outcome] = Future()
        context = copy_context()

        def begin() -> asyncio.Task[Outcome]:
            task = self._loop.create_task(work, context=context)
            # It never raises, but may be cancelled before it starts.
            task.add_done_callback(lambda done: done.cancelled() or ended.set_result(done.result()))
            return task

        begun = self.run(begin)
        return ended, lambda: begun.result().cancel()

    def run(self, function: Callable[[], T]) -> "Future[T]":
        """Call a function in the loop."""
        done: Future[T] = Future()
        self._loop.call_soon_threadsafe(lambda: done.set_result(function()))
        return done

    def stop(self) -> None:
        """Stop the loop as soon as it does not block."""
        self._stopped = True
        self._loop.call_soon_threadsafe(self._loop.stop)

    def close(self) -> None:
        """Cancel all tasks, and wait a moment for their end."""
        self.stop()
        self._thread.join(_STOP_TIMEOUT)

    def _serve(self) -> None:
        while not self._stopped:
            try:
                self._loop.run_forever()
            except BaseException as error:  # noqa: BLE001 - a task that a skill started raised SystemExit
                _log.warning("a task of an inproc skill raised %s", _describe(error))
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        with suppress(BaseException):
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()


async def _wait(work: "Future[Outcome]", deadline: float) -> Outcome | None:
    """The outcome, or None at the deadline; the work goes on."""
    loop = asyncio.get_running_loop()
    await asyncio.wait([asyncio.wrap_future(work)], timeout=deadline - loop.time())
    return work.result() if work.done() else None


def _call_function(function: _SkillFunction, arguments: tuple[Any, ...], call: Call) -> Outcome:
    try:
        return _outcome_from_value(function.call(*arguments), call)
    except BaseException as error:  # noqa: BLE001 - whatever a skill raises is its result
        return _outcome_from_error(error, call)


async def _await_function(function: _SkillFunction, arguments: tuple[Any, ...], call: Call) -> Outcome:
    try:
        return _outcome_from_value(await function.call(*arguments), call)
    except BaseException as error:  # noqa: BLE001 - whatever a skill raises is its result
        return _outcome_from_error(error, call)


def load_function(entry: str) -> _SkillFunction:
    """Import a callable; raises `ManifestFault`, and whatever its module raises."""
    module, _, name = entry.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise ManifestFault("entry", f"cannot import {module!r}: {error}") from None
    except (AttributeError, ValueError):
        raise ManifestFault("entry", f"{module!r} has no {name!r}; use package.module:callable") from None
    if not callable(found):
        raise ManifestFault("entry", f"{entry!r} is not callable")
    is_async = inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(getattr(found, "__call__", None))  # noqa: B004
    return _SkillFunction(found, is_async, _has_context_parameter(found))


def _has_context_parameter(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in positional for one in parameters) >= _PARAMETERS_WITH_CONTEXT


def _build_context(registration: Registration, call: Call) -> SkillContext:
    root = registration.allowed_root
    return SkillContext(
        trace_id=call.trace_id,
        skill_id=registration.id,
        deadline=call.deadline,
        allowed_root=None if root is None else str(root),
        environment=registration.environment,
        secrets=call.secrets,
        traceparent=call.traceparent,
        listener=call.listener and _forward_to_loop(call.listener),
    )


def _forward_to_loop(listener: Listener) -> Listener:
    loop = asyncio.get_running_loop()

    def forward(event: SkillOutputEvent) -> None:
        # A function that goes on after its deadline may outlive the loop.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(listener, event)

    return forward


def _outcome_from_error(error: BaseException, call: Call) -> Outcome:
    if isinstance(error, SkillError):
        return failure_outcome(error, notes=_NOTES)
    said = get_masker(call.secrets).mask_text(f"the skill's function failed: {_describe(error)}")[:2000]
    details = {"reason": SkillError.reason, "exception": type(error).__name__}
    return failure_outcome(Failure(500, said, details), notes=_NOTES)


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - the message of an exception is code of the skill, too
        return type(error).__name__


def _outcome_from_value(value: Any, call: Call) -> Outcome:
    try:
        written = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError as problem:
        said = f"the skill's function returned a value that is not JSON: {problem}"
        return failure_outcome(Failure(502, said, {"reason": "BAD_SKILL_OUTPUT"}), notes=_NOTES)
    return outcome_from_output(RawSkillOutput(written, secrets=call.secrets, notes=_NOTES))
