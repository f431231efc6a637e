"""The protocols of executors, workspaces and processes, and of the backends behind local executors.

The first three use only ids and bytes, not local paths, so that an executor can be remote. Staging of inputs, output
collection, policies and journals are written once on top of them. `openskills.testing.check_executor` tests an
implementation. A `Backend` starts commands on this machine for `DirectoryExecutor`.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from openskills.artifacts.store import Content
from openskills.errors import InvalidArgument
from openskills.executors.package_index import PackageIndex
from openskills.executors.spec import (
    Command,
    CommandResult,
    FileInfo,
    Isolation,
    OutputStream,
    PackageEnvironment,
    ProcessOutput,
    SkillSnapshot,
    WorkspaceListing,
    WorkspaceUsage,
)
from openskills.executors.staging.packages import PackageSet
from openskills.executors.supervisor import SupervisedProcess


@dataclass(frozen=True, slots=True)
class WorkspaceFileReader:
    """An open file; `chunks` yields its bytes once, at most `info.size` of them."""

    info: FileInfo
    chunks: AsyncIterator[bytes]


class Process(Protocol):
    """A command that was started. It belongs to the event loop that started it."""

    @property
    def id(self) -> str:
        """A random id, unique in the workspace."""
        ...

    async def write(self, data: bytes) -> int:
        """Write input. Returns how many bytes were taken, which may be fewer if the command does not read.

        Raises `InvalidArgument` if its input is closed or it has ended.
        """
        ...

    async def close_input(self) -> None:
        """Close its input. On a terminal, send Ctrl-D."""
        ...

    async def read(
        self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: OutputStream = OutputStream.BOTH
    ) -> ProcessOutput:
        """Output of a stream from a byte offset on, even after the end. Waits up to `wait` seconds for a byte."""
        ...

    async def is_waiting(self) -> bool:
        """Whether it cannot continue without more input than was written so far; False if that is unknown."""
        ...

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal; raises `InvalidArgument` if it has none."""
        ...

    async def kill(self) -> None:
        """Kill it and everything it started: SIGTERM first, SIGKILL after the grace period. Safe to call twice."""
        ...

    async def wait(self) -> CommandResult:
        """The result. Cancelling the wait leaves the command running."""
        ...


class Workspace(Protocol):
    """The directory of one session: `skills/ work/ runs/ out/`. Paths are relative to it and confined to it."""

    @property
    def id(self) -> str:
        """The id in its executor."""
        ...

    @property
    def root(self) -> str:
        """The path of the workspace as its commands see it."""
        ...

    @property
    def isolation(self) -> Isolation:
        """The isolation of its commands."""
        ...

    @property
    def interpreter(self) -> str | None:
        """Identifies the Python of its commands; None if they cannot use packages that this machine has installed."""
        ...

    async def stage(self, snapshot: SkillSnapshot) -> int:
        """Make a copy of a snapshot available as `skills/<name>`. Returns at once if it is already there.

        Commands of this skill can write to it; the snapshot never changes. `.venv/` and other files that commands
        added survive a newer snapshot. Returns a mark: what changes in it from then on was written by commands.
        """
        ...

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        """Write a file atomically, creating parent directories. Raises `ForbiddenPath` for a path outside."""
        ...

    async def link(self, path: str, target: str) -> None:
        """Create a symbolic link at `path` to `target`, both in the workspace."""
        ...

    async def make_directory(self, path: str) -> None:
        """Create a directory and its parents, if missing."""
        ...

    async def remove(self, path: str) -> bool:
        """Remove a file, link or directory tree without following links; false if it does not exist."""
        ...

    def open(self, path: str) -> AbstractAsyncContextManager[WorkspaceFileReader]:
        """Open a regular file. Raises `InvalidArgument` if it does not exist, `ForbiddenPath` for a link to the
        outside."""
        ...

    async def mark(self) -> int:
        """A timestamp of the file system's clock, to find later changes."""
        ...

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
        """Regular files that match any of the patterns (`**`, `*`, `?`, `[a-z]`), changed since a mark.

        Links and special files are skipped and reported.
        """
        ...

    async def start(self, command: Command) -> Process:
        """Start a command.

        Raises `InvalidArgument` if its directory does not exist. If its program does not exist, raises
        `InvalidArgument`, or the command ends like in a shell, with 127 and a message on stderr. Raises
        `ExecutorUnavailable` if it cannot be run with the promised isolation.
        """
        ...

    async def usage(self) -> WorkspaceUsage:
        """Size and number of files, without staged skills."""
        ...

    async def close(self) -> None:
        """Kill what runs in it and release its resources. The files are kept until it is removed."""
        ...


@runtime_checkable
class RequestKeeper(Protocol):
    """A workspace elsewhere whose journal is on this machine, and whose requests other machines may repeat."""

    @property
    def journal(self) -> Path:
        """The directory of its journal."""
        ...

    async def claim_request(self, request_id: str) -> bool:
        """Record that a request begins, for all machines; false if it began on another one."""
        ...

    async def release_request(self, request_id: str) -> None:
        """Record that a claimed request did not begin."""
        ...


@runtime_checkable
class PackageProvider(Protocol):
    """A workspace elsewhere, whose packages are installed there. `index` None means the settings of that machine."""

    async def find_packages(self, packages: PackageSet, index: PackageIndex | None) -> PackageEnvironment | None:
        """The environment with these packages, if it was built already."""
        ...

    async def install_packages(
        self, packages: PackageSet, index: PackageIndex | None, *, progress: Callable[[str], None] | None = None
    ) -> PackageEnvironment:
        """Build the environment with these packages. Raises like `PackageBuilder.install`."""
        ...


class Executor(Protocol):
    """Creates workspaces. Close it, or use it as `async with`."""

    @property
    def name(self) -> str:
        """The name in settings: `local`, `sandbox`, `container`."""
        ...

    async def check(self) -> Isolation:
        """Check that it works, with a self-test the first time; raises `ExecutorUnavailable` with the fix."""
        ...

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        """Take a snapshot of a skill's folder. Reads only what has changed since the last one."""
        ...

    async def open(self, key: str) -> Workspace:
        """The workspace of this key (a session), created if missing. A key has one workspace at a time."""
        ...

    async def remove(self, key: str) -> bool:
        """Remove the workspace of this key with its files; false if it does not exist."""
        ...

    async def close(self) -> None:
        """Kill everything that runs. Files are kept."""
        ...


LINKS = "/run/openskills/bin"
"""Where isolated commands find links to the interpreter for names that its own directory lacks."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python interpreter that commands find as `python` and `python3`.

    Its directory is on their `PATH`. If one of the names is missing there or is another interpreter, a directory of
    links comes first: Debian has no `python`, and `python3` may be older than the interpreter that we run on.
    """

    path: Path

    @classmethod
    def choose(cls, python: Path | None) -> "Interpreter | None":
        """The configured interpreter, or None; raises `InvalidArgument` if it cannot be run."""
        if python is None:
            return None
        found = cls(python)
        if not os.access(python, os.X_OK) or python.is_dir() or not found.directories:
            advice = "set OPENSKILL_PYTHON to a path such as /usr/bin/python3"
            raise InvalidArgument(
                "python", f"'{python}' is not a Python interpreter with its standard library; {advice}"
            )
        return found

    @classmethod
    def ours(cls) -> "Interpreter":
        """The interpreter that we run on, with its packages."""
        return cls(Path(sys.executable))

    @classmethod
    def base(cls) -> "Interpreter":
        """The interpreter that we run on, without its virtual environment."""
        named = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
        return cls(named if named.exists() else Path(os.path.realpath(sys.executable)))

    @property
    def directories(self) -> tuple[Path, ...]:
        """The directories that must be visible for it to run."""
        real = Path(os.path.realpath(self.path)).parent.parent
        # Only with a standard library: the parent of ~/bin is a home directory.
        base = (real,) if any((real / "lib").glob("python3*")) else ()
        return (*base, self.path.parent.parent) if base and self._in_environment else base

    @property
    def identity(self) -> str:
        """Changes when the program is replaced; the same inside and outside of a virtual environment."""
        real = os.path.realpath(self.path)
        status = os.stat(real)
        return f"{real}:{status.st_size}:{status.st_mtime_ns}"

    @property
    def links(self) -> dict[str, str]:
        """The names that its directory lacks, and the links' targets."""
        real = os.path.realpath(self.path)
        return {name: real for name in ("python", "python3") if not self._is_named(name, real)}

    def search_path(self, links: str = LINKS) -> tuple[str, ...]:
        """Its entries on the `PATH` of commands; `links` is the directory of links as they see it."""
        return (*([links] if self.links else []), str(self.path.parent))

    def link_in(self, directory: Path) -> None:
        """Create the links that are needed in a directory. Blocking."""
        if not (links := self.links):
            return
        directory.mkdir(mode=0o755, exist_ok=True)
        directory.chmod(0o755)
        for name, target in links.items():
            link = directory / name
            if not link.is_symlink() or os.readlink(link) != target:
                link.unlink(missing_ok=True)
                link.symlink_to(target)

    @property
    def _in_environment(self) -> bool:
        return (self.path.parent.parent / "pyvenv.cfg").is_file()

    def _is_named(self, name: str, real: str) -> bool:
        beside = self.path.parent / name
        # In a virtual environment they may be copies, and an external link would bypass the environment.
        return beside.exists() if self._in_environment else os.path.realpath(beside) == real


@dataclass(frozen=True, slots=True)
class WorkspaceDirectory:
    """The directory of a workspace, and the user that its commands run as (None: ours)."""

    id: str
    tree: Path
    uid: int | None


class Launcher(Protocol):
    """Starts the commands of one workspace."""

    @property
    def root(self) -> str:
        """The workspace as its commands see it."""
        ...

    @property
    def path(self) -> Sequence[str]:
        """The directories in which commands find programs."""
        ...

    @property
    def home(self) -> str:
        """The home directory of commands."""
        ...

    @property
    def interpreter(self) -> str | None:
        """See `Workspace.interpreter`."""
        ...

    @property
    def visible_pids(self) -> bool:
        """Whether the pid of a command is valid in this process's /proc."""
        ...

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        """Start a command with this environment and these descriptors."""
        ...

    async def close(self) -> None:
        """Release resources. All commands have ended."""
        ...


class Backend(Protocol):
    """A way to run commands on this machine."""

    @property
    def name(self) -> str:
        """The name in settings."""
        ...

    @property
    def own_users(self) -> bool:
        """Whether each workspace gets its own user if the host is root."""
        ...

    async def check(self) -> Isolation:
        """See `Executor.check`."""
        ...

    async def attach(self, place: WorkspaceDirectory) -> Launcher:
        """The launcher for a workspace."""
        ...

    async def close(self) -> None:
        """Kill all commands."""
        ...
