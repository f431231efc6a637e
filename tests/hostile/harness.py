"""Runs a host program of these tests in a process of its own: as this user, or as one without any rights."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openskills.executors.files.descriptors import delete_tree
from tests.hostile.interpreters import ROOT, UID, open_copy, open_interpreter
from tests.hostile.planting import LOADERS, VARIABLE, token
from tests.long_form import LONG

TIMEOUT = 6 * 60 * 60 if LONG else 240


@dataclass(frozen=True)
class User:
    """Somebody who runs host processes: how they are started, and a directory that is theirs."""

    name: str
    prefix: tuple[str, ...]
    python: str
    project: Path
    directory: Path

    def argv(self, *arguments: str) -> list[str]:
        """The command line of a program of the tests: a module, and what it gets."""
        return [*self.prefix, self.python, "-m", *arguments]

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """What a host has: the usual variables, `more`, and where the code is."""
        paths = {"PYTHONPATH": f"{self.project / 'src'}:{self.project}", "HOME": str(self.directory)}
        usual = {name: os.environ[name] for name in ("PATH", "CI", "LANG", "XDG_CACHE_HOME") if name in os.environ}
        return {**usual, **paths, **more}

    def place(self) -> str:
        """A new directory that is theirs."""
        path = tempfile.mkdtemp(dir=self.directory)
        if self.prefix:
            os.chown(path, UID, UID)
        return path

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Run a program to its end; it prints one JSON object."""
        finished = subprocess.run(
            self.argv(*arguments),
            cwd=self.project,
            env=self.environment(environment or {}),
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
        if finished.returncode != 0:
            raise AssertionError(f"{arguments} failed:\n{finished.stderr.decode('utf-8', 'replace')[-4000:]}")
        return json.loads(finished.stdout)


@contextmanager
def ourselves() -> Generator[User]:
    """The user who runs the tests."""
    with _directory() as directory:
        home = directory / "home"
        home.mkdir(mode=0o700)
        yield User("ourselves", (), sys.executable, ROOT, home)


@contextmanager
def nobody() -> Generator[User]:
    """A user without any rights. When the tests are not run by root, that is who runs them."""
    if os.geteuid() != 0:
        with ourselves() as user:
            yield user
        return
    with _directory() as directory:
        home = directory / "home"
        home.mkdir(mode=0o700)
        os.chown(home, UID, UID)
        prefix = ("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--")
        python = open_interpreter(directory)
        yield User("nobody", prefix, python, open_copy(directory, python), home)


def battery(user: User, executor: str, *options: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """What the probes got hold of under an executor, with a host that has secrets in its environment.

    Options are `terminal`, `warm`, `used`: in a sandbox that others had before, and `harmless`: see the host.
    """
    place = user.place()
    planted = {VARIABLE: token(), **dict.fromkeys(LOADERS, f"{place}/outside")}
    return user.run("tests.hostile.host", executor, place, *options, environment={**planted, **environment})


@contextmanager
def _directory() -> Generator[Path]:
    # Not below pytest's own, which is closed to everybody else.
    path = Path(tempfile.mkdtemp(prefix="openskill-hostile-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        # Staged skills are read-only, and who is not root may remove nothing from them.
        delete_tree(path)
