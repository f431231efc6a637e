"""Executor backend that runs each command in a bubblewrap sandbox.

`profile.py` has what commands see, `seccomp.py` the system calls they may make. Each command gets a new sandbox, or a
clean one of the same workspace (`reuse.py`). If no sandbox can be made, nothing is run.
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
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import which

from openskills.concurrency import CrossLoopLock
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.bubblewrap import profile
from openskills.executors.bubblewrap.etc import ETC_STORE_NAME, EtcCache, find_visible_system
from openskills.executors.bubblewrap.reuse import IDLE_SECONDS, IdleSandboxes, SandboxPool, can_share
from openskills.executors.bubblewrap.seccomp import build_filter
from openskills.executors.bubblewrap.selftest import (
    PASSED,
    build_expected_findings,
    check_isolation,
    create_trial_workspace,
    identify_program,
)
from openskills.executors.files.descriptors import change_owner
from openskills.executors.network.namespace import PORT, connect_proxy
from openskills.executors.network.proxy import FilteringProxy
from openskills.executors.protocol import LINKS, Interpreter, WorkspaceDirectory
from openskills.executors.spec import ENVIRONMENTS, SKILLS, SYSTEM_PATH, Command, Isolation, Limits
from openskills.executors.supervisor import (
    MARKER_VARIABLE,
    PROGRAM,
    LaunchRequest,
    SupervisedProcess,
    Supervisor,
    SupervisorRegistry,
)
from openskills.subprocesses import start_helper

REACH_PROGRAM = Path(__file__).parents[1] / "programs" / "reach.py"


def build_reach_command(directories: Sequence[Path], argv: Sequence[str]) -> list[str]:
    """A command line that starts `argv` in a mount namespace where other users can access all `directories`.

    `bwrap` opens what it mounts by path, as its own user, who cannot pass directories such as root's home. Needs root.
    """
    real = select_topmost(Path(os.path.realpath(directory)) for directory in directories)
    covers = find_closed_parents(real, lambda path: bool(os.stat(path).st_mode & stat.S_IXOTH))
    lists = (json.dumps([str(path) for path in paths]) for paths in (covers, real))
    return [sys.executable, "-I", "-S", str(REACH_PROGRAM), *lists, *argv]


def select_topmost(directories: Iterable[Path]) -> list[Path]:
    """The directories that are not below another one of them. Pure."""
    found: list[Path] = []
    for directory in sorted(set(directories)):
        if not any(directory.is_relative_to(above) for above in found):
            found.append(directory)
    return found


def find_closed_parents(directories: Sequence[Path], is_open: Callable[[Path], bool]) -> list[Path]:
    """The topmost parents of these directories that other users cannot traverse. Pure."""
    closed = (next((step for step in reversed(path.parents) if not is_open(step)), None) for path in directories)
    return list(dict.fromkeys(path for path in closed if path is not None))


def allow_traversal(tree: Path, uid: int) -> None:
    """Let the user of a workspace, but no other user, traverse (not list) the directory above it. Needs root."""
    ours = tree.parent
    os.chown(ours, -1, uid)
    ours.chmod(0o710)
    ours.parent.chmod(stat.S_IMODE(ours.parent.stat().st_mode) | stat.S_IXOTH)


KernelSettingReader = Callable[[str], str]
"""Returns the value of a kernel setting, by its path below /proc/sys; empty if missing."""

_ALTERNATIVES = "Or use the executor `container`, or allow `local`, which does not isolate."
_NAMESPACES_REFUSED = re.compile(r"namespace|uid map|gid map|RTM_NEWADDR|No permissions", re.IGNORECASE)


def read_kernel_setting(name: str) -> str:
    """The value of a kernel setting on this machine; empty if missing."""
    try:
        return (Path("/proc/sys") / name).read_text("ascii").strip()
    except OSError:
        return ""


def suggest_fix(error: str, setting: KernelSettingReader = read_kernel_setting) -> str:
    """One or two sentences with a fix for an error of bwrap, depending on kernel settings."""
    if "Unknown option" in error:
        fix = "This bubblewrap is too old: --bind-fd needs version 0.10. Upgrade it. "
    elif setting("user/max_user_namespaces") == "0":
        fix = "User namespaces are disabled: sysctl -w user.max_user_namespaces=10000. "
    elif setting("kernel/unprivileged_userns_clone") == "0":
        fix = "User namespaces are disabled: sysctl -w kernel.unprivileged_userns_clone=1. "
    elif setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        fix = (
            "AppArmor denies user namespaces to programs without a profile: install the one for bwrap (Ubuntu: "
            "apt-get install apparmor-profiles, then link bwrap-userns-restrict into /etc/apparmor.d and reload). "
        )
    elif _NAMESPACES_REFUSED.search(error):
        fix = "If this is a container, allow it to create user namespaces. "
    else:
        fix = ""
    return fix + _ALTERNATIVES


_INSTALL = "install it (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)"


class SandboxTools:
    """The programs, options, system call filter and `/etc` that all sandboxes of a backend share. Close it.

    `read_only` are additional directories of this machine that commands see, `links` additional links (path to target).
    `bwrap` and `rules` replace the program and the system call filter. Raises `ExecutorUnavailable` with the fix if a
    program is missing.
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
        self.shell = profile.DASH if os.path.exists(profile.DASH) else profile.BASH
        self.read_only = tuple(read_only)
        system = find_visible_system(self.read_only)
        made = ((target, path) for path, target in (links or {}).items())
        self.options = profile.encode_options(
            profile.build_system_options(replace(system, links=(*system.links, *made)))
        )
        self._rules = build_filter(platform.machine()) if rules is None else rules
        self.filter = profile.SealedMemoryFile(self._rules)
        self.etc = EtcCache(dict(system.in_etc))

    def describe_setup(self) -> Hashable:
        """Everything that decides how its sandboxes isolate."""
        programs = tuple(map(identify_program, (self.bwrap, self.setpriv, self.shell)))
        # Root and other users start them in different ways.
        return "bubblewrap", os.geteuid(), programs, self.read_only, self.options, self._rules

    def close(self) -> None:
        """Close the descriptors."""
        self.filter.close()
        self.etc.close()


def _find_program(name: str, search_path: str, missing: str) -> str:
    # Relative entries of the search path are not trusted.
    places = [place for place in search_path.split(":") if os.path.isabs(place)]
    found = which(name, path=":".join([*places, *SYSTEM_PATH]))
    if found is None:
        raise ExecutorUnavailable(missing)
    return os.path.abspath(found)


_KEYBOARD_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_INIT_PROCESSES = 1
"""The first process of a sandbox counts towards its process limit."""


class SandboxBackend:
    """Runs every command in a sandbox. It belongs to the event loop that uses it first.

    `read_only` are directories of this machine that commands may see, besides the system and this interpreter; `path`
    are the directories of programs in them. `python` is the interpreter that commands find as `python` and `python3`,
    by default this one. `bwrap` and `rules` replace the program and the system call filter; both must pass the
    self-test. `workspaces` is the directory of all workspaces, if known in advance, so that the self-test can share
    their `/etc`. `kept` is how many seconds an idle sandbox waits for the next command of its kind; 0 disables reuse.
    """

    name = "sandbox"
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
        self._workspaces = workspaces
        self._bwrap = bwrap
        self._kept = kept
        self._idle_sandboxes = IdleSandboxes()
        self._python = Interpreter.choose(python) or Interpreter.base()
        self._read_only = (Path(sys.base_prefix), *self._python.directories, *read_only)
        links = {f"{LINKS}/{name}": target for name, target in self._python.links.items()}
        self._make_tools = partial(SandboxTools, search_path, self._read_only, links=links, bwrap=bwrap, rules=rules)
        self._supervisors = SupervisorRegistry()
        self._checking = CrossLoopLock()
        self._tools: SandboxTools | None = None
        self._passed = False
        self.path = (*path, *self._python.search_path(), *SYSTEM_PATH)
        self.interpreter = self._python.identity

    async def check(self) -> Isolation:
        """Run the self-test; raises `ExecutorUnavailable` with the fix if it fails.

        It runs once in a process for the same programs, directories and system call filter.
        """
        async with self._checking:
            if not self._passed:
                setup = self._get_tools().describe_setup()
                if setup not in PASSED:
                    with create_trial_workspace() as place:
                        await self._run_self_test(place)
                    PASSED.add(setup)
                self._passed = True
        return Isolation.BUBBLEWRAP

    async def attach(self, place: WorkspaceDirectory) -> "SandboxLauncher":
        """The launcher of this workspace's commands."""
        tools = self._get_tools()
        if os.geteuid() == 0:
            if not place.uid:
                raise ExecutorUnavailable("sandboxes do not run as root; give the workspace its own user")
            allow_traversal(place.tree, place.uid)
        await tools.etc.get_descriptor(self.etc_directory(place))
        return SandboxLauncher(self, tools, place, self._idle_sandboxes, kept=self._kept)

    def etc_directory(self, place: WorkspaceDirectory) -> Path:
        """The store with the `/etc` of a workspace's sandboxes."""
        return (self._workspaces or place.tree.parents[1]) / ETC_STORE_NAME

    async def get_supervisor(self, place: WorkspaceDirectory, mounts: Sequence[str] = ()) -> Supervisor:
        """The process that starts commands for this workspace with these mounts; a new one if the last has ended."""
        # Only root starts them as other users, who may not have access to the workspaces.
        needed: tuple[Path, ...] = ()
        if os.geteuid() == 0:
            workspaces = place.tree.parents[1]
            environments = workspaces.parent / ENVIRONMENTS
            shared = (environments,) if any(Path(one).is_relative_to(environments) for one in mounts) else ()
            others = {Path(one) for one in mounts if not Path(one).is_relative_to(environments)}
            places = (one if one.is_dir() else one.parent for one in sorted(others))
            needed = (workspaces, *shared, *dict.fromkeys(places))
        return await self._supervisors.get(needed, lambda: self._start_supervisor(needed, place))

    async def close(self) -> None:
        """Stop everything."""
        await self._supervisors.close()
        if self._tools is not None:
            self._tools.close()
            self._tools = None

    def _get_tools(self) -> SandboxTools:
        if self._tools is None:
            self._tools = self._make_tools()
        return self._tools

    async def _run_self_test(self, place: WorkspaceDirectory) -> None:
        launcher = await self.attach(place)
        try:
            await check_isolation(
                launcher, place, build_expected_findings(profile.ROOT, profile.USER), suggest_fix, "bubblewrap"
            )
        finally:
            await launcher.close()
            await self._supervisors.close_supervisor((place.tree.parents[1],))

    def _start_supervisor(self, needed: Sequence[Path], place: WorkspaceDirectory) -> Supervisor:
        argv = [sys.executable, "-I", "-S", str(PROGRAM)]
        if needed:
            ours = [*needed, PROGRAM.parent, Path(sys.prefix), *([self._bwrap.parent] if self._bwrap else [])]
            argv = build_reach_command([*ours, self.etc_directory(place), *self._read_only], argv)
        helper = start_helper(argv, {})
        return Supervisor(helper.connection, helper)


class SandboxLauncher:
    """Starts the commands of one workspace."""

    root = profile.ROOT
    home = profile.HOME
    visible_pids = True

    def __init__(
        self,
        backend: SandboxBackend,
        tools: SandboxTools,
        place: WorkspaceDirectory,
        idle_sandboxes: IdleSandboxes,
        *,
        kept: float,
    ) -> None:
        start_as_init = partial(self._launch_in_own_sandbox, first=True)
        self._pool = SandboxPool(start_as_init, profile.ROOT, idle_sandboxes, idle=kept) if kept > 0 else None
        self._backend = backend
        self._tools = tools
        self._place = place
        self._uid = place.uid if os.geteuid() == 0 else None
        # Opened once: commands get this directory even if the path changes later.
        self._tree = os.open(place.tree, _DIRECTORY)
        self._closing: set[asyncio.Task[None]] = set()
        self.path = backend.path
        self.interpreter = backend.interpreter

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        """Start a command with this environment and these descriptors."""
        change_owner(stdio, self._uid)
        pool = self._pool
        if pool is None or not can_share(command):
            return await self._launch_in_own_sandbox(command, env, stdio)
        mounts = await self._identify_mounts(command.skill)
        kind = (command.skill, cap_limits(command.limits), mounts, command.packages.mounts)
        # The same variables as in a new sandbox.
        starter = await self._backend.get_supervisor(self._place, command.packages.mounts)
        marked = {**env, MARKER_VARIABLE: starter.marker}
        found = await pool.start(kind, command, marked, stdio)
        if found is None:
            found = await self._launch_in_own_sandbox(command, env, stdio)
            # After it has ended, so as not to compete with it for the CPU.
            found.add_done_callback(lambda _: pool.prepare(kind, command, env))
        return found

    async def close(self) -> None:
        """Close sandboxes and proxies, and the workspace's descriptor."""
        if self._pool is not None:
            await self._pool.close()
        if self._closing:
            await asyncio.wait(self._closing)
        if self._tree >= 0:
            os.close(self._tree)
            self._tree = -1

    async def _identify_mounts(self, skill: str | None) -> tuple[tuple[int, int], ...]:
        """The identities of the mounted directories: a skill that is staged again is another directory."""
        etc = os.fstat(await self._tools.etc.get_descriptor(self._backend.etc_directory(self._place)))
        found = [etc]
        if skill is not None:
            found.append(os.stat(f"{SKILLS}/{skill}", dir_fd=self._tree, follow_symlinks=False))
        return tuple((status.st_dev, status.st_ino) for status in found)

    async def _launch_in_own_sandbox(
        self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int], *, first: bool = False
    ) -> SupervisedProcess:
        """Start a command in a new sandbox; `first`: as its process 1."""
        proxy = FilteringProxy(command.network) if command.network else None
        if proxy is not None:
            env = {**env, **proxy.environment(PORT)}
        terminal = command.terminal is not None
        found = await self._backend.get_supervisor(self._place, command.packages.mounts)
        argv = profile.build_command_line(
            bwrap=self._tools.bwrap,
            setpriv=self._tools.setpriv,
            # Opening a terminal before the command begins needs root.
            uid=self._uid if terminal else None,
            marker=found.marker,
            held=cap_limits(command.limits),
            shell=self._tools.shell,
            argv=command.argv,
            terminal=terminal,
        )
        etc = await self._tools.etc.get_descriptor(self._backend.etc_directory(self._place))
        with self._open_descriptors(command, env, etc, first=first) as descriptors:
            launch = LaunchRequest(
                argv,
                {},
                "/",
                {**dict(enumerate(stdio)), **descriptors},
                terminal=0 if terminal else None,
                # Ctrl-C is for the command and must not kill bwrap.
                ignored=_KEYBOARD_SIGNALS if terminal else (),
                handshake=(profile.READY, profile.GO),
                hold=proxy is not None,
                contained=True,
                user=None if terminal else self._uid,
                limits=command.limits,
            )
            try:
                process = await found.start(launch)
            except InvalidArgument as error:
                # It was bwrap that could not be started; the command comes later.
                raise ExecutorUnavailable(f"{self._tools.bwrap}: {error.message}; nothing is run") from error
        if proxy is not None:
            task = await connect_proxy(process, proxy, self._uid)
            # A task without a reference may be garbage-collected while it runs.
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        elif command.skill is not None:
            # bwrap fails if a directory that it mounts is renamed, as when the skill is staged again.
            await process.wait_ready()
        return process

    @contextmanager
    def _open_descriptors(
        self, command: Command, env: Mapping[str, str], etc: int, *, first: bool
    ) -> Generator[dict[int, int]]:
        found = {profile.TREE: self._tree, profile.ETC: etc}
        try:
            found[profile.SKILLS_TREE] = skills = os.open(SKILLS, _DIRECTORY, dir_fd=self._tree)
            terminal, skill = command.terminal is not None, command.skill
            if skill is not None:
                found[profile.SKILL_TREE] = os.open(skill, _DIRECTORY, dir_fd=skills)
            mounts = command.packages.mounts
            for number, path in enumerate(mounts, profile.MOUNTS):
                # Opened here: as root, bwrap runs as a user who may not reach them.
                found[number] = os.open(path, os.O_PATH | os.O_CLOEXEC)
            options = profile.build_command_options(
                env=env, cwd=command.cwd, skill=skill, terminal=terminal, mounts=mounts, first=first
            )
            # In a memory file: every user of the machine can read command lines.
            found[profile.OPTIONS] = profile.create_memory_file(self._tools.options + profile.encode_options(options))
            found[profile.FILTER] = self._tools.filter.open_reader()
            if len(command.argv) > profile.MAX_WORDS:
                words = profile.to_words(command.argv, terminal=terminal)
                found[profile.WORDS] = profile.create_memory_file(profile.encode_options(words))
            yield found
        finally:
            for number, descriptor in found.items():
                if number not in (profile.TREE, profile.ETC):
                    os.close(descriptor)


def cap_limits(limits: Limits) -> profile.SandboxLimits:
    """The limits for the sandbox, none above the limits of this process."""
    return profile.SandboxLimits(
        processes=_cap_limit(resource.RLIMIT_NPROC, limits.processes, 1, _INIT_PROCESSES),
        open_files=_cap_limit(resource.RLIMIT_NOFILE, limits.open_files),
        file_kib=_cap_limit(resource.RLIMIT_FSIZE, limits.file_bytes, 1024),
        memory_kib=_cap_limit(resource.RLIMIT_DATA, limits.memory_bytes, 1024),
        cpu_seconds=_cap_limit(resource.RLIMIT_CPU, limits.cpu_seconds),
    )


def _cap_limit(kind: int, wanted: int | None, unit: int = 1, more: int = 0) -> int | None:
    if wanted is None:
        return None
    _, hard_limit = resource.getrlimit(kind)
    value = wanted + more
    return (value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit)) // unit
