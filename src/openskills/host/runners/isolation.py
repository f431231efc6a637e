"""How processes of hosted skills are started: in a sandbox (bubblewrap), or as plain local processes.

In a sandbox a skill sees the system, the interpreter, the directory of its script and its `allowed_root` (read-only
unless `writable: true`), at their usual paths, and no network but the hosts that the operator grants. Skills get these
variables, those of their manifest and grants, and nothing else of the host's environment:

| variable | value |
|---|---|
| `PATH`, `HOME`, `LANG` | of the isolation |
| `OPENSKILL_SKILL_ID` | the id of the skill |
| `OPENSKILL_ALLOWED_ROOT` | the directory that it may read, absolute |
| `OPENSKILL_TIMEOUT_MS` | the timeout of a call |
| `OPENSKILL_TRACE_ID`, `TRACEPARENT` | of this call |
"""

import asyncio
import json
import os
import stat
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.bubblewrap.backend import SandboxBackend, SandboxTools, build_reach_command, cap_limits
from openskills.executors.bubblewrap.etc import ETC_STORE_NAME
from openskills.executors.bubblewrap.profile import (
    ETC,
    FILTER,
    GO,
    HOME,
    OPTIONS,
    READY,
    build_command_line,
    create_memory_file,
    encode_options,
)
from openskills.executors.network.namespace import PORT, connect_proxy
from openskills.executors.network.proxy import FilteringProxy
from openskills.executors.protocol import LINKS, Interpreter
from openskills.executors.records.leases import UidLease, UidPool
from openskills.executors.spec import SYSTEM_PATH, Isolation, Limits
from openskills.executors.supervisor import (
    PROGRAM,
    LaunchRequest,
    SupervisedProcess,
    Supervisor,
    SupervisorPool,
    SupervisorRegistry,
    to_rlimits,
)
from openskills.host.lifecycle import HostDirectory
from openskills.host.model import Call, HostLimits, ManifestFault, Registration
from openskills.host.runners.kinds import list_isolations
from openskills.settings import Settings
from openskills.subprocesses import start_helper

# An interpreter and its libraries, whatever the script does.
_MIN_TOTAL_BYTES = 128 * 1024 * 1024


def to_process_limits(limits: HostLimits) -> Limits:
    """The limits of a process; `memory_bytes` is also the limit of all processes of a call together."""
    return Limits(
        memory_bytes=limits.memory_bytes,
        total_memory_bytes=None if limits.memory_bytes is None else max(limits.memory_bytes, _MIN_TOTAL_BYTES),
        processes=limits.processes,
        file_bytes=limits.file_bytes,
        cpu_seconds=limits.cpu_seconds,
    )


def build_skill_environment(
    registration: Registration, *, home: str, path: Sequence[str] = (), root: str = ""
) -> dict[str, str]:
    """The environment of all calls of a skill. The manifest can override all but `OPENSKILL_*`.

    `root` is where the skill sees its `allowed_root`, by default at the usual path.
    """
    allowed = registration.allowed_root
    return {
        **({"PATH": ":".join(path)} if path else {}),
        "HOME": home,
        "LANG": "C.UTF-8",
        **registration.environment,
        "OPENSKILL_SKILL_ID": registration.id,
        "OPENSKILL_TIMEOUT_MS": str(registration.timeout_ms),
        **({} if allowed is None else {"OPENSKILL_ALLOWED_ROOT": root or str(allowed)}),
    }


def build_call_environment(call: Call) -> dict[str, str]:
    parent = {} if call.traceparent is None else {"TRACEPARENT": call.traceparent}
    return {**call.secrets, "OPENSKILL_TRACE_ID": call.trace_id, **parent}


class LocalIsolation:
    """Plain processes with the rights of this user. NOT a sandbox. They start in `directory` with a temporary home."""

    isolation = Isolation.NONE
    is_exclusive = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._supervisors = SupervisorPool()
        self._home: HostDirectory | None = None
        self._python = Interpreter.ours()

    async def check(self) -> None:
        """Always available."""

    def environment(self, registration: Registration) -> dict[str, str]:
        """The environment of all calls of a skill."""
        if self._home is None:
            self._home = HostDirectory()
            self._python.link_in(_links(self._home))
        path = (*self._python.search_path(str(_links(self._home))), *SYSTEM_PATH)
        return build_skill_environment(registration, path=path, home=str(self._home.path))

    async def start(
        self,
        registration: Registration,
        argv: Sequence[str],
        env: Mapping[str, str],
        stdio: tuple[int, int, int],
        *,
        first: bool = False,
    ) -> SupervisedProcess:
        """Start a program. Its descendants end with it, and it ends with the host."""
        del first
        limits = to_process_limits(registration.limits)
        launch = LaunchRequest(argv, env, str(self._directory), dict(enumerate(stdio)), limits=limits)
        return await self._supervisors.start(launch, to_rlimits(limits))

    async def close(self) -> None:
        """Kill everything."""
        await self._supervisors.close()
        if self._home is not None:
            await asyncio.to_thread(self._home.remove)
            self._home = None


def _links(home: HostDirectory) -> Path:
    # Beside the home, so that a skill that clears its home does not remove it.
    return home.path.with_name("bin")


_OWNER = "host"
_IDMAP_PROGRAM = PROGRAM.with_name("idmap.py")


class SandboxIsolation:
    """Sandboxed processes. They start in `directory`, of which they see only what they may.

    Processes are killed as a whole, so that each worker of a skill needs its own start: isolation is exclusive.
    """

    isolation = Isolation.BUBBLEWRAP
    is_exclusive = True

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._workspaces = settings.state_dir / "workspaces"
        self._tools: SandboxTools | None = None
        self._supervisors = SupervisorRegistry()
        self._uid: UidLease | None = None
        self._passed = False
        self._proxies: set[asyncio.Task[None]] = set()

    async def check(self) -> None:
        """The self-test of the sandbox, once. Raises `ExecutorUnavailable` with advice."""
        if self._passed:
            return
        backend = SandboxBackend(search_path=self._settings.search_path, workspaces=self._workspaces)
        try:
            await backend.check()
        finally:
            await backend.close()
        self._passed = True

    def environment(self, registration: Registration) -> dict[str, str]:
        path = (*Interpreter.ours().search_path(), f"{sys.base_prefix}/bin", *SYSTEM_PATH)
        return build_skill_environment(registration, path=path, home=HOME)

    async def start(
        self,
        registration: Registration,
        argv: Sequence[str],
        env: Mapping[str, str],
        stdio: tuple[int, int, int],
        *,
        first: bool = False,
    ) -> SupervisedProcess:
        """Start a program like `LocalIsolation.start`; `first`: as process 1 of its sandbox.

        Such a program reaps all others, and protects itself from them, as no other process remains that they could
        change for later calls.
        """
        tools = self._tools = self._tools or _find_tools(self._settings.search_path)
        shown = _find_mounts(registration)
        uid = self._get_uid(registration)
        # Before the supervisor starts, which makes this directory reachable and ends if it does not exist.
        etc = await tools.etc.get_descriptor(self._workspaces / ETC_STORE_NAME)
        if uid is not None:
            # The user of the sandbox must be able to reach its /etc.
            self._workspaces.chmod(stat.S_IMODE(self._workspaces.stat().st_mode) | stat.S_IXOTH)
        # Only a host that runs as root needs several.
        key = tuple(shown.items()) if uid is not None else ()
        found = await self._supervisors.get(key, lambda: self._start_supervisor(tools, shown, uid))
        limits = to_process_limits(registration.limits)
        command = build_command_line(
            bwrap=tools.bwrap,
            setpriv=tools.setpriv,
            uid=None,
            marker=found.marker,
            held=cap_limits(limits),
            argv=argv,
            terminal=False,
            shell=tools.shell,
        )
        if uid is not None:
            _change_owner(stdio, uid)
        proxy = FilteringProxy(registration.network) if registration.network else None
        if proxy is not None:
            env = {**env, **proxy.environment(PORT)}
        options = build_sandbox_options(shown, self._directory, env, first=first)
        with _open_descriptors(tools, etc, options) as descriptors:
            launch = LaunchRequest(
                command,
                {},
                "/",
                {**dict(enumerate(stdio)), **descriptors},
                handshake=(READY, GO),
                hold=proxy is not None,
                contained=True,
                user=uid,
                limits=limits,
            )
            try:
                process = await found.start(launch)
            except InvalidArgument as error:
                raise ExecutorUnavailable(f"{tools.bwrap}: {error.message}; nothing was run") from error
        if proxy is not None:
            task = await connect_proxy(process, proxy, uid)
            # A task without a reference may be garbage-collected while it runs.
            self._proxies.add(task)
            task.add_done_callback(self._proxies.discard)
        return process

    async def close(self) -> None:
        await self._supervisors.close()
        if self._proxies:
            await asyncio.wait(self._proxies)
        if self._tools is not None:
            self._tools.close()
            self._tools = None
        if self._uid is not None:
            self._uid.release()
            self._uid = None

    def _start_supervisor(self, tools: SandboxTools, shown: Mapping[Path, bool], uid: int | None) -> Supervisor:
        argv = [sys.executable, "-I", "-S", str(PROGRAM)]
        if uid is not None:
            of_root = [str(path) for path, writable in shown.items() if writable and path.stat().st_uid == 0]
            if of_root:
                argv = [sys.executable, "-I", "-S", str(_IDMAP_PROGRAM), str(uid), json.dumps(of_root), *argv]
            ours = (PROGRAM.parent, self._workspaces / ETC_STORE_NAME, Path(tools.bwrap).parent, Path(sys.prefix))
            argv = build_reach_command([*shown, *ours, *tools.read_only], argv)
        helper = start_helper(argv, {})
        return Supervisor(helper.connection, helper)

    def _get_uid(self, registration: Registration) -> int | None:
        """The user of a sandbox: us, or for a host that runs as root an unused one, because skills never run as root.

        With a writable directory it is the owner of that directory; if that is root, ids are mapped.
        """
        if os.geteuid() != 0:
            return None
        if registration.writable and registration.allowed_root is not None:
            owner = registration.allowed_root.stat().st_uid
            if owner != 0:
                return owner
        if self._uid is None:
            uids = self._settings.sandbox_uids
            pool = UidPool(self._workspaces / ".uids", *uids, lambda name: (self._workspaces / name).is_dir())
            self._workspaces.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._uid = pool.claim(_OWNER)
        return self._uid.uid


SkillIsolation: TypeAlias = LocalIsolation | SandboxIsolation
"""Starts processes of skills on this machine."""


def _find_mounts(registration: Registration) -> dict[Path, bool]:
    """The directories that are mounted at their own paths, and whether they are writable."""
    found = {Path(registration.entry).parent: False}
    root = registration.allowed_root
    if root is not None:
        if root.is_dir():
            found[root] = registration.writable
        elif registration.writable:
            raise ManifestFault("allowed_root", f"directory not found: {root}; create it, because the skill may write")
    # Nested directories come later and cover the outer ones.
    return dict(sorted(found.items()))


def build_sandbox_options(
    shown: Mapping[Path, bool], directory: Path, env: Mapping[str, str], *, first: bool = False
) -> list[str]:
    """The options of `bwrap` for one skill; `shown` are directories, and whether they are writable."""
    options: list[str] = []
    for path, writable in shown.items():
        options += ["--bind" if writable else "--ro-bind", os.path.realpath(path), str(path)]
    options += ["--dir", str(directory), "--remount-ro", "/", "--chdir", str(directory)]
    options += ["--seccomp", str(FILTER), "--new-session", *(["--as-pid-1"] if first else [])]
    for name, value in env.items():
        options += ["--setenv", name, value]
    return options


def _find_tools(search_path: str) -> SandboxTools:
    # Skills can import our modules; an installed package lies below the interpreter.
    ours = (Path(__file__).parents[3], *(Path(path) for path in sys.path if path.endswith("-packages")))
    links = {f"{LINKS}/{name}": target for name, target in Interpreter.ours().links.items()}
    return SandboxTools(search_path, (Path(sys.base_prefix), Path(sys.prefix), *ours), links=links)


def _change_owner(stdio: Sequence[int], uid: int) -> None:
    # Otherwise the user of the sandbox could not open /dev/stdout.
    for descriptor in stdio:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.fchown(descriptor, uid, uid)


@contextmanager
def _open_descriptors(tools: SandboxTools, etc: int, options: Sequence[str]) -> Generator[dict[int, int]]:
    opened: list[int] = []
    try:
        # Not on the command line, which every user can read.
        opened.append(create_memory_file(tools.options + encode_options(options)))
        opened.append(tools.filter.open_reader())
        yield {ETC: etc, OPTIONS: opened[0], FILTER: opened[1]}
    finally:
        for descriptor in opened:
            with suppress(OSError):
                os.close(descriptor)


_ALLOW_LOCAL = "To run hosted skills without isolation, set OPENSKILL_ALLOW_LOCAL=1 or `executor: local`."


class IsolationProvider:
    """The isolations of a host, created on first use."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._places: dict[str, SkillIsolation] = {}
        self._choosing = asyncio.Lock()

    async def get(self, registration: Registration) -> SkillIsolation:
        """The isolation for a skill; raises `ExecutorUnavailable` with advice.

        Falls back to `local` only if the settings allow it and nothing else was requested.
        """
        first, *others = list_isolations(registration.executor, self._settings)
        async with self._choosing:
            place = self._get(first)
            try:
                await place.check()
            except ExecutorUnavailable as error:
                if others:
                    return self._get(others[0])
                if registration.executor == self._settings.executor == "auto":
                    raise ExecutorUnavailable(f"{error.message}. {_ALLOW_LOCAL}") from error
                raise
            return place

    async def close(self) -> None:
        for place in self._places.values():
            await place.close()
        self._places.clear()

    def _get(self, name: str) -> SkillIsolation:
        if name not in self._places:
            is_local = name == "local"
            created = LocalIsolation(self._directory) if is_local else SandboxIsolation(self._settings, self._directory)
            self._places[name] = created
        return self._places[name]
