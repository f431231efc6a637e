"""Calls skills that are Python callables in this process (`inproc`): `package.module:callable`, plain or async.

A function gets the input as a dict and, if it takes a second argument, a `SkillContext`. It returns a normalized result
or just its data; whatever it raises is a failure of the call. Text that it prints becomes events, as with commands.
Plain functions run in a pool of threads, and the async functions of a skill in an event loop in a thread of its own.
Skills are not isolated: a function that does not return keeps its thread after the deadline.
"""

import asyncio
import importlib
import inspect
import logging
import math
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Generic, TextIO, TypeVar, cast

import orjson

from openskills.errors import BadSkillOutput, SkillError
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
from openskills.host.runners.output import (
    LiveLines,
    RawSkillOutput,
    excerpt,
    outcome_from_output,
    parse_failure,
    timeout_outcome,
)
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
    """Implements `SkillRunner`. While it is open, `sys.stdout` and `sys.stderr` tell calls apart."""

    def __init__(self, settings: Settings) -> None:
        self._threads = _ThreadPool(settings.host_concurrency or _MAX_THREADS)
        self._functions: dict[str, _SkillFunction] = {}
        self._loops: dict[str, _LoopThread] = {}
        self._streams = (_CallStream("stdout", sys.stdout), _CallStream("stderr", sys.stderr))
        # All other attributes of a stream are those of the original.
        sys.stdout, sys.stderr = cast("tuple[TextIO, TextIO]", self._streams)

    async def prepare(self, registration: Registration) -> None:
        loaded: _ThreadResult[_SkillFunction | ManifestFault] = _ThreadResult()
        self._threads.submit(lambda: loaded.set(_load(registration.entry)))
        function = await loaded.wait(math.inf)
        if isinstance(function, ManifestFault):
            raise function
        assert function is not None  # noqa: S101 - there is no deadline
        self._functions[registration.entry] = function

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        if registration.entry not in self._functions:
            await self.prepare(registration)
        function = self._functions[registration.entry]
        arguments: tuple[Any, ...] = (dict(call.input),)
        if function.takes_context:
            arguments = (*arguments, _build_context(registration, call))
        output = _CallOutput(registration.limits.output_bytes, call)
        ended: _ThreadResult[Outcome] = _ThreadResult()
        context = copy_context()
        context.run(_OUTPUT.set, output)
        if function.is_async:
            work = _await_function(function, arguments, output, ended)
            outcome = await self._run_async(registration.entry, work, context, ended, call.deadline)
        else:
            self._threads.submit(lambda: context.run(_call_function, function, arguments, output, ended))
            try:
                outcome = await ended.wait(call.deadline)
            finally:
                ended.abandoned = True
        return outcome or timeout_outcome(registration.timeout_ms, output.to_raw())

    async def forget(self, skill_id: str) -> None:
        """See `SkillRunner.forget`. Imported modules stay."""

    async def close(self) -> None:
        for stream in self._streams:
            if getattr(sys, stream.name) is stream:
                setattr(sys, stream.name, stream.original)
        self._threads.close()
        await asyncio.gather(*(asyncio.to_thread(loop.close) for loop in self._loops.values()))

    async def _run_async(
        self,
        entry: str,
        work: Coroutine[Any, Any, None],
        context: Context,
        ended: "_ThreadResult[Outcome]",
        deadline: float,
    ) -> Outcome | None:
        loop = self._loops.get(entry)
        if loop is None:
            loop = self._loops[entry] = _LoopThread()
        cancel = loop.start(work, context)
        try:
            return await ended.wait(deadline)
        finally:
            if ended.value is None:
                cancelled = cancel()
                await ended.wait(asyncio.get_running_loop().time() + _STOP_TIMEOUT)
                if not cancelled.is_set() and self._loops.get(entry) is loop:
                    _log.warning("%s blocks its event loop; the next call gets a new one", entry)
                    del self._loops[entry]
                    loop.stop()


class _ThreadResult(Generic[T]):
    """A value from another thread, for the event loop in which this was created."""

    def __init__(self) -> None:
        self.value: T | None = None
        self.abandoned = False
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.Future[None] | None = None

    def set(self, value: T) -> None:
        """Set the value, from another thread."""
        # A function that goes on after its deadline may outlive the loop.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, value)

    async def wait(self, deadline: float) -> T | None:
        """The value, or None at the deadline, a time of the loop."""
        if self.value is None:
            self._wake = self._loop.create_future()
            timer = None if deadline == math.inf else self._loop.call_at(deadline, self._settle, None)
            try:
                await self._wake
            finally:
                if timer is not None:
                    timer.cancel()
        return self.value

    def _settle(self, value: T | None) -> None:
        self.value = self.value if value is None else value
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class _ThreadPool:
    """Like `ThreadPoolExecutor`, but a thread that does not end does not keep the process from exiting."""

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self._count = 0
        self._idle = threading.Semaphore(0)
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def submit(self, function: Callable[[], None]) -> None:
        """Call a function that does not raise in a thread. To be called by one thread only."""
        self._waiting.put(function)
        if not self._idle.acquire(blocking=False) and self._count < self._max_threads:
            self._count += 1
            threading.Thread(target=self._serve, name=f"openskills-inproc_{self._count}", daemon=True).start()

    def close(self) -> None:
        """Let idle threads end."""
        for _ in range(self._count):
            self._waiting.put(None)

    def _serve(self) -> None:
        while (function := self._waiting.get()) is not None:
            function()
            self._idle.release()


class _CallOutput:
    """What a function prints during one call: events for its listener, and text for its result."""

    def __init__(self, limit: int, call: Call) -> None:
        self.limit = limit
        self.secrets = call.secrets
        self._written = {"stdout": bytearray(), "stderr": bytearray()}
        self._lines = None if call.listener is None else LiveLines(_forward_to_loop(call.listener), call.secrets)

    def write(self, stream: str, text: str) -> int:
        """Add text. Raises `BadSkillOutput` beyond the limit of stdout; of stderr only the beginning is kept."""
        data, written = text.encode("utf-8", "replace"), self._written[stream]
        room = self.limit - len(written)
        written += data[:room]
        if self._lines is not None:
            self._lines.write(stream, data[:room])
        if len(data) > room and stream == "stdout":
            raise BadSkillOutput(f"the skill wrote more than {self.limit:,} bytes on stdout", limit_bytes=self.limit)
        return len(text)

    def flush(self) -> None:
        """Send the last line as an event."""
        if self._lines is not None:
            self._lines.flush()

    def to_raw(self, result: bytes | None = None) -> RawSkillOutput:
        """The output, with the encoded value of the function as stdout if there is one."""
        printed, stderr = bytes(self._written["stdout"]), bytes(self._written["stderr"])
        if result is None:
            return RawSkillOutput(printed, stderr, secrets=self.secrets, notes=_NOTES)
        notes: dict[str, Any] = dict(_NOTES)
        if printed.strip():
            notes["stray_stdout"] = excerpt(printed, self.secrets)
        limit = self.limit if len(result) > self.limit else None
        return RawSkillOutput(result[: self.limit], stderr, limit=limit, secrets=self.secrets, notes=notes)


_OUTPUT: ContextVar[_CallOutput | None] = ContextVar("openskills_inproc_output", default=None)


class _CallStream:
    """`sys.stdout` or `sys.stderr`: text of a function belongs to its call, other text to the original stream."""

    def __init__(self, name: str, original: TextIO) -> None:
        self.name = name
        self.original = original

    def write(self, text: str) -> int:
        output = _OUTPUT.get()
        return self.original.write(text) if output is None else output.write(self.name, text)

    def close(self) -> None:
        """Does nothing during a call: the host and all other calls use the stream."""
        if _OUTPUT.get() is None:
            self.original.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        # asyncio's own loop can go on after a task has raised `SystemExit`.
        self._loop = asyncio.SelectorEventLoop()
        self._stopped = False
        self._orders: deque[Callable[[], object]] = deque()
        self._is_notified = False
        self._thread = threading.Thread(target=self._serve, name="openskills-inproc-loop", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, None], context: Context) -> Callable[[], threading.Event]:
        """Start a task, and return what cancels it: its event is set when the loop has come to that.

        To be called in the loop of the host, as the function that it returns.
        """
        started: list[asyncio.Task[None]] = []
        self._send(lambda: started.append(self._loop.create_task(work, context=context)))

        def cancel() -> threading.Event:
            done = threading.Event()
            self._send(lambda: (*(task.cancel() for task in started), done.set()))
            return done

        return cancel

    def stop(self) -> None:
        """Stop the loop as soon as it does not block. Any thread may call this."""
        self._stopped = True
        self._loop.call_soon_threadsafe(self._loop.stop)

    def close(self) -> None:
        """Cancel all tasks, and wait a moment for their end."""
        self.stop()
        self._thread.join(_STOP_TIMEOUT)

    def _send(self, order: Callable[[], object]) -> None:
        # Waking the thread costs more than a whole call if both threads then wait for the GIL. So it is woken once for
        # all requests that the host has read, when the host has nothing else to do.
        self._orders.append(order)
        if not self._is_notified:
            self._is_notified = True
            asyncio.get_running_loop().call_soon(self._notify)

    def _notify(self) -> None:
        self._is_notified = False
        self._loop.call_soon_threadsafe(self._take_orders)

    def _take_orders(self) -> None:
        while self._orders:
            self._orders.popleft()()

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


def _call_function(
    function: _SkillFunction, arguments: tuple[Any, ...], output: _CallOutput, ended: _ThreadResult[Outcome]
) -> None:
    # Its caller may have given up while it was queued.
    if ended.abandoned:
        return
    try:
        outcome = outcome_from_output(output.to_raw(_encode(function.call(*arguments))))
    except BaseException as error:  # noqa: BLE001 - whatever a skill raises is its result
        outcome = _outcome_from_error(error, output)
    output.flush()
    ended.set(outcome)


async def _await_function(
    function: _SkillFunction, arguments: tuple[Any, ...], output: _CallOutput, ended: _ThreadResult[Outcome]
) -> None:
    try:
        outcome = outcome_from_output(output.to_raw(_encode(await function.call(*arguments))))
    except BaseException as error:  # noqa: BLE001 - whatever a skill raises is its result
        outcome = _outcome_from_error(error, output)
    output.flush()
    ended.set(outcome)


def _load(entry: str) -> _SkillFunction | ManifestFault:
    try:
        return load_function(entry)
    except ManifestFault as error:
        return error
    except BaseException as error:  # noqa: BLE001 - an import runs code of the skill
        return ManifestFault("entry", f"cannot import {entry!r}: {_describe(error)}")


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


def _outcome_from_error(error: BaseException, output: _CallOutput) -> Outcome:
    raw = output.to_raw()
    printed = {"stdout": excerpt(raw.stdout, raw.secrets), "stderr": excerpt(raw.stderr, raw.secrets)}
    details = {name: text for name, text in printed.items() if text}
    # Not `isinstance`, which asks the object.
    if issubclass(type(error), SkillError):
        try:
            return failure_outcome(_read_failure(cast("SkillError", error), details, output), notes=_NOTES)
        except BadSkillOutput as problem:
            return failure_outcome(BadSkillOutput(problem.message, **details, **problem.details), notes=_NOTES)
        except BaseException:  # noqa: BLE001 - its attributes may be code of the skill, too
            error = SkillError("with an error that cannot be read")
    said = get_masker(raw.secrets).mask_text(f"the skill's function failed: {_describe(error)}")[:2000]
    details |= {"reason": SkillError.reason, "exception": _name_type(error)}
    return failure_outcome(Failure(500, said, details), notes=_NOTES)


def _read_failure(error: SkillError, details: Mapping[str, str], output: _CallOutput) -> Failure:
    """The failure that an error of a function stands for, which may have any attributes.

    Raises `BadSkillOutput` for what is too long or not JSON, and whatever its attributes raise.
    """
    found = Failure.from_error(error)
    written = _encode({"code": found.code, "message": found.message, "details": {**details, **found.details}})
    if len(written) > output.limit:
        said = f"the skill's function raised an error of more than {output.limit:,} bytes"
        raise BadSkillOutput(said, limit_bytes=output.limit)
    wait = found.retry_after
    usable = wait if wait is not None and 0 <= wait < math.inf else None
    return replace(parse_failure(get_masker(output.secrets).mask_json(orjson.loads(written))), retry_after=usable)


def _describe(error: BaseException) -> str:
    try:
        # A message may contain lone surrogates, as in names of files.
        return f"{_name_type(error)}: {error}".encode("utf-8", "backslashreplace").decode()
    except BaseException:  # noqa: BLE001 - the message of an exception is code of the skill, too
        return _name_type(error)


def _name_type(error: BaseException) -> str:
    # Not that of a metaclass, which may be a property.
    return str(vars(type)["__name__"].__get__(type(error)))


def _encode(value: Any) -> bytes:
    try:
        written = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError as problem:
        raise BadSkillOutput(f"the skill's function returned a value that is not JSON: {problem}") from None
    # orjson writes NaN as null.
    if b"null" in written and _has_nonfinite(value):
        raise BadSkillOutput("the skill's function returned NaN or an infinite number, which JSON does not have")
    return written


def _has_nonfinite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Enum):
        return _has_nonfinite(value.value)
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return any(_has_nonfinite(key) or _has_nonfinite(one) for key, one in items)
    if isinstance(value, list | tuple):
        return any(map(_has_nonfinite, cast("list[Any]", value)))
    if is_dataclass(value) and not isinstance(value, type):
        return any(_has_nonfinite(getattr(value, each.name, None)) for each in fields(value))
    return False
