"""What every executor can do. Ids and bytes only, no paths of this machine, so that it can be a remote one.

What is common to all is written once, above: staging inputs, collecting outputs, policies, journals.
`openskills.testing.check_executor` checks what is promised here.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from openskills.artifacts.store import Content
from openskills.executors.spec import Command, Ended, FileInfo, Isolation, Listing, Output, Snapshot, Stream, Usage


@dataclass(frozen=True, slots=True)
class FileReading:
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

    async def read(self, offset: int, *, wait: float = 0.0, limit: int = 65536, stream: Stream = Stream.BOTH) -> Output:
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

    async def wait(self) -> Ended:
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

    async def stage(self, snapshot: Snapshot) -> None:
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

    def open(self, path: str) -> AbstractAsyncContextManager[FileReading]:
        """Read a regular file. Raises `InvalidArgument` when there is none, `ForbiddenPath` when a link leaves."""
        ...

    async def mark(self) -> int:
        """A moment of the file system's clock, to tell what is changed after it."""
        ...

    async def list(self, globs: Sequence[str], *, since: int | None = None, limit: int = 10_000) -> Listing:
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

    async def usage(self) -> Usage:
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

    async def snapshot(self, name: str, directory: Path) -> Snapshot:
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
