"""Commands in a sandbox of their own, made by bubblewrap: see `bubblewrap.py` for what they see and `seccomp.py` for
what they may ask of the kernel.

Each command gets a new one, or one of the same workspace that is as good as new (`kept.py`). When it cannot be had,
nothing is run.
"""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from openskills.child import begin
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.across_loops import AcrossLoops
from openskills.executors.backend import LINKS, Interpreter, Place
from openskills.executors.layout import SKILLS, VENV
from openskills.executors.network.connected import connect
from openskills.executors.network.netns import PORT
from openskills.executors.network.proxy import FilteringProxy
from openskills.executors.processes.keeping import PROGRAM, Keeper, Kept, Launch
from openskills.executors.processes.leftovers import VARIABLE
from openskills.executors.sandbox.bubblewrap import (
    ETC,
    FILTER,
    GO,
    HOME,
    OPTIONS,
    READY,
    ROOT,
    SKILLS_TREE,
    TREE,
    USER,
    VENV_TREE,
    Held,
    command_line,
    command_options,
    encoded,
)
from openskills.executors.sandbox.etc_store import NAME
from openskills.executors.sandbox.keepers import Marked, MarkedKeepers
from openskills.executors.sandbox.kept import IDLE, KeptSandboxes, Room, may_share
from openskills.executors.sandbox.memory import in_memory
from openskills.executors.sandbox.reach import let_pass, reaching
from openskills.executors.sandbox.remedies import advice
from openskills.executors.sandbox.selftest import Expected, check_isolation, trial_place, writable
from openskills.executors.sandbox.stand import Stand
from openskills.executors.sandbox.visible import SYSTEM_PATH
from openskills.executors.spec import Command, Isolation, Limits

EXPECTED: Expected = {
    "uid": (str(USER),),
    "capabilities": ("none",),
    "new privileges": ("1",),
    "system call filter": ("2",),
    "strange variables": ("",),
    "open descriptors": ("",),
    "readable secrets": ("",),
    "kernel settings": ("closed",),
    "loopback of the host": ("ECONNREFUSED",),
    "unix sockets": ("EPERM",),
    "sockets of the hypervisor": ("EPERM",),
    "user namespaces": ("EPERM",),
    "writable places": (writable(ROOT),),
    "places to keep closed": ("",),
    "processes": ("few",),
    "shared memory": ("small",),
}
"""What the probes of the self-test find in a sandbox that is one."""

_KEYS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS_INSIDE = 1
"""The first process of a sandbox, which counts, too."""


class SandboxBackend:
    """Runs every command in a sandbox. It belongs to the event loop that uses it first.

    `read_only` are directories of this machine that commands may see, besides the system and this interpreter;
    `path` says where in them programs lie. `python` is what they find as `python` and `python3`; without it, this
    interpreter. `bwrap` and `rules` (the system call filter) are for those who have better
    ones: both must stand the self-test. `workspaces` is the directory that its workspaces lie in, where it is known
    before the first of them is: the self-test need not make a second `/etc` then. `kept` is how many seconds a sandbox
    waits for the next command of its kind; 0 gives each command one of its own.
    """

    name = "sandbox"
    isolates = True
    own_users = True

    def __init__(
        self,
        *,
        search_path: str = os.defpath,
        read_only: Sequence[Path] = (),
        path: Sequence[str] = (),
        python: Path | None = None,
        bwrap: Path | None = None,
        rules: bytes | None = None,
        workspaces: Path | None = None,
        kept: float = IDLE,
    ) -> None:
        self._search_path = search_path
        self._workspaces = workspaces
        self._bwrap = bwrap
        self._rules = rules
        self._kept = kept
        self._room = Room()
        self._python = Interpreter.chosen(python) or Interpreter.base()
        self._read_only = (Path(sys.base_prefix), *self._python.directories, *read_only)
        self._keepers = MarkedKeepers()
        self._checking = AcrossLoops()
        self._stand: Stand | None = None
        self._passed = False
        self.path = (*path, *self._python.search_path(), *SYSTEM_PATH)

    async def check(self) -> Isolation:
        """Run the self-test unless it has passed already; raises `ExecutorUnavailable` with what failed and the fix."""
        async with self._checking:
            if not self._passed:
                with trial_place() as place:
                    await self._try(place)
                self._passed = True
        return Isolation.BUBBLEWRAP

    async def attach(self, place: Place) -> "SandboxLauncher":
        """What starts the commands of this workspace."""
        stand = self._stand = self._stand or self._made()
        if os.geteuid() == 0:
            if not place.uid:
                raise ExecutorUnavailable("a sandbox is never entered as root; give the workspace a user of its own")
            let_pass(place.tree, place.uid)
        await stand.etc.descriptor(self.system(place))
        return SandboxLauncher(self, stand, place, self._room, kept=self._kept)

    def system(self, place: Place) -> Path:
        """Where the `/etc` of a workspace's sandboxes is kept."""
        return (self._workspaces or place.tree.parents[1]) / NAME

    async def keeper(self, place: Place) -> Marked:
        """The process that starts commands for this workspace; a new one when somebody ended the last."""
        # Only root starts them as other users, who may not get to the workspaces.
        workspaces = place.tree.parents[1] if os.geteuid() == 0 else None
        return await self._keepers.get(workspaces, lambda: self._begun(workspaces, place))

    async def close(self) -> None:
        """End everything."""
        await self._keepers.close()
        if self._stand is not None:
            self._stand.close()
            self._stand = None

    async def _try(self, place: Place) -> None:
        launcher = await self.attach(place)
        try:
            await check_isolation(launcher, place, EXPECTED, advice, "bubblewrap")
        finally:
            await launcher.close()
            await self._keepers.end(place.tree.parents[1])

    def _made(self) -> Stand:
        links = {f"{LINKS}/{name}": target for name, target in self._python.links.items()}
        return Stand(self._search_path, self._read_only, links=links, bwrap=self._bwrap, rules=self._rules)

    def _begun(self, workspaces: Path | None, place: Place) -> Keeper:
        argv = [sys.executable, "-I", "-S", str(PROGRAM)]
        if workspaces is not None:
            ours = [workspaces, PROGRAM.parent, Path(sys.prefix), *([self._bwrap.parent] if self._bwrap else [])]
            argv = reaching([*ours, self.system(place), *self._read_only], argv)
        helper = begin(argv, {})
        return Keeper(helper.connection, helper)


class SandboxLauncher:
    """Starts the commands of one workspace."""

    root = ROOT
    home = HOME
    visible_pids = True

    def __init__(self, backend: SandboxBackend, stand: Stand, place: Place, room: Room, *, kept: float) -> None:
        self._kept = KeptSandboxes(self._first, ROOT, room, idle=kept) if kept > 0 else None
        self._backend = backend
        self._stand = stand
        self._place = place
        self._uid = place.uid if os.geteuid() == 0 else None
        # Opened once: whatever the path leads to later, this is the directory that commands get.
        self._tree = os.open(place.tree, _DIRECTORY)
        self._closing: set[asyncio.Task[None]] = set()
        self.path = backend.path

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> Kept:
        """Start a command with this environment and these descriptors."""
        if self._kept is None or not may_share(command):
            return await self._own(command, env, stdio)
        kind = (command.skill, held(command.limits), await self._seen(command.skill))
        # As it would be in a sandbox of its own.
        marked = {**env, VARIABLE: (await self._backend.keeper(self._place)).marker}
        found = await self._kept.start(kind, command, marked, stdio)
        if found is None:
            found = await self._own(command, env, stdio)
            kept = self._kept
            # Not before it has ended: until then the processors are for the command.
            found.then(lambda _: kept.prepare(kind, command, env))
        return found

    async def close(self) -> None:
        """Give back the workspace's descriptor, and see sandboxes and proxies end."""
        if self._kept is not None:
            await self._kept.close()
        if self._closing:
            await asyncio.wait(self._closing)
        if self._tree >= 0:
            os.close(self._tree)
            self._tree = -1

    async def _seen(self, skill: str | None) -> tuple[tuple[int, int], ...]:
        """Tells apart what a sandbox was made with: a skill that is staged again is another directory."""
        etc = os.fstat(await self._stand.etc.descriptor(self._backend.system(self._place)))
        names = (f"{SKILLS}/{skill}", f"{SKILLS}/{skill}/{VENV}") if skill is not None else ()
        found = [etc, *(os.stat(name, dir_fd=self._tree, follow_symlinks=False) for name in names)]
        return tuple((status.st_dev, status.st_ino) for status in found)

    async def _first(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> Kept:
        return await self._own(command, env, stdio, first=True)

    async def _own(
        self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int], *, first: bool = False
    ) -> Kept:
        """Start a command in a sandbox of its own; `first`: as its process 1."""
        proxy = FilteringProxy(command.network) if command.network else None
        if proxy is not None:
            env = {**env, **proxy.environment(PORT)}
        terminal = command.terminal is not None
        found = await self._backend.keeper(self._place)
        argv = command_line(
            bwrap=self._stand.bwrap,
            setpriv=self._stand.setpriv,
            # A terminal is opened before the command begins, which only root may do.
            uid=self._uid if terminal else None,
            marker=found.marker,
            held=held(command.limits),
            shell=self._stand.shell,
            argv=command.argv,
            terminal=terminal,
        )
        etc = await self._stand.etc.descriptor(self._backend.system(self._place))
        with self._descriptors(command, env, etc, first=first) as descriptors:
            launch = Launch(
                argv,
                {},
                "/",
                {**dict(enumerate(stdio)), **descriptors},
                terminal=0 if terminal else None,
                # Keys are for the command: what contains it must not die of Ctrl-C.
                ignored=_KEYS if terminal else (),
                handshake=(READY, GO),
                hold=proxy is not None,
                contained=True,
                user=None if terminal else self._uid,
            )
            try:
                kept = await found.keeper.start(launch)
            except InvalidArgument as error:
                # What cannot be started is bwrap; the command comes later.
                raise ExecutorUnavailable(f"{self._stand.bwrap}: {error.message}; nothing is run") from error
        if proxy is not None:
            task = await connect(kept, proxy, self._uid)
            # A task that nobody refers to may be collected while it runs.
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        return kept

    @contextmanager
    def _descriptors(
        self, command: Command, env: Mapping[str, str], etc: int, *, first: bool
    ) -> Generator[dict[int, int]]:
        found = {TREE: self._tree, ETC: etc}
        try:
            found[SKILLS_TREE] = _directory(SKILLS, self._tree)
            venv_of = command.skill
            if venv_of is not None:
                found[VENV_TREE] = _venv(venv_of, found[SKILLS_TREE])
            terminal = command.terminal is not None
            options = command_options(env=env, cwd=command.cwd, venv_of=venv_of, terminal=terminal, first=first)
            # Through a file in memory: what stands on a command line can be read by every user of the machine.
            found[OPTIONS] = in_memory(self._stand.options + encoded(options))
            found[FILTER] = self._stand.filter.reading()
            yield found
        finally:
            for number, descriptor in found.items():
                if number not in (TREE, ETC):
                    os.close(descriptor)


def held(limits: Limits) -> Held:
    """The limits that are set inside, none above what this process is held to itself."""
    return Held(
        processes=_at_most(resource.RLIMIT_NPROC, limits.processes, 1, _OURS_INSIDE),
        open_files=_at_most(resource.RLIMIT_NOFILE, limits.open_files),
        file_kib=_at_most(resource.RLIMIT_FSIZE, limits.file_bytes, 1024),
        memory_kib=_at_most(resource.RLIMIT_DATA, limits.memory_bytes, 1024),
        cpu_seconds=_at_most(resource.RLIMIT_CPU, limits.cpu_seconds),
    )


def _at_most(kind: int, wanted: int | None, unit: int = 1, more: int = 0) -> int | None:
    if wanted is None:
        return None
    _, most = resource.getrlimit(kind)
    value = wanted + more
    return (value if most == resource.RLIM_INFINITY else min(value, most)) // unit


def _directory(name: str, parent: int) -> int:
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _venv(skill: str, skills: int) -> int:
    directory = _directory(skill, skills)
    try:
        return _directory(VENV, directory)
    finally:
        os.close(directory)
