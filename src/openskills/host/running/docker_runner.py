"""Calls skills that are container images (`docker`): a new container for each call, with the call on its stdin."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from openskills.artifacts.threads import to_the_end
from openskills.errors import ExecutorUnavailable
from openskills.executors.container.sweep import HostMark, sweep
from openskills.executors.spec import Isolation
from openskills.host.registration import Registration
from openskills.host.result import Outcome
from openskills.host.runner import Call
from openskills.host.running.adapting import Written, adapted, too_late
from openskills.host.running.cold_process import STDERR_BYTES
from openskills.host.running.command_input import call_input
from openskills.host.running.docker_engine import CallEngine
from openskills.host.running.docker_request import container_environment, container_request
from openskills.host.running.live_lines import LiveLines
from openskills.host.running.skill_environment import call_environment
from openskills.settings import Settings

_NOTES = {"isolation": str(Isolation.CONTAINER)}
_FROM_SIGNAL, _LAST_SIGNAL = 128, 64


class DockerRunner:
    """Implements `Runner`. `connect` makes the engine of an address; blocking."""

    def __init__(self, settings: Settings, connect: Callable[[str | None], CallEngine] = CallEngine) -> None:
        self._address = settings.docker_host
        self._connect = connect
        # Not the threads that everybody uses: they must be there for what ends a container that these wait for.
        threads = settings.host_concurrency or 2 * (os.cpu_count() or 1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="openskills-docker")
        self._engine: CallEngine | None = None
        self._connecting = asyncio.Lock()

    async def prepare(self, registration: Registration) -> None:
        """See `Runner.prepare`: the engine answers, can limit containers, and has the image."""
        engine = await self._connected()
        container_request(registration, {}, "")
        await asyncio.to_thread(engine.image, registration.entry)

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """See `Runner.invoke`."""
        engine = await self._connected()
        env = container_environment(registration, call_environment(call))
        request = container_request(registration, env, str(HostMark.ours()))
        lines = None if call.listener is None else LiveLines(call.listener, call.secrets)
        said = _Said(asyncio.get_running_loop(), registration.limits.output_bytes, lines)
        stdin = call_input(call.input)
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, engine.run, request, stdin, said.hear, said.began)
        try:
            async with asyncio.timeout_at(call.deadline):
                status = await asyncio.shield(work)
        except TimeoutError:
            await self._stopped(engine, said, work)
            written = Written(bytes(said.stdout), bytes(said.stderr), secrets=call.secrets, notes=_NOTES)
            return too_late(registration.timeout_ms, written)
        except asyncio.CancelledError:
            await self._stopped(engine, said, work)
            raise
        if lines is not None:
            lines.end()
        limit = registration.limits.output_bytes if said.cut else None
        written = Written(bytes(said.stdout), bytes(said.stderr), _returncode(status), limit, call.secrets, _NOTES)
        return adapted(written)

    async def forget(self, skill_id: str) -> None:
        """See `Runner.forget`. Nothing is kept between calls."""

    async def close(self) -> None:
        """See `Runner.close`."""
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)
            self._engine = None
        self._threads.shutdown(wait=False)

    async def _connected(self) -> CallEngine:
        async with self._connecting:
            if self._engine is None:
                engine = await asyncio.to_thread(self._connect, self._address)
                await asyncio.to_thread(engine.check)
                # What a host that was killed has left.
                await asyncio.to_thread(sweep, engine)
                self._engine = engine
            return self._engine

    async def _stopped(self, engine: CallEngine, said: "_Said", work: "asyncio.Future[int]") -> None:
        """Remove the container, wherever its thread is, and wait until that has ended, too."""
        said.wanted.clear()
        if said.container:
            await to_the_end(lambda: engine.remove(said.container))
        await asyncio.wait((work,))
        if not work.cancelled() and isinstance(work.exception(), ExecutorUnavailable):
            return


@dataclass(slots=True)
class _Said:
    """What came from a container, heard in a thread."""

    loop: asyncio.AbstractEventLoop
    most: int
    lines: LiveLines | None
    container: str = ""
    cut: bool = False
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    wanted: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.wanted.set()

    def began(self, container: str) -> None:
        """The container was made. Raises `ExecutorUnavailable` when nobody waits for it any more."""
        self.container = container
        if not self.wanted.is_set():
            raise ExecutorUnavailable("the call was stopped before it began")

    def hear(self, stream: str, data: bytes) -> bool:
        """Keep what may be kept; says whether more is wanted."""
        kept, most = (self.stdout, self.most) if stream == "stdout" else (self.stderr, STDERR_BYTES)
        room = most - len(kept)
        kept += data[:room]
        if self.lines is not None and room > 0:
            self.loop.call_soon_threadsafe(self.lines.heard, stream, data[:room])
        self.cut = self.cut or (stream == "stdout" and len(data) > room)
        return self.wanted.is_set() and not self.cut


def _returncode(status: int) -> int:
    """The engine says of a signal what a shell would."""
    if _FROM_SIGNAL < status <= _FROM_SIGNAL + _LAST_SIGNAL:
        return _FROM_SIGNAL - status
    return status if status >= 0 else -9
