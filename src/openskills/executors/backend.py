"""What a way to run commands on this machine has to bring, so that `directory.py` can do the rest."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from openskills.errors import InvalidArgument
from openskills.executors.processes.keeping import Kept
from openskills.executors.spec import Command, Isolation

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
class Place:
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

    async def launch(self, command: Command, env: Mapping[str, str], stdio: tuple[int, int, int]) -> Kept:
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

    async def attach(self, place: Place) -> Launcher:
        """What starts the commands of this workspace."""
        ...

    async def close(self) -> None:
        """End everything."""
        ...
