"""Executor backend with Landlock, a system call filter and limits, for machines where bubblewrap does not work.

It is weaker than the sandbox and only used when requested. A command sees real paths and the names of other processes,
and shares kernel tables with them. It can read the system and its workspace and write to `work/ runs/ out/` and to its
skill's folder. It has no sockets, no `/tmp` and no `/dev/shm`. Landlock does not control file modes and times: unless
the host is root, a command can change those of the user's own files. As root, the host gives each workspace a user.
"""

import json
import os
import platform
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from openskills.errors import ExecutorUnavailable
from openskills.executors.bubblewrap.backend import allow_traversal, build_reach_command
from openskills.executors.bubblewrap.etc import DIRECTORIES, FILES, find_visible_system
from openskills.executors.bubblewrap.profile import create_memory_file, encode_words
from openskills.executors.bubblewrap.seccomp import build_filter
from openskills.executors.bubblewrap.selftest import (
    PASSED,
    ExpectedFindings,
    build_expected_findings,
    check_isolation,
    create_trial_workspace,
)
from openskills.executors.files.descriptors import DirectoryOpener, auto_close, change_owner
from openskills.executors.protocol import Interpreter, WorkspaceDirectory
from openskills.executors.spec import OUT, RUNS, SKILLS, SYSTEM_PATH, VENV, WORK, Command, Isolation
from openskills.executors.supervisor import LaunchRequest, SupervisedProcess, SupervisorPool, to_rlimits

PROGRAM = Path(__file__).parent / "programs" / "landlock.py"
ADVICE = (
    "Landlock needs Linux 6.2 or newer with `landlock` in the `lsm=` boot option; it blocks signals from 6.12 on. "
    "Use the executor `sandbox` or `container`."
)
_READABLE = ("/proc", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_READY, _GO, _VARIABLES = 3, 4, 5
_TMP, _LINKS, _HOME = "tmp", "bin", ".home"


class LandlockBackend:
    """Runs commands under Landlock. `read_only`, `path` and `python` are as for the sandbox."""

    name = "landlock"
    own_users = True

    def __init__(
        self,
        *,
        read_only: Sequence[Path] = (),
        path: Sequence[str] = (),
        python: Path | None = None,
        rules: bytes | None = None,
    ) -> None:
        self._pool = SupervisorPool()
        self._python = Interpreter.choose(python) or Interpreter.base()
        self._read_only = (Path(sys.base_prefix), *self._python.directories, *read_only)
        self._rules = rules
        self._path = tuple(path)

    async def check(self) -> Isolation:
        """Run the self-test; raises `ExecutorUnavailable` with the failure and the fix.

        It runs once in a process for the same directories and system call filter.
        """
        setup = ("landlock", os.geteuid(), self._read_only, self._python, self._path, self._rules)
        if setup not in PASSED:
            with create_trial_workspace() as place:
                launcher = await self.attach(place)
                expected = build_expected_results(launcher.root, place.uid)
                await check_isolation(launcher, place, expected, lambda _: ADVICE, "Landlock")
            PASSED.add(setup)
        return Isolation.LANDLOCK

    async def attach(self, place: WorkspaceDirectory) -> "LandlockLauncher":
        """The launcher for a workspace."""
        if sys.platform != "linux":
            raise ExecutorUnavailable(f"Landlock needs Linux. {ADVICE}")
        if os.geteuid() == 0:
            if not place.uid:
                raise ExecutorUnavailable("commands are not run as root; give the workspace its own user")
            allow_traversal(place.tree, place.uid)
        rules = build_filter(platform.machine(), namespaces=False) if self._rules is None else self._rules
        links = Path(os.path.realpath(place.tree)).parent / _LINKS
        self._python.link_in(links)
        shown = (*self._read_only, *([links] if self._python.links else []))
        path = (*self._path, *self._python.search_path(str(links)), *SYSTEM_PATH)
        return LandlockLauncher(place, self._pool, shown, path, rules, self._python.identity)

    async def close(self) -> None:
        """Kill all commands."""
        await self._pool.close()


class LandlockLauncher:
    """Starts the commands of one workspace."""

    visible_pids = True

    def __init__(
        self,
        place: WorkspaceDirectory,
        pool: SupervisorPool,
        read_only: Sequence[Path],
        path: Sequence[str],
        rules: bytes,
        interpreter: str,
    ) -> None:
        system = find_visible_system(read_only)
        self._tree = Path(os.path.realpath(place.tree))
        self._uid = place.uid if os.geteuid() == 0 else None
        self._pool = pool
        self._rules = rules.hex()
        self._read_only = read_only
        self._readable = [*system.binds, *DIRECTORIES, *FILES, *_READABLE]
        self.root = str(self._tree)
        self.home = f"{self.root}/{WORK}"
        self.path = path
        self.interpreter = interpreter

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        """Start a command with this environment and these descriptors."""
        if command.network:
            raise ExecutorUnavailable(
                "network access is not supported under Landlock; use the executor `sandbox` or `container`"
            )
        encode_words(command.argv)
        change_owner(stdio, self._uid)
        config = self._build_config(command)
        if command.terminal is not None:
            config["devices"] = (*_DEVICES, os.ttyname(stdio[0]))
        argv = [sys.executable, "-I", "-S", str(PROGRAM), json.dumps(config), *command.argv]
        if self._uid is not None:
            packages = (path if path.is_dir() else path.parent for path in map(Path, command.packages.mounts))
            needed = [self._tree, PROGRAM.parent, Path(sys.prefix), *self._read_only, *packages]
            argv = build_reach_command(needed, argv)
        # Our programs start as root, so they read the command's variables from a file and have an empty environment.
        variables = create_memory_file(json.dumps({**env, **self._make_own_dirs(command)}).encode())
        try:
            launch = LaunchRequest(
                argv,
                {},
                "/",
                {**dict(enumerate(stdio)), _VARIABLES: variables},
                terminal=0 if command.terminal else None,
                handshake=(_READY, _GO),
                limits=command.limits,
            )
            process = await self._pool.start(launch)
        finally:
            os.close(variables)
        # Until its rules are made, the skill must not be replaced: they would be for directories that are gone.
        await process.wait_ready()
        return process

    async def close(self) -> None:
        """Does nothing: a launcher holds no resources."""

    def _build_config(self, command: Command) -> dict[str, object]:
        places = [f"{self.root}/{name}" for name in (WORK, RUNS, OUT)]
        if command.skill is not None:
            places.append(f"{self.root}/{SKILLS}/{command.skill}")
        limits = [*to_rlimits(command.limits)]
        if self._uid is not None and command.limits.processes is not None:
            # The kernel counts processes per user, so the limit needs a dedicated user.
            limits.append((resource.RLIMIT_NPROC, command.limits.processes, command.limits.processes))
        return {
            "uid": self._uid,
            "limits": limits,
            "read": [*self._readable, *command.packages.mounts],
            "write": places,
            "tree": str(self._tree),
            "private": (SKILLS, "*", VENV, _HOME),
            "devices": _DEVICES,
            "filter": self._rules,
            "cwd": os.path.normpath(f"{self.root}/{command.cwd}"),
            "handshake": (_READY, _GO),
            "variables": _VARIABLES,
        }

    def _make_own_dirs(self, command: Command) -> dict[str, str]:
        """The directories that a command does not share: the home of its skill, and one for temporary files in it.

        A home that all skills write to would let one change the programs of another, which may have secrets; and a home
        that they can read may contain these secrets.
        """
        names = {"TMPDIR": f"{command.run_dir}/{_TMP}"}
        if command.skill is not None:
            home = f"{SKILLS}/{command.skill}/{VENV}/{_HOME}"
            names = {"HOME": home, "TMPDIR": f"{home}/{_TMP}/{command.run_dir}"}
        owner = (self._uid, self._uid) if self._uid is not None else None
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        with auto_close(os.open(self._tree, flags)) as tree:
            for name in names.values():
                # Without following links, which commands can create anywhere in their workspace.
                os.close(DirectoryOpener(tree, owner).create(name, links=False))
        return {variable: f"{self.root}/{name}" for variable, name in names.items()}


def build_expected_results(root: str, uid: int | None) -> ExpectedFindings:
    """The expected results of the self-test under Landlock, which does not limit processes and shared memory."""
    expected = build_expected_findings(root, os.getuid() if uid is None else uid)
    sockets = dict.fromkeys(("signals to the host", "loopback of the host", "datagrams"), ("EPERM",))
    return {name: value for name, value in {**expected, **sockets}.items() if name not in _NOT_LIMITED}


_NOT_LIMITED = ("processes", "shared memory")
