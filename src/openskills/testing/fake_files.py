"""The files of a workspace in memory, with the semantics of a real one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.files.globs import Globs, Position, compiled
from openskills.executors.files.places import WRITABLE, place, writable_place
from openskills.executors.layout import INPUTS, OUT, RUNS, SKILLS, VENV, WORK
from openskills.executors.spec import FileInfo, Listing, Usage
from openskills.paths import MAX_LINKS, printable


@dataclass(frozen=True, slots=True)
class FakeFile:
    """A file: its bytes, and when it was put there."""

    data: bytes
    executable: bool = False
    changed: int = 0
    serial: int = 0

    def info(self, path: str) -> FileInfo:
        """What is known about it."""
        return FileInfo(path, len(self.data), (self.changed, self.serial, len(self.data)))


@dataclass(frozen=True, slots=True)
class _Link:
    """A link to a place in the workspace."""

    target: str


class _Directory:
    """A directory; what is in it is known by its path."""


_Entry = FakeFile | _Link | _Directory


class FakeTree:
    """Files, links and directories by their paths. Its clock counts changes and marks."""

    def __init__(self) -> None:
        self._clock = 0
        self._entries: dict[str, _Entry] = {path: _Directory() for path in (SKILLS, WORK, INPUTS, RUNS, OUT)}

    def write(self, path: str, data: bytes, *, executable: bool = False) -> FileInfo:
        """Put a file; a file or link there is replaced."""
        where = self._new(path)
        if isinstance(self._entries.get(where), _Directory):
            raise InvalidArgument("path", f"{path!r} is a directory")
        now = self._tick()
        file = self._entries[where] = FakeFile(data, executable, now, now)
        return file.info(writable_place(path))

    def link(self, path: str, target: str) -> None:
        """Put a link; it does not look whether the target exists."""
        leads_to = place(target, field="target")
        where = self._new(path)
        if isinstance(self._entries.get(where), _Directory):
            raise InvalidArgument("path", f"{path!r} is a directory")
        self._entries[where] = _Link(leads_to)

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents."""
        where = place(path)
        self._make(where if where in WRITABLE else writable_place(path), path)

    def check_directory(self, path: str) -> None:
        """Raise `InvalidArgument` when there is no such directory; `.` is the workspace itself."""
        if path != "." and not isinstance(self._entries.get(self._resolved(place(path, field="cwd"))), _Directory):
            raise InvalidArgument("cwd", f"{path!r} does not exist")

    def remove(self, path: str) -> bool:
        """Remove what is there with all it holds; false when there is nothing."""
        directory, _, name = writable_place(path).rpartition("/")
        where = f"{self._resolved(directory)}/{name}"
        doomed = [entry for entry in self._entries if entry == where or entry.startswith(f"{where}/")]
        for entry in doomed:
            del self._entries[entry]
        return bool(doomed)

    def file(self, path: str) -> tuple[FakeFile, FileInfo]:
        """A file and what is known about it. Raises `InvalidArgument` when there is none."""
        where = place(path)
        entry = self._entries.get(self._resolved(where))
        if entry is None:
            raise InvalidArgument("path", f"{path!r} does not exist")
        if not isinstance(entry, FakeFile):
            raise InvalidArgument("path", f"{path!r} is no regular file")
        return entry, entry.info(where)

    def mark(self) -> int:
        """A moment between changes."""
        return self._tick()

    def list(self, globs: Sequence[str], *, since: int | None, limit: int) -> Listing:
        """The files that match; links that match are named."""
        wanted = compiled(globs)
        files = [
            entry.info(path)
            for path, entry in sorted(self._entries.items())
            if isinstance(entry, FakeFile) and wanted.matches(path) and (since is None or entry.changed >= since)
        ]
        links = (path for path, entry in sorted(self._entries.items()) if isinstance(entry, _Link))
        skipped = tuple(f"{printable(path)} is a link" for path in links if _leads_on(wanted, path))
        return Listing(tuple(files[:limit]), skipped, complete=len(files) <= limit)

    def usage(self) -> Usage:
        """What there is, without the staged skills."""
        counted = {path: entry for path, entry in self._entries.items() if path.split("/")[0] != SKILLS}
        return Usage(sum(len(entry.data) for entry in counted.values() if isinstance(entry, FakeFile)), len(counted))

    def stage(self, name: str, files: Mapping[str, FakeFile], directories: Sequence[str]) -> None:
        """Put a skill in the place of an older one; its `.venv` stays."""
        home, venv = f"{SKILLS}/{name}", f"{SKILLS}/{name}/{VENV}"
        for path in [path for path in self._entries if path == home or path.startswith(f"{home}/")]:
            if path != venv and not path.startswith(f"{venv}/"):
                del self._entries[path]
        for path in (home, venv, *(f"{home}/{one}" for one in directories)):
            self._entries.setdefault(path, _Directory())
        now = self._tick()
        for path, file in files.items():
            self._entries[f"{home}/{path}"] = FakeFile(file.data, file.executable, now, now)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _new(self, path: str) -> str:
        """Where something is to be put; the directories on the way are made."""
        directory, _, name = writable_place(path).rpartition("/")
        return f"{self._make(directory, path)}/{name}"

    def _make(self, directory: str, path: str) -> str:
        where = self._resolved(directory)
        if where.split("/")[0] not in WRITABLE:
            raise ForbiddenPath(f"path: {path!r} leads out of the directories {', '.join(WRITABLE)}")
        for step in _steps(where):
            entry = self._entries.setdefault(step, _Directory())
            if not isinstance(entry, _Directory):
                raise InvalidArgument("path", f"{path!r} has a file where a directory is needed")
        return where

    def _resolved(self, path: str) -> str:
        """The path with every link on the way followed."""
        for _ in range(MAX_LINKS):
            step = next((step for step in _steps(path) if isinstance(self._entries.get(step), _Link)), None)
            if step is None:
                return path
            entry = self._entries[step]
            assert isinstance(entry, _Link)  # noqa: S101  that is how it was found
            path = entry.target + path[len(step) :]
        raise ForbiddenPath(f"path: {path!r} goes through too many links")


def _steps(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def _leads_on(globs: Globs, path: str) -> bool:
    """Whether a link is what a pattern asks for, or on the way to it."""
    position: Position = globs.start
    *directories, name = path.split("/")
    for directory in directories:
        position = position.below(directory)
    return position.accepts(name) or bool(position.below(name))
