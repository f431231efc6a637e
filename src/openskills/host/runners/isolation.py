"""Local or sandboxed.

A way to start processes of hosted skills on this machine: what every one has to bring.

The variables that a hosted skill sees: documented ones, those of its manifest, and nothing of the host's. Pure.

| variable | value |
|---|---|
| `PATH`, `HOME`, `LANG` | of the place in which it runs |
| `OPENSKILL_SKILL_ID` | the id of the skill |
| `OPENSKILL_ALLOWED_ROOT` | the directory that it may read, absolute |
| `OPENSKILL_TIMEOUT_MS` | how long a call may take |
| `OPENSKILL_TRACE_ID`, `TRACEPARENT` | of this call |

Hosted skills as plain processes of this machine.

Hosted skills in sandboxes made by bubblewrap, with the profile of `executors/sandbox`.

A skill sees the system and the interpreter, the directory of its script and its `allowed_root`, all at the paths that
they have here and read-only (`writable: true` opens the latter), and nothing else of the machine; no network.

Where hosted skills run: from the word in a manifest to a place, and nothing weaker than what was asked for.
"""

import asyncio
import json
import os
import stat
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.bubblewrap.backend import SandboxBackend, SandboxTools, build_reach_command, cap_limits
from openskills.executors.bubblewrap.etc import ETC_STORE_NAME, SYSTEM_PATH
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
from openskills.executors.local import SYSTEM_PATH as LOCAL_PATH
from openskills.executors.protocol import LINKS, Interpreter
from openskills.executors.records.leases import UidLease, UidPool
from openskills.executors.spec import Isolation, Limits
from openskills.executors.supervisor import (
    PROGRAM,
    LaunchRequest,
    MarkedSupervisor,
    SupervisedProcess,
    Supervisor,
    SupervisorPool,
    SupervisorRegistry,
    to_rlimits,
)
from openskills.host.lifecycle import HostDirectory
from openskills.host.model import Call, HostLimits, ManifestFault, Registration
from openskills.settings import Settings
from openskills.subprocesses import start_helper


class SkillIsolation(Protocol):
    """A way to start processes of skills on this machine."""

    @property
    def isolation(self) -> Isolation:
        """What stands between them and the machine."""
        ...

    @property
    def is_exclusive(self) -> bool:
        """Whether what is started here is ended as a whole, so that each slot of a skill gets a start of its own."""
        ...

    async def check(self) -> None:
        """Raises `ExecutorUnavailable` with the fix when nothing can be started here."""
        ...

    def environment(self, registration: Registration) -> dict[str, str]:
        """The variables that are the same for all calls of a skill."""
        ...

    async def start(
        self, registration: Registration, argv: Sequence[str], env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> SupervisedProcess:
        """Start a program of a skill with these descriptors. Everything that it starts ends with it, or with us."""
        ...

    async def close(self) -> None:
        """End everything."""
        ...


def to_process_limits(limits: HostLimits) -> Limits:
    """What every process of a skill is held to."""
    return Limits(
        memory_bytes=limits.memory_bytes,
        processes=limits.processes,
        file_bytes=limits.file_bytes,
        cpu_seconds=limits.cpu_seconds,
    )


def build_skill_environment(registration: Registration, *, path: Sequence[str], home: str) -> dict[str, str]:
    """What is the same for all calls of a skill. The manifest may say otherwise for everything but the skill's own."""
    root = {} if registration.allowed_root is None else {"OPENSKILL_ALLOWED_ROOT": str(registration.allowed_root)}
    return {
        "PATH": ":".join(path),
        "HOME": home,
        "LANG": "C.UTF-8",
        **registration.environment,
        "OPENSKILL_SKILL_ID": registration.id,
        "OPENSKILL_TIMEOUT_MS": str(registration.timeout_ms),
        **root,
    }


def build_call_environment(call: Call) -> dict[str, str]:
    """What belongs to one call."""
    parent = {} if call.traceparent is None else {"TRACEPARENT": call.traceparent}
    return {**call.secrets, "OPENSKILL_TRACE_ID": call.trace_id, **parent}


class LocalIsolation:
    """Plain processes of this machine, with this user's rights. NOT a sandbox.

    They begin in `directory`, and have a home of their own that ends with us.
    """

    isolation = Isolation.NONE
    is_exclusive = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._keepers = SupervisorPool()
        self._home: HostDirectory | None = None
        self._python = Interpreter.ours()

    async def check(self) -> None:
        """It works wherever a process can be started."""

    def environment(self, registration: Registration) -> dict[str, str]:
        """See `Place.environment`."""
        if self._home is None:
            self._home = HostDirectory()
            self._python.link_in(_links(self._home))
        path = (*self._python.search_path(str(_links(self._home))), *LOCAL_PATH)
        return build_skill_environment(registration, path=path, home=str(self._home.path))

    async def start(
        self, registration: Registration, argv: Sequence[str], env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> SupervisedProcess:
        """See `Place.start`."""
        launch = LaunchRequest(argv, env, str(self._directory), dict(enumerate(stdio)))
        return await self._keepers.start(launch, to_rlimits(to_process_limits(registration.limits)))

    async def close(self) -> None:
        """See `Place.close`."""
        await self._keepers.close()
        if self._home is not None:
            await asyncio.to_thread(self._home.remove)
            self._home = None


def _links(home: HostDirectory) -> Path:
    """Beside the home, where a skill that clears it does not get."""
    return home.path.with_name("bin")


_OWNER = "host"
_IDMAP_PROGRAM = PROGRAM.with_name("idmap.py")


class SandboxIsolation:
    """Implements `Place`. What is started begins in `directory`, of which it sees only what it may."""

    isolation = Isolation.BUBBLEWRAP
    is_exclusive = True

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._workspaces = settings.state_dir / "workspaces"
        self._stand: SandboxTools | None = None
        self._keepers = SupervisorRegistry()
        self._uid: UidLease | None = None
        self._passed = False

    async def check(self) -> None:
        """See `Place.check`: the self-test of the sandbox, once."""
        if self._passed:
            return
        backend = SandboxBackend(search_path=self._settings.search_path, workspaces=self._workspaces)
        try:
            await backend.check()
        finally:
            await backend.close()
        self._passed = True

    def environment(self, registration: Registration) -> dict[str, str]:
        """See `Place.environment`."""
        path = (*Interpreter.ours().search_path(), f"{sys.base_prefix}/bin", *SYSTEM_PATH)
        return build_skill_environment(registration, path=path, home=HOME)

    async def start(
        self, registration: Registration, argv: Sequence[str], env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> SupervisedProcess:
        """See `Place.start`."""
        stand = self._stand = self._stand or _find_tools(self._settings.search_path)
        shown = _find_mounts(registration)
        uid = self._get_uid(registration)
        found = await self._get_supervisor(stand, shown, uid)
        etc = await stand.etc.get_descriptor(self._workspaces / ETC_STORE_NAME)
        if uid is not None:
            # To pass, not to list: who runs the sandbox must get to its /etc.
            self._workspaces.chmod(stat.S_IMODE(self._workspaces.stat().st_mode) | stat.S_IXOTH)
        command = build_command_line(
            bwrap=stand.bwrap,
            setpriv=stand.setpriv,
            uid=None,
            marker=found.marker,
            held=cap_limits(to_process_limits(registration.limits)),
            argv=argv,
            terminal=False,
            shell=stand.shell,
        )
        if uid is not None:
            _change_owner(stdio, uid)
        options = build_sandbox_options(shown, self._directory, env)
        with _open_descriptors(stand, etc, options) as descriptors:
            launch = LaunchRequest(
                command,
                {},
                "/",
                {**dict(enumerate(stdio)), **descriptors},
                handshake=(READY, GO),
                contained=True,
                user=uid,
            )
            try:
                return await found.supervisor.start(launch)
            except InvalidArgument as error:
                raise ExecutorUnavailable(f"{stand.bwrap}: {error.message}; nothing is run") from error

    async def close(self) -> None:
        """See `Place.close`."""
        await self._keepers.close()
        if self._stand is not None:
            self._stand.close()
            self._stand = None
        if self._uid is not None:
            self._uid.release()
            self._uid = None

    async def _get_supervisor(
        self, stand: SandboxTools, shown: "tuple[SandboxMount, ...]", uid: int | None
    ) -> MarkedSupervisor:
        """What starts sandboxes in which these directories are seen; only a host that is root needs several."""
        key = shown if uid is not None else ()
        return await self._keepers.get(key, lambda: self._start_supervisor(stand, key, uid))

    def _start_supervisor(self, stand: SandboxTools, shown: "tuple[SandboxMount, ...]", uid: int | None) -> Supervisor:
        argv = [sys.executable, "-I", "-S", str(PROGRAM)]
        if uid is not None:
            of_root = [str(one.path) for one in shown if one.writable and one.path.stat().st_uid == 0]
            if of_root:
                argv = [sys.executable, "-I", "-S", str(_IDMAP_PROGRAM), str(uid), json.dumps(of_root), *argv]
            ours = (PROGRAM.parent, self._workspaces / ETC_STORE_NAME, Path(stand.bwrap).parent, Path(sys.prefix))
            argv = build_reach_command([*(one.path for one in shown), *ours, *stand.read_only], argv)
        helper = start_helper(argv, {})
        return Supervisor(helper.connection, helper)

    def _get_uid(self, registration: Registration) -> int | None:
        """Who a skill is outside of its sandbox: us, or, as nobody is root there, a user that nobody else is.

        One that may write to its directory is who owns that, or made to look like that where it is root's.
        """
        if os.geteuid() != 0:
            return None
        if registration.writable and registration.allowed_root is not None:
            owner = registration.allowed_root.stat().st_uid
            if owner != 0:
                return owner
        if self._uid is None:
            pool = UidPool(self._workspaces / ".uids", *self._settings.sandbox_uids, self._is_workspace)
            self._workspaces.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._uid = pool.claim(_OWNER)
        return self._uid.uid

    def _is_workspace(self, name: str) -> bool:
        return (self._workspaces / name).is_dir()


@dataclass(frozen=True, slots=True)
class SandboxMount:
    """A directory of this machine that a skill sees at its own path."""

    path: Path
    writable: bool = False


def _find_mounts(registration: Registration) -> tuple[SandboxMount, ...]:
    found = {Path(registration.entry).parent: False}
    root = registration.allowed_root
    if root is not None:
        if not root.is_dir():
            raise ManifestFault("allowed_root", f"there is no directory {root}; make it or correct the manifest")
        found[root] = registration.writable
    # What lies in another comes after it, and covers it.
    return tuple(SandboxMount(path, found[path]) for path in sorted(found))


def build_sandbox_options(shown: Sequence[SandboxMount], directory: Path, env: Mapping[str, str]) -> list[str]:
    """The part of the options of `bwrap` that belongs to one skill. Pure."""
    options: list[str] = []
    for one in shown:
        options += ["--bind" if one.writable else "--ro-bind", os.path.realpath(one.path), str(one.path)]
    options += ["--dir", str(directory), "--remount-ro", "/", "--chdir", str(directory)]
    options += ["--seccomp", str(FILTER), "--new-session"]
    for name, value in env.items():
        options += ["--setenv", name, value]
    return options


def _find_tools(search_path: str) -> SandboxTools:
    # Our own modules are for skills, too; where they are installed they lie below the interpreter's.
    ours = (Path(__file__).parents[3], *(Path(path) for path in sys.path if path.endswith("-packages")))
    links = {f"{LINKS}/{name}": target for name, target in Interpreter.ours().links.items()}
    return SandboxTools(search_path, (Path(sys.base_prefix), Path(sys.prefix), *ours), links=links)


def _change_owner(stdio: Sequence[int], uid: int) -> None:
    """Let the user of a sandbox open its own stdout by name: a pipe belongs to somebody, too."""
    for descriptor in stdio:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.fchown(descriptor, uid, uid)


@contextmanager
def _open_descriptors(stand: SandboxTools, etc: int, options: Sequence[str]) -> Generator[dict[int, int]]:
    opened: list[int] = []
    try:
        # Through a file in memory: what stands on a command line can be read by every user of the machine.
        opened.append(create_memory_file(stand.options + encode_options(options)))
        opened.append(stand.filter.open_reader())
        yield {ETC: etc, OPTIONS: opened[0], FILTER: opened[1]}
    finally:
        for descriptor in opened:
            with suppress(OSError):
                os.close(descriptor)


_ISOLATION_NAMES = ("auto", "sandbox", "local")
_ALLOW_LOCAL = "To run hosted skills without any isolation, set OPENSKILL_ALLOW_LOCAL=1 or `executor: local`."


class IsolationProvider:
    """The places of a host, each made when a skill first wants it."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._places: dict[str, SkillIsolation] = {}
        self._choosing = asyncio.Lock()

    async def get(self, registration: Registration) -> SkillIsolation:
        """Where a skill runs; raises `ExecutorUnavailable` when it cannot run there, and says what to do.

        Nothing weaker is ever taken instead, unless the settings allow `local` and nothing was asked for.
        """
        name = self._settings.executor if registration.executor == "auto" else registration.executor
        if name not in _ISOLATION_NAMES:
            raise ManifestFault(
                "executor",
                f"a hosted command cannot run in {name!r}; use one of {', '.join(_ISOLATION_NAMES)}, or type: docker",
            )
        async with self._choosing:
            if name == "local":
                return self._get_local()
            place = self._get_sandbox()
            try:
                await place.check()
            except ExecutorUnavailable as error:
                if name != "auto":
                    raise
                if not self._settings.allow_local:
                    raise ExecutorUnavailable(f"{error.message}. {_ALLOW_LOCAL}") from error
                return self._get_local()
            return place

    async def close(self) -> None:
        """End everything."""
        for place in self._places.values():
            await place.close()
        self._places.clear()

    def _get_local(self) -> SkillIsolation:
        return self._places.setdefault("local", LocalIsolation(self._directory))

    def _get_sandbox(self) -> SkillIsolation:
        return self._places.setdefault("sandbox", SandboxIsolation(self._settings, self._directory))
