"""Calls skills that are Python callables in this process (`inproc`): `package.module:callable`, plain or async.

A function gets the input as a dict and, if it takes a second argument, a `SkillContext`. It returns a normalized result
or just its data. Plain functions run in a thread, async ones in the event loop of the host. Skills are not isolated: a
plain function that does not return keeps its thread after the deadline.
"""

import asyncio
import importlib
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

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

_MAX_THREADS = 32
_NOTES = {"isolation": str(Isolation.NONE)}
_PARAMETERS_WITH_CONTEXT = 2


@dataclass(frozen=True, slots=True)
class SkillContext:
    """The context of a call. `deadline` is a time of the host's event loop."""

    trace_id: str
    skill_id: str
    deadline: float
    allowed_root: str | None
    environment: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    traceparent: str | None = None
    listener: Listener | None = field(default=None, repr=False)

    def progress(self, **data: Any) -> None:
        """Send a progress event, if anyone listens. For async functions."""
        if self.listener is not None:
            self.listener(SkillOutputEvent("progress", data))


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

    async def prepare(self, registration: Registration) -> None:
        """See `SkillRunner.prepare`."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._get_function, registration.entry)

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """See `SkillRunner.invoke`."""
        function = self._functions.get(registration.entry) or self._get_function(registration.entry)
        arguments: tuple[Any, ...] = (dict(call.input),)
        if function.takes_context:
            arguments = (*arguments, _build_context(registration, call))
        ended = _FunctionResult()
        try:
            async with asyncio.timeout_at(call.deadline):
                with ended:
                    if function.is_async:
                        ended.value = await function.call(*arguments)
                    else:
                        loop = asyncio.get_running_loop()
                        ended.value = await loop.run_in_executor(self._threads, function.call, *arguments)
        except TimeoutError:
            return timeout_outcome(registration.timeout_ms, RawSkillOutput(b"", notes=_NOTES))
        return _to_outcome(ended, call)

    async def forget(self, skill_id: str) -> None:
        """See `SkillRunner.forget`. Imported modules stay."""

    async def close(self) -> None:
        """See `SkillRunner.close`."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _get_function(self, entry: str) -> _SkillFunction:
        found = self._functions[entry] = load_function(entry)
        return found


def load_function(entry: str) -> _SkillFunction:
    """Import a callable; raises `ManifestFault`."""
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
        listener=call.listener,
    )


class _FunctionResult:
    """The value or exception of a function; a cancellation of the call is raised."""

    __slots__ = ("_cancelled_before", "error", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self._cancelled_before = _count_cancellations()

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        self.error = error
        if _count_cancellations() > self._cancelled_before:
            if error is None or isinstance(error, Exception):
                # The function swallowed the cancellation.
                raise asyncio.CancelledError from error
            return False
        return isinstance(error, Exception | asyncio.CancelledError)


def _count_cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _to_outcome(ended: _FunctionResult, call: Call) -> Outcome:
    error = ended.error
    if isinstance(error, asyncio.CancelledError):
        said = "the skill's function was cancelled"
        return failure_outcome(Failure(500, said, {"reason": SkillError.reason}), notes=_NOTES)
    if isinstance(error, SkillError):
        return failure_outcome(error, notes=_NOTES)
    if error is not None:
        said = get_masker(call.secrets).mask_text(f"{type(error).__name__}: {error}")
        details = {"reason": SkillError.reason, "exception": type(error).__name__}
        return failure_outcome(Failure(500, f"the skill's function failed: {said}"[:2000], details), notes=_NOTES)
    try:
        written = orjson.dumps(ended.value, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError as problem:
        said = f"the skill's function returned a value that is not JSON: {problem}"
        return failure_outcome(Failure(502, said, {"reason": "BAD_SKILL_OUTPUT"}), notes=_NOTES)
    return outcome_from_output(RawSkillOutput(written, secrets=call.secrets, notes=_NOTES))
