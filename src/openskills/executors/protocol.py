"""Executor, Workspace, Process, Launcher.

What every executor can do. Ids and bytes only, no paths of this machine, so that it can be a remote one.

What is common to all is written once, above: staging inputs, collecting outputs, policies, journals.
`openskills.testing.check_executor` checks what is promised here.

What a way to run commands on this machine has to bring, so that `directory.py` can do the rest.
"""

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from openskills.artifacts.store import Content
from openskills.errors import InvalidArgument
from openskills.executors.spec import (
    Command,
    CommandResult,
    FileInfo,
    Isolation,
    OutputStream,
    ProcessOutput,
    SkillSnapshot,
    WorkspaceListing,
    WorkspaceUsage,
)
from openskills.executors.supervisor import SupervisedProcess


@dataclass(frozen=True, slots=True)
class WorkspaceFileReader:
    """A file that is open for reading; `chunks` gives its bytes once, at most `info.size` of them."""

    info: FileInfo
    chunks: AsyncIterator[bytes]


class Process(Protocol):
    """One command that was started. It belongs to the event loop that started it."""

    @property
    def id(self) -> str:
        """Names it in its workspace; random, never used again."""
        ...

    async def write(self, data: bytes) -> int:
        """Give input to it. Returns how many bytes were taken: fewer than all when it does not read.

        Raises `InvalidArgument` when its input is closed or it has ended.
        """
        ...

    async def close_input(self) -> None:
        """Let it see the end of its input. On a terminal this is Ctrl-D at the start of a line."""
        ...

    async def read(
        self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: OutputStream = OutputStream.BOTH
    ) -> ProcessOutput:
        """Output of a stream from a byte offset on.

        Waits up to `wait` seconds for the first byte. Works after the end, too.
        """
        ...

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal; raises `InvalidArgument` when it has none."""
        ...

    async def kill(self) -> None:
        """End it and everything it started; SIGTERM first, SIGKILL after the grace. Safe to call twice."""
        ...

    async def wait(self) -> CommandResult:
        """How it ended. A cancelled wait leaves it running."""
        ...


class Workspace(Protocol):
    """The directory of one session: `skills/ work/ runs/ out/`. Paths are relative to it and confined to it."""

    @property
    def id(self) -> str:
        """Names it in its executor."""
        ...

    @property
    def root(self) -> str:
        """The path of the workspace as its commands see it."""
        ...

    @property
    def isolation(self) -> Isolation:
        """What its commands run under."""
        ...

    async def stage(self, snapshot: SkillSnapshot) -> None:
        """Make a skill of the executor's store available, read-only, as `skills/<name>`. Instant when it is already.

        `.venv/` below it is writable and survives a newer snapshot.
        """
        ...

    async def write(self, path: str, data: Content, *, executable: bool = False) -> FileInfo:
        """Put a file in one step; missing directories are made. Raises `ForbiddenPath` for a path that leaves."""
        ...

    async def link(self, path: str, target: str) -> None:
        """Put a symbolic link at `path` that leads to `target`, both in the workspace."""
        ...

    async def make_directory(self, path: str) -> None:
        """Make a directory and its parents; nothing happens when it is there."""
        ...

    async def remove(self, path: str) -> bool:
        """Remove a file, link or directory with all it holds, following nothing; false when there is none."""
        ...

    def open(self, path: str) -> AbstractAsyncContextManager[WorkspaceFileReader]:
        """Read a regular file. Raises `InvalidArgument` when there is none, `ForbiddenPath` when a link leaves."""
        ...

    async def mark(self) -> int:
        """A moment of the file system's clock, to tell what is changed after it."""
        ...

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> WorkspaceListing:
        """Regular files that match any of the patterns (`**`, `*`, `?`, `[a-z]`), changed since a mark.

        Links and special files are skipped and named.
        """
        ...

    async def start(self, command: Command) -> Process:
        """Start a command.

        Raises `InvalidArgument` when its directory does not exist. A program that does not exist is an
        `InvalidArgument`, too, or ends the command as a shell would: with 127 and a message on stderr. Raises
        `ExecutorUnavailable` when it cannot be run as isolated as promised.
        """
        ...

    async def usage(self) -> WorkspaceUsage:
        """What it holds, without the staged skills."""
        ...

    async def close(self) -> None:
        """End what runs in it and give back what it holds of the machine. The files stay until it is removed."""
        ...


class Executor(Protocol):
    """A place where workspaces are. Close it, or use it as `async with`."""

    @property
    def name(self) -> str:
        """How it is called in settings: `local`, `sandbox`, `container`."""
        ...

    async def check(self) -> Isolation:
        """Make sure that it works, with its self-test the first time; raises `ExecutorUnavailable` with the fix."""
        ...

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        """Take a skill's folder into the store. Reads nothing that has not changed since the last time."""
        ...

    async def open(self, key: str) -> Workspace:
        """The workspace of this key (a session), made when there is none. One key has one workspace at a time."""
        ...

    async def remove(self, key: str) -> bool:
        """Remove the workspace of this key with everything in it; false when there is none."""
        ...

    async def close(self) -> None:
        """End everything that runs, keep all files."""
        ...


LINKS = "/run/openskills/bin"
"""Where isolated commands find the names of the interpreter that its own directory lacks."""
_NAMES = ("python", "python3")
_ENVIRONMENT = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The interpreter that commands find as `python` and as `python3`.

    Its own directory is on their `PATH`. Where that lacks one of the names, or has another interpreter under it, a
    directory of links comes before it: Debian has no `python`, and `python3` may be older than the one we run on.
    """

    path: Path

    @classmethod
    def chosen(cls, python: Path | None) -> "Interpreter | None":
        """The one that somebody chose, or None; raises `InvalidArgument` when it cannot be run."""
        if python is None:
            return None
        found = cls(python)
        if not os.access(python, os.X_OK) or python.is_dir() or not found.directories:
            what = "is no interpreter with its standard library; OPENSKILL_PYTHON is the path of one"
            raise InvalidArgument("python", f"'{python}' {what}, as /usr/bin/python3")
        return found

    @classmethod
    def ours(cls) -> "Interpreter":
        """The one we run on, with the packages that we see."""
        return cls(Path(sys.executable))

    @classmethod
    def base(cls) -> "Interpreter":
        """The one we run on, without a virtual environment around it."""
        named = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
        return cls(named if named.exists() else Path(os.path.realpath(sys.executable)))

    @property
    def directories(self) -> tuple[Path, ...]:
        """What has to be seen for it to run."""
        real = Path(os.path.realpath(self.path)).parent.parent
        # Only what holds a standard library: around a program in ~/bin lies somebody's home.
        base = (real,) if any((real / "lib").glob("python3*")) else ()
        return (*base, self.path.parent.parent) if base and self._in_environment else base

    @property
    def links(self) -> dict[str, str]:
        """The names that its directory does not offer for it, and where they have to lead."""
        real = os.path.realpath(self.path)
        return {name: real for name in _NAMES if not self._is_named(name, real)}

    def search_path(self, links: str = LINKS) -> tuple[str, ...]:
        """What commands have on their `PATH` for it; `links` is where they find the links."""
        return (*([links] if self.links else []), str(self.path.parent))

    def link_in(self, directory: Path) -> None:
        """Make the links in a directory of ours, those that are needed. Blocking."""
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
        return (self.path.parent.parent / _ENVIRONMENT).is_file()

    def _is_named(self, name: str, real: str) -> bool:
        beside = self.path.parent / name
        # In a virtual environment they may be copies, and a link from outside would lead to its base.
        return beside.exists() if self._in_environment else os.path.realpath(beside) == real


@dataclass(frozen=True, slots=True)
class WorkspaceDirectory:
    """Where a workspace lies: its directory, and the user that its commands run as (None: ours)."""

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
        """Where its commands look for programs."""
        ...

    @property
    def home(self) -> str:
        """The home directory of its commands."""
        ...

    @property
    def visible_pids(self) -> bool:
        """Whether the pid of a started command means something in this process's /proc."""
        ...

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> SupervisedProcess:
        """Start a command with this environment and these descriptors."""
        ...

    async def close(self) -> None:
        """Give back what it holds. Its commands have ended."""
        ...


class Backend(Protocol):
    """A way to run commands on this machine."""

    @property
    def name(self) -> str:
        """How it is called in settings."""
        ...

    @property
    def isolates(self) -> bool:
        """Whether commands cannot write to a staged skill, whatever its modes are."""
        ...

    @property
    def own_users(self) -> bool:
        """Whether each workspace gets a user of its own, where the host is root."""
        ...

    async def check(self) -> Isolation:
        """See `Executor.check`."""
        ...

    async def attach(self, place: WorkspaceDirectory) -> Launcher:
        """What starts the commands of this workspace."""
        ...

    async def close(self) -> None:
        """End everything."""
        ...
