"""Hosted skills in sandboxes made by bubblewrap, with the profile of `executors/sandbox`.

A skill sees the system and the interpreter, the directory of its script and its `allowed_root`, all at the paths that
they have here and read-only (`writable: true` opens the latter), and nothing else of the machine; no network.
"""

import json
import os
import stat
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from openskills.child import begin
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.backend import LINKS, Interpreter
from openskills.executors.processes.keeping import PROGRAM, Keeper, Kept, Launch
from openskills.executors.records.uids import HeldUid, UidPool
from openskills.executors.sandbox.backend import SandboxBackend, held
from openskills.executors.sandbox.bubblewrap import (
    ETC,
    FILTER,
    GO,
    HOME,
    OPTIONS,
    READY,
    command_line,
    encoded,
)
from openskills.executors.sandbox.etc_store import NAME
from openskills.executors.sandbox.keepers import Marked, MarkedKeepers
from openskills.executors.sandbox.memory import in_memory
from openskills.executors.sandbox.reach import reaching
from openskills.executors.sandbox.stand import Stand
from openskills.executors.sandbox.visible import SYSTEM_PATH
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
        self._stand: Stand | None = None
        self._keepers = MarkedKeepers()
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
        path = (*Interpreter.ours().search_path(), f"{sys.base_prefix}/bin", *SYSTEM_PATH)
        return skill_environment(registration, path=path, home=HOME)

    async def start(
        self, registration: Registration, argv: Sequence[str], env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> Kept:
        """See `Place.start`."""
        stand = self._stand = self._stand or _stand(self._settings.search_path)
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
        await self._keepers.close()
        if self._stand is not None:
            self._stand.close()
            self._stand = None
        if self._uid is not None:
            self._uid.release()
            self._uid = None

    async def _keeper(self, stand: Stand, shown: "tuple[Shown, ...]", uid: int | None) -> Marked:
        """What starts sandboxes in which these directories are seen; only a host that is root needs several."""
        key = shown if uid is not None else ()
        return await self._keepers.get(key, lambda: self._begun(stand, key, uid))

    def _begun(self, stand: Stand, shown: "tuple[Shown, ...]", uid: int | None) -> Keeper:
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


def _stand(search_path: str) -> Stand:
    # Our own modules are for skills, too; where they are installed they lie below the interpreter's.
    ours = (Path(__file__).parents[3], *(Path(path) for path in sys.path if path.endswith("-packages")))
    links = {f"{LINKS}/{name}": target for name, target in Interpreter.ours().links.items()}
    return Stand(search_path, (Path(sys.base_prefix), Path(sys.prefix), *ours), links=links)


def _give(stdio: Sequence[int], uid: int) -> None:
    """Let the user of a sandbox open its own stdout by name: a pipe belongs to somebody, too."""
    for descriptor in stdio:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.fchown(descriptor, uid, uid)


@contextmanager
def _descriptors(stand: Stand, etc: int, options: Sequence[str]) -> Generator[dict[int, int]]:
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
