"""Hosted skills in sandboxes made by bubblewrap, with the profile of `executors/sandbox`.

A skill sees the system and the interpreter, the directory of its script and its `allowed_root`, all at the paths that
they have here and read-only (`writable: true` opens the latter), and nothing else of the machine; no network.
"""

import asyncio
import json
import os
import platform
import stat
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from openskills.child import begin
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.processes.keeping import PROGRAM, Keeper, Kept, Launch
from openskills.executors.processes.leftovers import end_leftovers, new_marker, of_the_dead
from openskills.executors.records.uids import HeldUid, UidPool
from openskills.executors.sandbox.backend import SandboxBackend, held
from openskills.executors.sandbox.bubblewrap import (
    BASH,
    DASH,
    ETC,
    FILTER,
    GO,
    HOME,
    OPTIONS,
    READY,
    command_line,
    encoded,
    system_options,
)
from openskills.executors.sandbox.etc_held import HeldEtc
from openskills.executors.sandbox.etc_store import NAME
from openskills.executors.sandbox.memory import Sealed, in_memory
from openskills.executors.sandbox.reach import reaching
from openskills.executors.sandbox.seccomp import program
from openskills.executors.sandbox.visible import SYSTEM_PATH, visible_system
from openskills.executors.spec import Isolation
from openskills.host.registration import Registration
from openskills.host.running.manifest_fault import ManifestFault
from openskills.host.running.place import process_limits
from openskills.host.running.skill_environment import skill_environment
from openskills.settings import Settings

_OWNER = "host"
_OPENING = PROGRAM.with_name("idmap_enter.py")


class SandboxPlace:
    """Implements `Place`. What is started begins in `directory`, of which it sees only what it may."""

    isolation = Isolation.BUBBLEWRAP
    alone = True

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._workspaces = settings.state_dir / "workspaces"
        self._stand: _Stand | None = None
        self._keepers: dict[tuple[Shown, ...], _Marked] = {}
        self._beginning = asyncio.Lock()
        self._uid: HeldUid | None = None
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
        path = (os.path.dirname(sys.executable), f"{sys.base_prefix}/bin", *SYSTEM_PATH)
        return skill_environment(registration, path=path, home=HOME)

    async def start(
        self, registration: Registration, argv: Sequence[str], env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> Kept:
        """See `Place.start`."""
        stand = self._stand = self._stand or _Stand(self._settings.search_path)
        shown = _shown(registration)
        uid = self._user(registration)
        found = await self._keeper(stand, shown, uid)
        etc = await stand.etc.descriptor(self._workspaces / NAME)
        if uid is not None:
            # To pass, not to list: who runs the sandbox must get to its /etc.
            self._workspaces.chmod(stat.S_IMODE(self._workspaces.stat().st_mode) | stat.S_IXOTH)
        command = command_line(
            bwrap=stand.bwrap,
            setpriv=stand.setpriv,
            uid=None,
            marker=found.marker,
            held=held(process_limits(registration.limits)),
            argv=argv,
            terminal=False,
            shell=stand.shell,
        )
        if uid is not None:
            _give(stdio, uid)
        options = sandbox_options(shown, self._directory, env)
        with _descriptors(stand, etc, options) as descriptors:
            launch = Launch(
                command,
                {},
                "/",
                {**dict(enumerate(stdio)), **descriptors},
                handshake=(READY, GO),
                contained=True,
                user=uid,
            )
            try:
                return await found.keeper.start(launch)
            except InvalidArgument as error:
                raise ExecutorUnavailable(f"{stand.bwrap}: {error.message}; nothing is run") from error

    async def close(self) -> None:
        """See `Place.close`."""
        keepers = list(self._keepers.values())
        self._keepers.clear()
        for found in keepers:
            await found.keeper.close()
        if self._stand is not None:
            self._stand.close()
            self._stand = None
        if self._uid is not None:
            self._uid.release()
            self._uid = None

    async def _keeper(self, stand: "_Stand", shown: "tuple[Shown, ...]", uid: int | None) -> "_Marked":
        """What starts sandboxes in which these directories are seen; only a host that is root needs several."""
        key = shown if uid is not None else ()
        async with self._beginning:
            found = self._keepers.get(key)
            if found is None or not found.keeper.usable:
                gone = found.marker if found else None
                if found is not None:
                    await found.keeper.close()
                await asyncio.to_thread(end_leftovers, lambda marker: marker == gone or of_the_dead(marker))
                found = self._keepers[key] = _Marked(self._begun(stand, key, uid), new_marker())
            return found

    def _begun(self, stand: "_Stand", shown: "tuple[Shown, ...]", uid: int | None) -> Keeper:
        argv = [sys.executable, "-I", "-S", str(PROGRAM)]
        if uid is not None:
            of_root = [str(one.path) for one in shown if one.writable and one.path.stat().st_uid == 0]
            if of_root:
                argv = [sys.executable, "-I", "-S", str(_OPENING), str(uid), json.dumps(of_root), *argv]
            ours = (PROGRAM.parent, self._workspaces / NAME, Path(stand.bwrap).parent, Path(sys.prefix))
            argv = reaching([*(one.path for one in shown), *ours, *stand.read_only], argv)
        helper = begin(argv, {})
        return Keeper(helper.connection, helper)

    def _user(self, registration: Registration) -> int | None:
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
class Shown:
    """A directory of this machine that a skill sees at its own path."""

    path: Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class _Marked:
    keeper: Keeper
    marker: str


def _shown(registration: Registration) -> tuple[Shown, ...]:
    found = {Path(registration.entry).parent: False}
    root = registration.allowed_root
    if root is not None:
        if not root.is_dir():
            raise ManifestFault("allowed_root", f"there is no directory {root}; make it or correct the manifest")
        found[root] = registration.writable
    # What lies in another comes after it, and covers it.
    return tuple(Shown(path, found[path]) for path in sorted(found))


def sandbox_options(shown: Sequence[Shown], directory: Path, env: Mapping[str, str]) -> list[str]:
    """The part of the options of `bwrap` that belongs to one skill. Pure."""
    options: list[str] = []
    for one in shown:
        options += ["--bind" if one.writable else "--ro-bind", os.path.realpath(one.path), str(one.path)]
    options += ["--dir", str(directory), "--remount-ro", "/", "--chdir", str(directory)]
    options += ["--seccomp", str(FILTER), "--new-session"]
    for name, value in env.items():
        options += ["--setenv", name, value]
    return options


class _Stand:
    """What is the same for all skills."""

    def __init__(self, search_path: str) -> None:
        if sys.platform != "linux":
            raise ExecutorUnavailable("bubblewrap needs Linux")
        self.bwrap = _program("bwrap", search_path, "bubblewrap is missing; install it")
        self.setpriv = _program("setpriv", search_path, "setpriv is missing; install util-linux")
        # Our own modules are for skills, too; where they are installed they lie below the interpreter's.
        ours = (Path(__file__).parents[3], *(Path(path) for path in sys.path if path.endswith("-packages")))
        self.read_only = (Path(sys.base_prefix), Path(sys.prefix), *ours)
        system = visible_system(self.read_only)
        self.shell = DASH if os.path.exists(DASH) else BASH
        self.options = encoded(system_options(system))
        self.filter = Sealed(program(platform.machine()))
        self.etc = HeldEtc(dict(system.in_etc))

    def close(self) -> None:
        """Give back the descriptors."""
        self.filter.close()
        self.etc.close()


def _program(name: str, search_path: str, missing: str) -> str:
    # What lies in the current directory is not the system's.
    places = [place for place in search_path.split(":") if os.path.isabs(place)]
    found = which(name, path=":".join([*places, *SYSTEM_PATH]))
    if found is None:
        raise ExecutorUnavailable(missing)
    return os.path.abspath(found)


def _give(stdio: Sequence[int], uid: int) -> None:
    """Let the user of a sandbox open its own stdout by name: a pipe belongs to somebody, too."""
    for descriptor in stdio:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.fchown(descriptor, uid, uid)


@contextmanager
def _descriptors(stand: _Stand, etc: int, options: Sequence[str]) -> Generator[dict[int, int]]:
    opened: list[int] = []
    try:
        # Through a file in memory: what stands on a command line can be read by every user of the machine.
        opened.append(in_memory(stand.options + encoded(options)))
        opened.append(stand.filter.reading())
        yield {ETC: etc, OPTIONS: opened[0], FILTER: opened[1]}
    finally:
        for descriptor in opened:
            with suppress(OSError):
                os.close(descriptor)
