"""Calls skills that are container images (`docker`): a new container for each call, with the call on its stdin.

The container runs as a non-root user, without network and capabilities, with a read-only root and resource limits. The
manifest may set another user, and `network: true`.
"""

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from openskills.concurrency import run_in_thread
from openskills.errors import ExecutorUnavailable
from openskills.executors.container.backend import remove_orphaned_containers
from openskills.executors.container.engine import OneShotEngine
from openskills.executors.container.spec import HOST_LABEL, SHUT_IN, build_bind
from openskills.executors.spec import Isolation
from openskills.executors.supervisor import create_marker
from openskills.host.model import Call, ManifestFault, Outcome, Registration
from openskills.host.runners.isolation import build_call_environment, build_skill_environment
from openskills.host.runners.output import LiveLines, RawSkillOutput, outcome_from_output, timeout_outcome, to_exit_code
from openskills.host.runners.program import STDERR_BYTES, encode_call_input, read_arguments
from openskills.settings import Settings

DATA_DIR: Final = "/data"
"""Where `allowed_root` is mounted in the container."""
_TMP_DIR, _HOME_DIR = "/tmp", "/home/skill"  # noqa: S108 - inside the container
_DEFAULT_USER = "65534:65534"
_MIB = 1024 * 1024
_CPU_PERIOD = 1_000_000_000
_MAX_USER = 2**31 - 1
_USER = re.compile(r"[1-9][0-9]{0,9}(:[1-9][0-9]{0,9})?", re.ASCII)


def build_container_request(registration: Registration, env: Mapping[str, str], mark: str) -> dict[str, Any]:
    """The request that creates a container, labelled with `mark`. Raises `ManifestFault`."""
    network = bool(registration.options.get("network", False))
    return {
        "Image": registration.entry,
        "Cmd": list(read_arguments(registration)) or None,
        "User": _check_user(registration),
        "Hostname": "skill",
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": {HOST_LABEL: mark, "openskills.skill": registration.id},
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGKILL",
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "NetworkDisabled": not network,
        "HostConfig": _build_host_config(registration, network=network),
    }


def _build_host_config(registration: Registration, *, network: bool) -> dict[str, Any]:
    limits, root = registration.limits, registration.allowed_root
    memory = {} if limits.memory_bytes is None else {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes}
    ulimits = {"core": 0, "fsize": limits.file_bytes, "cpu": limits.cpu_seconds}
    return {
        "Init": True,
        **SHUT_IN,
        "NetworkMode": "bridge" if network else "none",
        **memory,
        "PidsLimit": limits.processes or -1,
        "NanoCpus": _CPU_PERIOD,
        "Ulimits": [{"Name": n, "Soft": v, "Hard": v} for n, v in ulimits.items() if v is not None],
        "Tmpfs": dict.fromkeys((_TMP_DIR, _HOME_DIR), f"rw,nosuid,nodev,size={64 * _MIB},mode=1777"),
        "Mounts": [] if root is None else [build_bind(str(root), DATA_DIR, read_only=not registration.writable)],
    }


def build_container_environment(registration: Registration, per_call: Mapping[str, str]) -> dict[str, str]:
    """The environment of a call; PATH is that of the image."""
    return {**build_skill_environment(registration, home=_HOME_DIR, root=DATA_DIR), **per_call}


def _check_user(registration: Registration) -> str:
    user = str(registration.options.get("user", _DEFAULT_USER))
    # Only numbers: an engine takes "00", "+0" and "" for root, and an image can give uid 0 any name.
    # Beyond 31 bits an engine may count from 0 again.
    if not _USER.fullmatch(user) or any(int(number) > _MAX_USER for number in user.split(":")):
        raise ManifestFault("user", f"{user!r} may be root; use the number of another user, such as 1000 or 1000:1000")
    return user if ":" in user else f"{user}:{user}"


_NOTES = {"isolation": str(Isolation.CONTAINER)}


class DockerRunner:
    """Implements `SkillRunner`. `connect` opens the engine at an address; blocking."""

    def __init__(self, settings: Settings, connect: Callable[[str | None], OneShotEngine] = OneShotEngine) -> None:
        self._address = settings.docker_host
        self._connect = connect
        # Not the default threads, which must stay free to remove containers.
        threads = settings.host_concurrency or 2 * (os.cpu_count() or 1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="openskills-docker")
        self._engine: OneShotEngine | None = None
        self._connecting = asyncio.Lock()

    async def prepare(self, registration: Registration) -> None:
        """See `SkillRunner.prepare`: checks the engine and the image."""
        engine = await self._connect_engine()
        build_container_request(registration, {}, "")
        await asyncio.to_thread(engine.find_image, registration.entry)

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        engine = await self._connect_engine()
        env = build_container_environment(registration, build_call_environment(call))
        request = build_container_request(registration, env, create_marker())
        lines = None if call.listener is None else LiveLines(call.listener, call.secrets)
        said = _DockerSkillOutput(asyncio.get_running_loop(), registration.limits.output_bytes, lines)
        stdin = encode_call_input(call.input)
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, engine.run, request, stdin, said.on_output, said.on_start)
        try:
            async with asyncio.timeout_at(call.deadline):
                status = await asyncio.shield(work)
        except TimeoutError:
            await self._stop(engine, said, work)
            written = RawSkillOutput(bytes(said.stdout), bytes(said.stderr), secrets=call.secrets, notes=_NOTES)
            return timeout_outcome(registration.timeout_ms, written)
        except asyncio.CancelledError:
            await self._stop(engine, said, work)
            raise
        if lines is not None:
            lines.flush()
        limit = registration.limits.output_bytes if said.cut else None
        # The engine reports signals as a shell does.
        returncode = to_exit_code(status) if status >= 0 else -signal.SIGKILL
        return outcome_from_output(
            RawSkillOutput(bytes(said.stdout), bytes(said.stderr), returncode, limit, call.secrets, _NOTES)
        )

    async def forget(self, skill_id: str) -> None:
        """See `SkillRunner.forget`. Nothing is kept between calls."""

    async def close(self) -> None:
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)
            self._engine = None
        self._threads.shutdown(wait=False)

    async def _connect_engine(self) -> OneShotEngine:
        async with self._connecting:
            if self._engine is None:
                engine = await asyncio.to_thread(self._connect, self._address)
                await asyncio.to_thread(engine.check)
                # Left behind by killed hosts.
                await asyncio.to_thread(remove_orphaned_containers, engine)
                self._engine = engine
            return self._engine

    async def _stop(self, engine: OneShotEngine, said: "_DockerSkillOutput", work: "asyncio.Future[int]") -> None:
        """Remove the container, and wait for its thread."""
        said.stopped.set()
        if said.container:
            await run_in_thread(lambda: engine.remove(said.container))
        await asyncio.wait((work,))
        if not work.cancelled():
            # Retrieved, because asyncio reports errors that nobody has seen.
            work.exception()


@dataclass(slots=True)
class _DockerSkillOutput:
    """Output of a container, collected in a thread."""

    loop: asyncio.AbstractEventLoop
    max_stdout: int
    lines: LiveLines | None
    container: str = ""
    cut: bool = False
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    stopped: threading.Event = field(default_factory=threading.Event)

    def on_start(self, container: str) -> None:
        """Raises `ExecutorUnavailable` if the call was stopped meanwhile."""
        self.container = container
        if self.stopped.is_set():
            raise ExecutorUnavailable("the call was stopped before the container started")

    def on_output(self, stream: str, data: bytes) -> bool:
        """Store output; returns whether more is wanted."""
        kept, limit = (self.stdout, self.max_stdout) if stream == "stdout" else (self.stderr, STDERR_BYTES)
        room = limit - len(kept)
        kept += data[:room]
        if self.lines is not None and room > 0:
            self.loop.call_soon_threadsafe(self.lines.write, stream, data[:room])
        self.cut = self.cut or (stream == "stdout" and len(data) > room)
        return not self.stopped.is_set() and not self.cut
