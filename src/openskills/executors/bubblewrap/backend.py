"""Sandboxes for commands.

Which directories another user cannot get to, though it may see what is in them, and how to show them to it.

`bwrap` finds what it mounts by path, as the user that it runs as. What lies below root's home is out of its reach, so
the process that starts it gets a view of the file system in which the way there is open, and nothing else.

What to do about a machine on which bubblewrap does not work, from what it said and what the kernel is set to.

What is the same for all sandboxes of one maker: programs, options, the system call filter, `/etc`.

Commands in a sandbox of their own, made by bubblewrap: see `bubblewrap.py` for what they see and `seccomp.py` for
what they may ask of the kernel.

Each command gets a new one, or one of the same workspace that is as good as new (`kept.py`). When it cannot be had,
nothing is run.
"""

import asyncio
import json
import os
import platform
import re
import resource
import signal
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import which

from openskills.concurrency import CrossLoopLock
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.bubblewrap.etc import ETC_STORE_NAME, SYSTEM_PATH, EtcCache, find_visible_system
from openskills.executors.bubblewrap.profile import (
    BASH,
    DASH,
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
    SandboxLimits,
    SealedMemoryFile,
    build_command_line,
    build_command_options,
    build_system_options,
    create_memory_file,
    encode_options,
)
from openskills.executors.bubblewrap.reuse import IDLE_SECONDS, IdleSandboxes, SandboxPool, can_share
from openskills.executors.bubblewrap.seccomp import build_filter
from openskills.executors.bubblewrap.selftest import (
    ExpectedFindings,
    check_isolation,
    create_trial_workspace,
    format_writable,
)
from openskills.executors.network.namespace import PORT, connect_proxy
from openskills.executors.network.proxy import FilteringProxy
from openskills.executors.protocol import LINKS, Interpreter, WorkspaceDirectory
from openskills.executors.spec import SKILLS, VENV, Command, Isolation, Limits
from openskills.executors.supervisor import (
    MARKER_VARIABLE,
    PROGRAM,
    LaunchRequest,
    MarkedSupervisor,
    SupervisedProcess,
    Supervisor,
    SupervisorRegistry,
)
from openskills.subprocesses import start_helper

REACH_PROGRAM = Path(__file__).parents[1] / "programs" / "reach.py"


def build_reach_command(directories: Sequence[Path], argv: Sequence[str]) -> list[str]:
    """A command line that starts `argv` where other users can get to all `directories`. Needs root."""
    real = select_topmost(Path(os.path.realpath(directory)) for directory in directories)
    covers = find_closed_parents(real, lambda path: bool(os.stat(path).st_mode & stat.S_IXOTH))
    lists = (json.dumps([str(path) for path in paths]) for paths in (covers, real))
    return [sys.executable, "-I", "-S", str(REACH_PROGRAM), *lists, *argv]


def select_topmost(directories: Iterable[Path]) -> list[Path]:
    """The directories that lie below no other of them. Pure."""
    found: list[Path] = []
    for directory in sorted(set(directories)):
        if not any(directory.is_relative_to(above) for above in found):
            found.append(directory)
    return found


def find_closed_parents(directories: Sequence[Path], is_open: Callable[[Path], bool]) -> list[Path]:
    """The topmost directories on the way to these that other users cannot pass through. Pure."""
    found: dict[Path, None] = {}
    for directory in directories:
        way = reversed(directory.parents)
        if closed := next((step for step in way if not is_open(step)), None):
            found[closed] = None
    return list(found)


def allow_traversal(tree: Path, uid: int) -> None:
    """Let the user of a workspace get to its directory, past the one that is ours: pass, not list.

    Needs root; other users of the machine still cannot.
    """
    ours = tree.parent
    os.chown(ours, -1, uid)
    ours.chmod(0o710)
    ours.parent.chmod(stat.S_IMODE(ours.parent.stat().st_mode) | stat.S_IXOTH)


KernelSettingReader = Callable[[str], str]
"""The value of a kernel setting, by its path below /proc/sys; empty when there is none."""

_ALTERNATIVES = "Or use the executor `container`, or allow `local`, which isolates nothing."
_NAMESPACES_REFUSED = re.compile(r"namespace|uid map|gid map|RTM_NEWADDR|No permissions", re.IGNORECASE)


def read_kernel_setting(name: str) -> str:
    """The value that this machine has."""
    try:
        return (Path("/proc/sys") / name).read_text("ascii").strip()
    except OSError:
        return ""


def suggest_fix(said: str, setting: KernelSettingReader = read_kernel_setting) -> str:
    """One or two sentences that say what to do."""
    if "Unknown option" in said:
        return f"This bubblewrap is too old: it needs --bind-fd, which came with 0.10. Upgrade it. {_ALTERNATIVES}"
    if setting("user/max_user_namespaces") == "0":
        return f"User namespaces are off: sysctl -w user.max_user_namespaces=10000. {_ALTERNATIVES}"
    if setting("kernel/unprivileged_userns_clone") == "0":
        return f"User namespaces are off: sysctl -w kernel.unprivileged_userns_clone=1. {_ALTERNATIVES}"
    if setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor keeps user namespaces from programs without a profile: install the one for bwrap (Ubuntu: "
            "apt-get install apparmor-profiles, then link bwrap-userns-restrict into /etc/apparmor.d and reload). "
            f"{_ALTERNATIVES}"
        )
    if _NAMESPACES_REFUSED.search(said):
        return f"If this is a container, it must be allowed to make user namespaces. {_ALTERNATIVES}"
    return _ALTERNATIVES


_INSTALL = "install it (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)"


class SandboxTools:
    """Made once, and closed by who made it.

    `read_only` are directories of this machine that commands see, besides the system; `links` (path and target) are
    made beside them. `bwrap` and `rules` (the system call filter) are for those who have better ones. Raises
    `ExecutorUnavailable` with what is missing, and the fix.
    """

    def __init__(
        self,
        search_path: str,
        read_only: Sequence[Path],
        *,
        links: Mapping[str, str] | None = None,
        bwrap: Path | None = None,
        rules: bytes | None = None,
    ) -> None:
        if sys.platform != "linux":
            raise ExecutorUnavailable("bubblewrap needs Linux; use the executor `container`, or allow `local`")
        self.bwrap = str(bwrap) if bwrap else _find_program("bwrap", search_path, f"bubblewrap is missing; {_INSTALL}")
        self.setpriv = _find_program("setpriv", search_path, "setpriv is missing; install util-linux")
        self.shell = DASH if os.path.exists(DASH) else BASH
        self.read_only = tuple(read_only)
        system = find_visible_system(self.read_only)
        made = ((target, path) for path, target in (links or {}).items())
        self.options = encode_options(build_system_options(replace(system, links=(*system.links, *made))))
        self.filter = SealedMemoryFile(build_filter(platform.machine()) if rules is None else rules)
        self.etc = EtcCache(dict(system.in_etc))

    def close(self) -> None:
        """Give back the descriptors."""
        self.filter.close()
        self.etc.close()


def _find_program(name: str, search_path: str, missing: str) -> str:
    # What lies in the current directory is not the system's.
    places = [place for place in search_path.split(":") if os.path.isabs(place)]
    found = which(name, path=":".join([*places, *SYSTEM_PATH]))
    if found is None:
        raise ExecutorUnavailable(missing)
    return os.path.abspath(found)


EXPECTED: ExpectedFindings = {
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
    "writable places": (format_writable(ROOT),),
    "places to keep closed": ("",),
    "processes": ("few",),
    "shared memory": ("small",),
}
"""What the probes of the self-test find in a sandbox that is one."""

_KEYBOARD_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_INIT_PROCESSES = 1
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
        kept: float = IDLE_SECONDS,
    ) -> None:
        self._search_path = search_path
        self._workspaces = workspaces
        self._bwrap = bwrap
        self._rules = rules
        self._kept = kept
        self._room = IdleSandboxes()
        self._python = Interpreter.chosen(python) or Interpreter.base()
        self._read_only = (Path(sys.base_prefix), *self._python.directories, *read_only)
        self._keepers = SupervisorRegistry()
        self._checking = CrossLoopLock()
        self._stand: SandboxTools | None = None
        self._passed = False
        self.path = (*path, *self._python.search_path(), *SYSTEM_PATH)

    async def check(self) -> Isolation:
        """Run the self-test unless it has passed already; raises `ExecutorUnavailable` with what failed and the fix."""
        async with self._checking:
            if not self._passed:
                with create_trial_workspace() as place:
                    await self._run_self_test(place)
                self._passed = True
        return Isolation.BUBBLEWRAP

    async def attach(self, place: WorkspaceDirectory) -> "SandboxLauncher":
        """What starts the commands of this workspace."""
        stand = self._stand = self._stand or self._create_tools()
        if os.geteuid() == 0:
            if not place.uid:
                raise ExecutorUnavailable("a sandbox is never entered as root; give the workspace a user of its own")
            allow_traversal(place.tree, place.uid)
        await stand.etc.get_descriptor(self.etc_directory(place))
        return SandboxLauncher(self, stand, place, self._room, kept=self._kept)

    def etc_directory(self, place: WorkspaceDirectory) -> Path:
        """Where the `/etc` of a workspace's sandboxes is kept."""
        return (self._workspaces or place.tree.parents[1]) / ETC_STORE_NAME

    async def get_supervisor(self, place: WorkspaceDirectory) -> MarkedSupervisor:
        """The process that starts commands for this workspace; a new one when somebody ended the last."""
        # Only root starts them as other users, who may not get to the workspaces.
        workspaces = place.tree.parents[1] if os.geteuid() == 0 else None
        return await self._keepers.get(workspaces, lambda: self._start_supervisor(workspaces, place))

    async def close(self) -> None:
        """End everything."""
        await self._keepers.close()
        if self._stand is not None:
            self._stand.close()
            self._stand = None

    async def _run_self_test(self, place: WorkspaceDirectory) -> None:
        launcher = await self.attach(place)
        try:
            await check_isolation(launcher, place, EXPECTED, suggest_fix, "bubblewrap")
        finally:
            await launcher.close()
            await self._keepers.close_supervisor(place.tree.parents[1])

    def _create_tools(self) -> SandboxTools:
        links = {f"{LINKS}/{name}": target for name, target in self._python.links.items()}
        return SandboxTools(self._search_path, self._read_only, links=links, bwrap=self._bwrap, rules=self._rules)

    def _start_supervisor(self, workspaces: Path | None, place: WorkspaceDirectory) -> Supervisor:
        argv = [sys.executable, "-I", "-S", str(PROGRAM)]
        if workspaces is not None:
            ours = [workspaces, PROGRAM.parent, Path(sys.prefix), *([self._bwrap.parent] if self._bwrap else [])]
            argv = build_reach_command([*ours, self.etc_directory(place), *self._read_only], argv)
        helper = start_helper(argv, {})
        return Supervisor(helper.connection, helper)


class SandboxLauncher:
    """Starts the commands of one workspace."""

    root = ROOT
    home = HOME
    visible_pids = True

    def __init__(
        self,
        backend: SandboxBackend,
        stand: SandboxTools,
        place: WorkspaceDirectory,
        room: IdleSandboxes,
        *,
        kept: float,
    ) -> None:
        self._kept = SandboxPool(self._launch_as_init, ROOT, room, idle=kept) if kept > 0 else None
        self._backend = backend
        self._stand = stand
        self._place = place
        self._uid = place.uid if os.geteuid() == 0 else None
        # Opened once: whatever the path leads to later, this is the directory that commands get.
        self._tree = os.open(place.tree, _DIRECTORY)
        self._closing: set[asyncio.Task[None]] = set()
        self.path = backend.path

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        """Start a command with this environment and these descriptors."""
        if self._kept is None or not can_share(command):
            return await self._launch_in_own_sandbox(command, env, stdio)
        kind = (command.skill, cap_limits(command.limits), await self._identify_mounts(command.skill))
        # As it would be in a sandbox of its own.
        marked = {**env, MARKER_VARIABLE: (await self._backend.get_supervisor(self._place)).marker}
        found = await self._kept.start(kind, command, marked, stdio)
        if found is None:
            found = await self._launch_in_own_sandbox(command, env, stdio)
            kept = self._kept
            # Not before it has ended: until then the processors are for the command.
            found.add_done_callback(lambda _: kept.prepare(kind, command, env))
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

    async def _identify_mounts(self, skill: str | None) -> tuple[tuple[int, int], ...]:
        """Tells apart what a sandbox was made with: a skill that is staged again is another directory."""
        etc = os.fstat(await self._stand.etc.get_descriptor(self._backend.etc_directory(self._place)))
        names = (f"{SKILLS}/{skill}", f"{SKILLS}/{skill}/{VENV}") if skill is not None else ()
        found = [etc, *(os.stat(name, dir_fd=self._tree, follow_symlinks=False) for name in names)]
        return tuple((status.st_dev, status.st_ino) for status in found)

    async def _launch_as_init(
        self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]
    ) -> SupervisedProcess:
        return await self._launch_in_own_sandbox(command, env, stdio, first=True)

    async def _launch_in_own_sandbox(
        self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int], *, first: bool = False
    ) -> SupervisedProcess:
        """Start a command in a sandbox of its own; `first`: as its process 1."""
        proxy = FilteringProxy(command.network) if command.network else None
        if proxy is not None:
            env = {**env, **proxy.environment(PORT)}
        terminal = command.terminal is not None
        found = await self._backend.get_supervisor(self._place)
        argv = build_command_line(
            bwrap=self._stand.bwrap,
            setpriv=self._stand.setpriv,
            # A terminal is opened before the command begins, which only root may do.
            uid=self._uid if terminal else None,
            marker=found.marker,
            held=cap_limits(command.limits),
            shell=self._stand.shell,
            argv=command.argv,
            terminal=terminal,
        )
        etc = await self._stand.etc.get_descriptor(self._backend.etc_directory(self._place))
        with self._open_descriptors(command, env, etc, first=first) as descriptors:
            launch = LaunchRequest(
                argv,
                {},
                "/",
                {**dict(enumerate(stdio)), **descriptors},
                terminal=0 if terminal else None,
                # Keys are for the command: what contains it must not die of Ctrl-C.
                ignored=_KEYBOARD_SIGNALS if terminal else (),
                handshake=(READY, GO),
                hold=proxy is not None,
                contained=True,
                user=None if terminal else self._uid,
            )
            try:
                kept = await found.supervisor.start(launch)
            except InvalidArgument as error:
                # What cannot be started is bwrap; the command comes later.
                raise ExecutorUnavailable(f"{self._stand.bwrap}: {error.message}; nothing is run") from error
        if proxy is not None:
            task = await connect_proxy(kept, proxy, self._uid)
            # A task that nobody refers to may be collected while it runs.
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        return kept

    @contextmanager
    def _open_descriptors(
        self, command: Command, env: Mapping[str, str], etc: int, *, first: bool
    ) -> Generator[dict[int, int]]:
        found = {TREE: self._tree, ETC: etc}
        try:
            found[SKILLS_TREE] = _open_directory(SKILLS, self._tree)
            venv_of = command.skill
            if venv_of is not None:
                found[VENV_TREE] = _open_venv(venv_of, found[SKILLS_TREE])
            terminal = command.terminal is not None
            options = build_command_options(env=env, cwd=command.cwd, venv_of=venv_of, terminal=terminal, first=first)
            # Through a file in memory: what stands on a command line can be read by every user of the machine.
            found[OPTIONS] = create_memory_file(self._stand.options + encode_options(options))
            found[FILTER] = self._stand.filter.open_reader()
            yield found
        finally:
            for number, descriptor in found.items():
                if number not in (TREE, ETC):
                    os.close(descriptor)


def cap_limits(limits: Limits) -> SandboxLimits:
    """The limits that are set inside, none above what this process is held to itself."""
    return SandboxLimits(
        processes=_cap_limit(resource.RLIMIT_NPROC, limits.processes, 1, _INIT_PROCESSES),
        open_files=_cap_limit(resource.RLIMIT_NOFILE, limits.open_files),
        file_kib=_cap_limit(resource.RLIMIT_FSIZE, limits.file_bytes, 1024),
        memory_kib=_cap_limit(resource.RLIMIT_DATA, limits.memory_bytes, 1024),
        cpu_seconds=_cap_limit(resource.RLIMIT_CPU, limits.cpu_seconds),
    )


def _cap_limit(kind: int, wanted: int | None, unit: int = 1, more: int = 0) -> int | None:
    if wanted is None:
        return None
    _, most = resource.getrlimit(kind)
    value = wanted + more
    return (value if most == resource.RLIM_INFINITY else min(value, most)) // unit


def _open_directory(name: str, parent: int) -> int:
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _open_venv(skill: str, skills: int) -> int:
    directory = _open_directory(skill, skills)
    try:
        return _open_directory(VENV, directory)
    finally:
        os.close(directory)
