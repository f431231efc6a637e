"""The host without HTTP: one invocation from its input to its result.

`Host` checks permissions and schemas, waits for admission, calls the runner, masks secrets and notifies observers.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple, Protocol, cast

import jsonschema_rs

from openskills.errors import (
    BadSkillOutput,
    ExecutorUnavailable,
    Forbidden,
    InvalidArgument,
    InvalidSkill,
    RunCancelled,
    RunInterrupted,
    SkillError,
    UnknownSkill,
    shorten,
)
from openskills.host import http
from openskills.host.admission import Admission, LimitedKey, burst_size
from openskills.host.auth import OWNER_MARK, Principal
from openskills.host.history import id_prefix
from openskills.host.http import encode_result
from openskills.host.model import (
    PHASES,
    Call,
    Failure,
    InvokeResult,
    Listener,
    Outcome,
    Registration,
    SkillOutputEvent,
    SkillRunner,
    failure_outcome,
    normalize_outcome,
)
from openskills.telemetry.context import TRACE_CONTEXT, TraceContext, reset_variable
from openskills.telemetry.mask import get_masker
from openskills.telemetry.otel import find_tracer
from openskills.telemetry.spans import Span, span
from openskills.version import __version__


class InvokeRequest(NamedTuple):
    """A request to invoke a skill. `began` is a time of `time.perf_counter`, `body` the raw request.

    `parent` is the caller's `traceparent`; `traceparent` is passed on to the skill. `registration` and `runner` are for
    what is not in the registry, such as a command.
    """

    skill_id: str
    input: Mapping[str, Any]
    trace_id: str
    principal: Principal
    began: float
    body: bytes = b""
    listener: Listener | None = None
    traceparent: str | None = None
    parent: str | None = None
    run_id: str | None = None
    registration: Registration | None = None
    runner: SkillRunner | None = None


@dataclass(frozen=True, slots=True)
class Invocation:
    """A finished invocation. `registration` is None for an unknown skill id.

    `at` is its start in seconds since 1970; `request` and `body` are the raw request and response bodies. `started`
    says whether the skill was called.
    """

    at: float
    result: InvokeResult
    body: bytes
    principal: str
    registration: Registration | None = None
    request: bytes = field(default=b"", repr=False)
    run_id: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    started: bool = False


class InvocationObserver(Protocol):
    """Is told of every invocation: log, metrics, history. Must not block or raise."""

    def on_start(self, registration: Registration, asked: InvokeRequest) -> None:
        """A skill is about to be called; `on_end` follows. Without a `run_id` the request is refused instead."""

    def on_end(self, invocation: Invocation) -> None:
        """An invocation has ended. With a registration, `on_start` was called before."""


def mask_outcome(outcome: Outcome, secrets: Mapping[str, str]) -> Outcome:
    """The outcome with secrets masked."""
    masker = get_masker(secrets)
    if not masker:
        return outcome
    failure = outcome.failure
    try:
        return replace(
            outcome,
            data=masker.mask_json(outcome.data),
            failure=failure
            and replace(failure, message=masker.mask_text(failure.message), details=masker.mask_json(failure.details)),
            version=masker.mask_json(outcome.version),
            notes=masker.mask_json(outcome.notes),
        )
    except RecursionError:
        # Unmasked data are never returned.
        return failure_outcome(BadSkillOutput("the skill's data are nested too deeply"))


def mask_listener(listener: Listener, secrets: Mapping[str, str]) -> Listener:
    """A listener that gets the same events with secrets masked."""
    masker = get_masker(secrets)
    if not masker:
        return listener
    return lambda emitted: listener(SkillOutputEvent(emitted.kind, masker.mask_json(emitted.data)))


MAX_VIOLATIONS = 10
"""Schema violations reported for one value."""
MAX_MESSAGE_LENGTH = 300
"""Characters of the message of one violation."""


class SchemaValidator:
    """The compiled schemas of one registration. Raises `InvalidSkill` for an invalid schema."""

    __slots__ = ("_input", "_output")

    def __init__(self, registration: Registration) -> None:
        self._input = _compile_schema(registration.input_schema, registration.id, "input_schema")
        self._output = _compile_schema(registration.output_schema, registration.id, "output_schema")

    def validate_input(self, value: Mapping[str, Any]) -> Failure | None:
        """The failure for an invalid input, or None."""
        return _validate(self._input, value, "input", InvalidArgument)

    def validate_output(self, data: Mapping[str, Any]) -> Failure | None:
        """The failure for data that violate the output schema, or None."""
        return _validate(self._output, data, "data", BadSkillOutput, "the skill's data do not match its output_schema")


def _compile_schema(schema: Mapping[str, Any] | None, skill: str, name: str) -> Any:
    if schema is None:
        return None
    try:
        # Offline: a `$ref` to another document is refused, never fetched.
        return jsonschema_rs.validator_for(dict(schema), offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        why = shorten(str(error), MAX_MESSAGE_LENGTH)
        raise InvalidSkill(f"{skill}: {name} is not a valid JSON schema: {why}") from None


def _find_violations(validator: Any, value: Mapping[str, Any], root: str) -> Iterator[dict[str, str]]:
    errors = (error for one in validator.iter_errors(value) for error in _select_errors(one))
    for error in islice(errors, MAX_VIOLATIONS):
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
        field = shorten(root + "".join(steps), MAX_MESSAGE_LENGTH)
        rule = str(error.schema_path[-1]) if error.schema_path else "schema"
        pointer = shorten(_build_pointer(error), MAX_MESSAGE_LENGTH)
        message = f"{field}: {shorten(error.message, MAX_MESSAGE_LENGTH)}"
        yield {"field": field, "pointer": pointer, "message": message, "rule": rule}


def _select_errors(error: Any) -> Sequence[Any]:
    """The errors to report for one: of `oneOf` and `anyOf` those of the alternative that was probably meant.

    That is the one whose type, constants and enumerations fit and that lacks the fewest fields, if there is only one.
    """
    alternatives = error.kind.context if error.kind.name in ("oneOf", "anyOf") else ()
    depth = len(error.instance_path)

    def is_other(one: Any) -> bool:
        below, name = len(one.instance_path) - depth, one.kind.name
        return (name == "type" and below == 0) or (name in ("const", "enum") and below <= 1)

    meant = [found for found in alternatives if not any(map(is_other, found))]
    lacking = [sum(one.kind.name == "required" for one in found) for found in meant]
    chosen = [found for found, count in zip(meant, lacking, strict=True) if count == min(lacking)]
    if len(chosen) != 1 or not chosen[0]:
        return [error]
    return [inner for one in chosen[0] for inner in _select_errors(one)]


def _build_pointer(error: Any) -> str:
    """The JSON pointer of what is wrong; of the missing field, if one is required."""
    steps = [str(step) for step in error.instance_path]
    if error.kind.name == "required":
        steps.append(str(error.kind.property))
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)


def _validate(
    validator: Any, value: Mapping[str, Any], root: str, error: type[SkillError], prefix: str = ""
) -> Failure | None:
    if validator is None or validator.is_valid(value):
        return None
    errors = list(_find_violations(validator, value, root))
    details = {"reason": error.reason, "retryable": False, "field": errors[0]["field"], "errors": errors}
    message = errors[0]["message"]
    return Failure(error.code, f"{prefix}: {message}" if prefix else message, details)


class InvocationTrace:
    """A span for the invocation, as a child of the caller's; its secrets are masked in spans and log lines.

    Use it as a `with` block. Almost free when tracing is off: OpenTelemetry is used only if the application has loaded
    it.
    """

    __slots__ = ("_asked", "_parent", "_registration", "_secrets", "_span", "_token")

    def __init__(self, registration: Registration, asked: InvokeRequest, secrets: Mapping[str, str]) -> None:
        self._registration = registration
        self._asked = asked
        self._secrets = secrets

    def __enter__(self) -> Span:
        registration, asked = self._registration, self._asked
        outer = TRACE_CONTEXT.get()
        if outer is None:
            # Like `extend`, without validating values that are known to be good.
            context = TraceContext({"skill": registration.id}, False, self._secrets, {"id": asked.trace_id})
        else:
            context = outer.extend(asked.trace_id, None, self._secrets, {"skill": registration.id})
        self._token = TRACE_CONTEXT.set(context)
        self._parent = None
        if asked.parent is not None and find_tracer() is not None:
            self._parent = _use_parent_span(asked.parent)
            self._parent.__enter__()
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": registration.id,
            "gen_ai.skill.name": registration.id,
            "openskills.runner": registration.kind,
        }
        self._span = span(f"execute_tool {registration.id}", attributes)
        return self._span.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._span.__exit__(kind, error, where)
        if self._parent is not None:
            self._parent.__exit__(None, None, None)
        reset_variable(TRACE_CONTEXT, self._token)


def current_traceparent(watched: Span, fallback: str | None) -> str | None:
    """The `traceparent` to pass on: that of the current span if it is recorded, else `fallback`."""
    # A span that is not recorded has exactly this class.
    if type(watched) is Span or find_tracer() is None:
        return fallback
    from opentelemetry import trace

    here = trace.get_current_span().get_span_context()
    if not here.is_valid:
        return fallback
    return f"00-{here.trace_id:032x}-{here.span_id:016x}-{here.trace_flags:02x}"


@contextmanager
def _use_parent_span(traceparent: str) -> Generator[None]:
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    token = context.attach(TraceContextTextMapPropagator().extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)


_log = logging.getLogger("openskills.host")
_ADMISSION_TIMEOUT = 60.0
"""Seconds that a call that is not an invocation may be queued."""
_REQUESTS_PER_CALL = 10
_OTHER_CALL = Registration("mcp-session", "mcp", "", __version__)


class RegistrationLookup(Protocol):
    """The part of a registry that `Host` needs."""

    def get(self, skill_id: str) -> Registration:
        """The skill with this id; raises `SkillError`."""
        ...

    def find(self, skill_id: str) -> Registration | None:
        """The skill with this id, or None."""


class RunnerTable(Protocol):
    """The runners of all kinds."""

    def get_runner(self, registration: Registration) -> SkillRunner:
        """The runner for a skill's kind; raises `SkillError` if there is none."""
        ...

    async def close(self) -> None:
        """Close all runners."""


def check_scope(principal: Principal, asked: str, found: str | None) -> None:
    """Raise `Forbidden` if a skill is not in the scope of a principal.

    `asked` is the id of the request, and `found` that of the skill, if there is one: a caller does not learn that.
    """
    if not principal.can_see(found or asked):
        # Private skills of other keys do not exist for this one.
        raise UnknownSkill(asked)
    if not principal.can_invoke(found or asked):
        shown = asked[:MAX_MESSAGE_LENGTH]
        raise Forbidden(f"the key {principal.name!r} has no scope for {shown!r}", scope=shown)


_CANCELLED = failure_outcome(RunCancelled("the call was cancelled before the skill finished"))
_DIRECTORIES = re.compile(r"(?<![\w./:~-])/(?:[\w.@+~-]+/)+")


def _hide_directories(failure: Failure, trace_id: str) -> Failure:
    """A failure of the host for callers: paths are shortened to names; the log has them."""
    shown = _DIRECTORIES.sub("", failure.message) if failure.code >= 500 else failure.message
    if shown == failure.message:
        return failure
    _log.warning("trace id %s: %s", trace_id, failure.message)
    return replace(failure, message=shown)


def _outcome_from_error(error: BaseException, trace_id: str) -> Outcome:
    """The outcome of a call that raised this error, which may come from a runner of another package."""
    if issubclass(type(error), SkillError):
        with suppress(Exception):
            return failure_outcome(_hide_directories(Failure.from_error(cast("SkillError", error)), trace_id))
    _log.error("invocation failed, trace id %s", trace_id, exc_info=error)
    return failure_outcome(http.internal_error(trace_id))


def _check_failure(outcome: Outcome) -> Outcome:
    """Raise `TypeError` for a failure without a number and a text, of which there would be no result."""
    if outcome.failure is not None:
        code, message = cast("tuple[object, object]", (outcome.failure.code, outcome.failure.message))
        if not (isinstance(code, int) and isinstance(message, str)):
            raise TypeError(f"not a failure: code {code!r}, message {message!r}")
    return outcome


@dataclass(slots=True)
class _CallTimes:
    """When a call joined the queue and was started, as times of `time.perf_counter`; 0.0 if it was not.

    `marks` are the beginnings of the phases that its runner has reported.
    """

    queued: float = 0.0
    started: float = 0.0
    marks: Mapping[str, float] = field(default_factory=dict[str, float])

    def to_phases(self, now: float) -> dict[str, float]:
        """The milliseconds of each phase up to now; a runner that reports none has run its script all the time."""
        if not self.queued:
            return {}
        if not self.marks:
            if not self.started:
                return {"queue": _to_ms(now - self.queued)}
            return {"queue": _to_ms(self.started - self.queued), "script": _to_ms(now - self.started)}
        begun = {"queue": self.queued, "start": self.started, **self.marks}
        found = sorted((begun[name], place, name) for place, name in enumerate(PHASES) if name in begun)
        ends = [begin for begin, _, _ in found[1:]] + [now]
        return {name: _to_ms(end - begin) for (begin, _, name), end in zip(found, ends, strict=True)}


def _to_ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


class Host:
    """Performs invocations. Belongs to one event loop. `secrets` are the values of all secrets of the host."""

    def __init__(
        self,
        skills: RegistrationLookup,
        runners: RunnerTable,
        admission: Admission,
        *,
        secrets: Mapping[str, str],
        observers: tuple[InvocationObserver, ...] = (),
    ) -> None:
        self._skills = skills
        self._runners = runners
        self._admission = admission
        self._secrets = secrets
        self._observers = observers
        self._checks: dict[str, tuple[Registration, SchemaValidator]] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._interrupted: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        # It will stop soon and is not ready any more, but serves invocations until it is draining.
        self.stopping = False
        self.draining = False

    @property
    def capacity(self) -> int:
        """How many invocations this worker runs at a time."""
        return self._admission.capacity

    @property
    def in_flight(self) -> int:
        """Number of running and queued invocations."""
        return len(self._running)

    async def wait_idle(self) -> None:
        """Wait until no invocation is running."""
        await self._idle.wait()

    def interrupt(self) -> None:
        """Cancel all running invocations and refuse new ones; callers get a 503 result. Safe to call twice."""
        self.draining = True
        # A second cancellation would interrupt the cleanup of child processes.
        for task in self._running - self._interrupted:
            self._interrupted.add(task)
            task.cancel()

    def resolve_id(self, skill_id: str, principal: Principal) -> str:
        """The id that a principal means: its own private skill has precedence over others with the same name."""
        if principal.owner and OWNER_MARK not in skill_id:
            own = self._skills.find(f"{skill_id}{OWNER_MARK}{principal.owner}")
            if own is not None:
                return own.id
        return skill_id

    def get_registration(self, skill_id: str, principal: Principal) -> Registration:
        """The skill, if the principal may call it; raises `SkillError`."""
        skill_id = self.resolve_id(skill_id, principal)
        found = self._skills.find(skill_id)
        check_scope(principal, skill_id, None if found is None else found.id)
        if found is not None:
            return found
        try:
            return self._skills.get(skill_id)
        except UnknownSkill as error:
            raise UnknownSkill(skill_id, tuple(filter(principal.can_invoke, error.near))) from None

    def check_request(self, asked: InvokeRequest) -> None:
        """Raise `SkillError` or `HttpRefusal` for a request that cannot be started."""
        fault = http.host_draining() if self.draining else None
        if fault is None:
            registration = self.get_registration(asked.skill_id, asked.principal)
            fault = self._get_validator(registration).validate_input(asked.input)
        if fault is not None:
            raise http.HttpRefusal(fault)

    async def invoke(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the word of the protocol
        *,
        trace_id: str,
        principal: Principal,
        listener: Listener | None = None,
        traceparent: str | None = None,
    ) -> InvokeResult:
        """Invoke a skill. Failures are in the result; only cancellation is raised."""
        asked = InvokeRequest(
            skill_id, input, trace_id, principal, time.perf_counter(), listener=listener, traceparent=traceparent
        )
        return (await self.perform(asked)).result

    async def perform(self, asked: InvokeRequest) -> Invocation:
        """Perform a request and notify the observers. Failures are in the result; only cancellation is raised."""
        registration: Registration | None = None
        outcome = _CANCELLED
        task = self._enter()
        times = _CallTimes()
        if asked.run_id is None:
            asked = asked._replace(run_id=f"{id_prefix(time.time())}{http.random_hex(10)}")
        try:
            if self.draining:
                outcome = failure_outcome(http.host_draining())
            else:
                found = asked.registration or self.get_registration(asked.skill_id, asked.principal)
                for observer in self._observers:
                    observer.on_start(found, asked)
                registration = found
                outcome = await self._call(found, asked, times)
        except asyncio.CancelledError:
            if not self.draining or task.uncancel():
                raise
            stopped = RunInterrupted("the host was stopped before the skill finished; how far it got is unknown")
            outcome = failure_outcome(stopped if times.started else http.host_draining())
        except BaseException as error:  # noqa: BLE001 - also bugs of the host or of a runner
            outcome = _outcome_from_error(error, asked.trace_id)
        finally:
            # A cancelled invocation is recorded, too.
            ended = self._finish(asked, registration, outcome, times)
            self._leave(task)
        return ended

    @asynccontextmanager
    async def admit(self, principal: Principal) -> AsyncGenerator[None]:
        """Admit a call that is not an invocation, such as a tool call of an MCP session, while the block runs.

        It counts against the limits of its key and of the host. Raises `SkillError` if it may not start.
        """
        task = self._enter()
        try:
            if self.draining:
                raise ExecutorUnavailable("this host is shutting down; try again in a few seconds")
            deadline = asyncio.get_running_loop().time() + _ADMISSION_TIMEOUT
            async with self._admission.admit(principal, _OTHER_CALL, deadline):
                yield
        finally:
            self._leave(task)

    def describe_use(self, key: LimitedKey) -> dict[str, Any]:
        """What a key uses of its limits in this worker: calls that run and wait, and those left of its rate limit."""
        running, waiting = self._admission.count_calls(key.name)
        state = self._admission.rate_state(key)
        return {"running": running, "waiting": waiting, "calls_left": None if state is None else state.remaining}

    def count_request(self, principal: Principal) -> None:
        """Count a request that starts nothing, such as listing tools. Raises `TooManyRequests`.

        A key may send `_REQUESTS_PER_CALL` times as many of them as calls.
        """
        rate = principal.rate_per_second
        if rate is not None:
            burst = burst_size(rate, principal.burst, 1.0) * _REQUESTS_PER_CALL
            # No key has a name with a blank, so this is a bucket of its own.
            name = f"{principal.name} requests"
            self._admission.take_token(LimitedKey(name, rate_per_second=rate * _REQUESTS_PER_CALL, burst=burst))

    def record_refusal(self, failure: Failure, asked: InvokeRequest) -> Invocation:
        """Record an invocation that was refused before it started, such as one without a valid key."""
        return self._finish(asked, None, failure_outcome(failure), _CallTimes())

    def rate_limit_headers(self, principal: Principal) -> list[tuple[bytes, bytes]]:
        """Rate-limit response headers of a key; none for a key without a limit."""
        state = self._admission.rate_state(principal)
        return [] if state is None else [(name.lower().encode(), value.encode()) for name, value in state.headers()]

    def mask_input(self, registration: Registration, value: Mapping[str, Any]) -> Any:
        """An input with the secrets of its skill masked, to be stored."""
        known = {name: self._secrets[name] for name in registration.secrets if name in self._secrets}
        return get_masker(known).mask_json(value)

    def forget(self, skill_id: str) -> None:
        """Drop cached validators of a skill that has changed or was removed."""
        self._checks.pop(skill_id, None)

    async def _call(self, registration: Registration, asked: InvokeRequest, times: "_CallTimes") -> Outcome:
        checks = self._get_validator(registration)
        fault = checks.validate_input(asked.input)
        if fault is not None:
            return failure_outcome(fault)
        secrets = self._get_secrets(registration)
        deadline = asyncio.get_running_loop().time() + registration.timeout_ms / 1000
        runner = asked.runner or self._runners.get_runner(registration)
        times.queued = time.perf_counter()
        async with self._admission.admit(asked.principal, registration, deadline):
            if asked.listener is not None:
                asked.listener(SkillOutputEvent("start", {"skill_id": registration.id, "trace_id": asked.trace_id}))
            listener = asked.listener and mask_listener(asked.listener, secrets)
            with InvocationTrace(registration, asked, secrets) as span:
                parent = current_traceparent(span, asked.traceparent)
                call = Call(asked.input, asked.trace_id, deadline, secrets, listener, parent)
                times.started, times.marks = time.perf_counter(), call.marks
                outcome = await runner.invoke(registration, call)
                if outcome.failure is not None:
                    span.set({"error.type": str(outcome.failure.details.get("reason") or outcome.failure.code)})
        if outcome.failure is None and (fault := checks.validate_output(outcome.data or {})) is not None:
            return failure_outcome(fault, version=outcome.version, notes=outcome.notes)
        return outcome

    def _get_validator(self, registration: Registration) -> SchemaValidator:
        known = self._checks.get(registration.id)
        if known is None or known[0] is not registration:
            known = self._checks[registration.id] = (registration, SchemaValidator(registration))
        return known[1]

    def _get_secrets(self, registration: Registration) -> Mapping[str, str]:
        if not registration.secrets:
            return {}
        missing = [name for name in registration.secrets if name not in self._secrets]
        if missing:
            said = f"{registration.id} needs the secret {missing[0]}; set it in the environment of the host"
            raise ExecutorUnavailable(said, secret=missing[0])
        return {name: self._secrets[name] for name in registration.secrets}

    def _enter(self) -> asyncio.Task[Any]:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine
        if not self._running:
            self._idle.clear()
        self._running.add(task)
        return task

    def _leave(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._interrupted.discard(task)
        if not self._running:
            self._idle.set()

    def _finish(
        self, asked: InvokeRequest, registration: Registration | None, outcome: Outcome, times: "_CallTimes"
    ) -> Invocation:
        now = time.perf_counter()
        seconds = now - asked.began
        about = registration
        if about is None:
            about = asked.registration or self._skills.find(self.resolve_id(asked.skill_id, asked.principal))
        if registration is None and about is not None:
            # It never started; for observers it starts and ends now.
            for observer in self._observers:
                observer.on_start(about, asked)
        known = about.secrets if about is not None else ()
        secrets = {name: self._secrets[name] for name in known if name in self._secrets}

        def encode(what: Outcome) -> tuple[InvokeResult, bytes]:
            # A refused caller learns nothing about the skill; only observers get its registration.
            result = normalize_outcome(
                mask_outcome(_check_failure(what), secrets),
                skill_id=asked.skill_id if registration is None else registration.id,
                trace_id=asked.trace_id,
                latency_ms=seconds * 1000,
                version=__version__ if registration is None else registration.version,
                waited_ms=((times.started or now) - times.queued) * 1000 if times.queued else None,
                ran_ms=(now - times.started) * 1000 if times.started else None,
                phases=times.to_phases(now),
            )
            return encode_result(result)

        try:
            result, body = encode(outcome)
        except Exception as error:  # noqa: BLE001 - a runner of another package may return anything
            result, body = encode(_outcome_from_error(error, asked.trace_id))
        ended = Invocation(
            time.time() - seconds,
            result,
            body,
            asked.principal.name,
            about,
            asked.body,
            asked.run_id,
            secrets,
            started=bool(times.started),
        )
        for observer in self._observers:
            observer.on_end(ended)
        return ended
