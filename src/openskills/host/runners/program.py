"""Calls skills that are programs (`cli:exec`): a new process for each call, with the call on its stdin.

`run_cold` is also used for Python scripts that cannot be started warm.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias, cast

import orjson

from openskills.errors import ExecutorUnavailable, InvalidArgument, LimitExceeded
from openskills.executors.bubblewrap.profile import create_memory_file
from openskills.executors.process import PipeReader
from openskills.executors.spec import Isolation
from openskills.executors.supervisor import ExitStatus, SupervisedProcess
from openskills.executors.watchdog import CallWatch, watch
from openskills.executors.zygote import OutputCallback, WorkerResult, WorkerTimeout
from openskills.host.model import Call, ManifestFault, Outcome, Registration
from openskills.host.runners.isolation import (
    IsolationProvider,
    SkillIsolation,
    build_call_environment,
    to_process_limits,
)
from openskills.host.runners.output import LiveLines, RawSkillOutput, outcome_from_output, timeout_outcome, to_exit_code

STDERR_BYTES = 256 * 1024
_KILL_TIMEOUT = 5.0


class _SkillOutputPipe:
    """Reads a pipe: keeps up to `max_bytes`, passes them to `on_output`, and counts all bytes."""

    def __init__(self, name: str, descriptor: int, max_bytes: int, on_output: OutputCallback | None) -> None:
        os.set_blocking(descriptor, False)
        self._name, self._max_bytes, self._on_output = name, max_bytes, on_output
        self.data = bytearray()
        self.count = 0
        self.full = asyncio.Event()
        self._reader = PipeReader(descriptor, self._add)

    def _add(self, data: bytes) -> bool:
        kept = data[: max(self._max_bytes - self.count, 0)]
        self.count += len(data)
        self.data += kept
        if kept and self._on_output is not None:
            self._on_output(self._name, kept)
        if self.count > self._max_bytes:
            self.full.set()
        # A program whose stdout is too long is killed, and one with much to say on stderr must not be slowed down.
        return False

    def close(self) -> None:
        """Read what is left, and close the pipe. Safe to call twice."""
        self._reader.drain()


async def run_cold(
    place: SkillIsolation,
    registration: Registration,
    argv: Sequence[str],
    env: Mapping[str, str],
    stdin: bytes,
    deadline: float,
    on_output: OutputCallback | None = None,
    on_start: Callable[[], object] | None = None,
) -> WorkerResult:
    """Run a program once with this on its stdin; `on_start` is called when it has been started.

    Raises `WorkerTimeout` at the deadline, `LimitExceeded` for too much memory, and errors of starting it. The program
    is dead when this returns or raises.
    """
    with _open_stdio(stdin) as (our_stdout, our_stderr, theirs):
        stdout = _SkillOutputPipe("stdout", our_stdout, registration.limits.output_bytes, on_output)
        stderr = _SkillOutputPipe("stderr", our_stderr, STDERR_BYTES, on_output)
        try:
            kept = await place.start(registration, argv, env, theirs)
        except BaseException:
            stdout.close()
            stderr.close()
            raise
    if on_start is not None:
        on_start()
    exceeded: list[str] = []

    def on_excess(message: str) -> None:
        exceeded.append(message)
        kept.signal(signal.SIGKILL)

    watching = CallWatch(lambda: watch(kept.pid, to_process_limits(registration.limits)), on_excess)
    end = None
    try:
        with suppress(TimeoutError):
            end = await _wait_for_exit(kept, stdout, deadline)
    finally:
        watching.close()
        stdout.close()
        stderr.close()
    if end is None:
        raise WorkerTimeout(bytes(stdout.data), bytes(stderr.data))
    if exceeded:
        raise LimitExceeded(exceeded[0])
    if kept.excess:
        raise LimitExceeded(kept.excess)
    if end.lost:
        raise ExecutorUnavailable("the supervisor process has ended; try again")
    cut = stdout.count > registration.limits.output_bytes
    return WorkerResult(
        # bubblewrap reports signals as a shell does.
        returncode=to_exit_code(end.status) if place.isolation is Isolation.BUBBLEWRAP else end.status,
        stdout=bytes(stdout.data),
        stderr=bytes(stderr.data),
        stdout_bytes=stdout.count,
        stderr_bytes=stderr.count,
        cut=cut,
        stale=False,
        clean=end.clean,
        cpu_ms=end.cpu_ms,
        memory_kib=end.memory_kib,
    )


async def _wait_for_exit(kept: SupervisedProcess, stdout: _SkillOutputPipe, deadline: float) -> ExitStatus:
    """Wait for the end; kill it if it writes too much, at the deadline, and when cancelled."""
    full = asyncio.ensure_future(stdout.full.wait())
    ending = asyncio.ensure_future(kept.wait())
    try:
        async with asyncio.timeout_at(deadline):
            await asyncio.wait((full, ending), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                kept.signal(signal.SIGKILL)
            return await ending
    except BaseException:
        kept.signal(signal.SIGKILL)
        with suppress(TimeoutError):
            await asyncio.shield(asyncio.wait_for(kept.wait(), _KILL_TIMEOUT))
        raise
    finally:
        full.cancel()
        ending.cancel()


@contextmanager
def _open_stdio(stdin: bytes) -> Generator[tuple[int, int, tuple[int, int, int]]]:
    """Two pipes and a file in memory: our ends of stdout and stderr, and the child's three, which are closed here."""
    opened: list[int] = []
    try:
        opened += os.pipe2(os.O_CLOEXEC)
        opened += os.pipe2(os.O_CLOEXEC)
        opened.append(create_memory_file(stdin))
    except BaseException:
        for descriptor in opened:
            os.close(descriptor)
        raise
    stdout, their_stdout, stderr, their_stderr, their_stdin = opened
    theirs = (their_stdin, their_stdout, their_stderr)
    try:
        yield stdout, stderr, theirs
    finally:
        for descriptor in theirs:
            os.close(descriptor)


def read_arguments(registration: Registration) -> tuple[str, ...]:
    """The `args` of the manifest; raises `ManifestFault` if they are not a list."""
    found = registration.options.get("args", ())
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise ManifestFault("args", "expected a list of arguments")
    return tuple(str(one) for one in cast("Sequence[object]", found))


def encode_call_input(input: Mapping[str, Any]) -> bytes:  # noqa: A002 - the word of the protocol
    """The call as a skill reads it from stdin."""
    try:
        return orjson.dumps({"input": input})
    except orjson.JSONEncodeError:
        # Integers beyond 64 bits or lone surrogates, from callers in Python.
        return json.dumps({"input": dict(input)}).encode()


ProgramRun: TypeAlias = Callable[[OutputCallback | None, Callable[[], object]], Awaitable[WorkerResult]]
"""Runs a program, with functions for its output and for when it has been started."""


async def perform_call(registration: Registration, call: Call, notes: Mapping[str, Any], work: ProgramRun) -> Outcome:
    """The outcome of a call that a program serves; its lines go to the listener."""
    lines = None if call.listener is None else LiveLines(call.listener, call.secrets)
    try:
        ended = await work(None if lines is None else lines.write, partial(call.mark, "script"))
        call.mark("collect")
    except WorkerTimeout as late:
        written = RawSkillOutput(late.stdout, late.stderr, secrets=call.secrets, notes={**notes})
        return timeout_outcome(registration.timeout_ms, written)
    finally:
        if lines is not None:
            lines.flush()
    limit = registration.limits.output_bytes if ended.cut else None
    known = {**notes, "memory_bytes": ended.memory_kib * 1024}
    return outcome_from_output(RawSkillOutput(ended.stdout, ended.stderr, ended.returncode, limit, call.secrets, known))


class SkillSlots:
    """Limits the concurrent calls of each skill: to the limit of its manifest, or else to `concurrency`."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._found: dict[str, tuple[int, asyncio.Semaphore]] = {}

    @asynccontextmanager
    async def hold(self, registration: Registration, deadline: float) -> AsyncGenerator[None]:
        """Hold a slot while the block runs. Raises `WorkerTimeout` if none is free by the deadline."""
        limit = registration.limits.concurrency or self._concurrency
        found = self._found.get(registration.id)
        if found is None or found[0] != limit:
            found = self._found[registration.id] = (limit, asyncio.Semaphore(limit))
        try:
            async with asyncio.timeout_at(deadline):
                await found[1].acquire()
        except TimeoutError:
            raise WorkerTimeout from None
        try:
            yield
        finally:
            found[1].release()

    def forget(self, skill_id: str) -> None:
        self._found.pop(skill_id, None)


class ExecRunner:
    """Implements `SkillRunner`. `concurrency` is the default limit of concurrent calls per skill."""

    def __init__(self, places: IsolationProvider, *, concurrency: int) -> None:
        self._places = places
        self._slots = SkillSlots(concurrency)

    async def prepare(self, registration: Registration) -> None:
        entry = registration.entry
        if not os.path.isfile(entry):
            raise ManifestFault("entry", f"file not found: {entry}; correct it in the manifest")
        if not os.access(entry, os.X_OK):
            raise ManifestFault("entry", f"{entry} is not executable; run chmod +x on it")
        read_arguments(registration)
        await self._places.get(registration)

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        place = await self._places.get(registration)

        async def work(on_output: OutputCallback | None, on_start: Callable[[], object]) -> WorkerResult:
            async with self._slots.hold(registration, call.deadline):
                argv = (registration.entry, *read_arguments(registration))
                env = {**place.environment(registration), **build_call_environment(call)}
                stdin = encode_call_input(call.input)
                call.mark("sandbox")
                try:
                    return await run_cold(place, registration, argv, env, stdin, call.deadline, on_output, on_start)
                except InvalidArgument as error:
                    raise ManifestFault("entry", error.message) from None

        return await perform_call(registration, call, {"isolation": str(place.isolation)}, work)

    async def forget(self, skill_id: str) -> None:
        self._slots.forget(skill_id)

    async def close(self) -> None:
        """See `SkillRunner.close`. Nothing to close."""
