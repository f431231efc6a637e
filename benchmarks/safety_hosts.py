"""Host processes for the hostile cases: ours and others', as a user without any rights where we are root."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers import why_missing
from reasons import last_line
from running_container import container_engine
from running_part import TINY, Extent, NotMeasured
from safety_ways import NOT_TRIED, PEERS, Peer

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BARE, CONTAINER = "no isolation", "container"
OURS = ("local", "landlock", "sandbox", CONTAINER)
"""Our executors, the weakest first."""

_PROGRAMS = ("safety_host.py", "safety_trials.py", "safety_ways.py")
_UNNEEDED = ("test", "idlelib", "tkinter", "ensurepip", "turtledemo", "site-packages", "__pycache__", "*.a")
_TIMEOUT = 300
_UNAVAILABLE = re.compile(r"^(?:[\w.]+\.)?(?:ExecutorUnavailable|MissingExtra): (.*)", re.MULTILINE)
"""How a traceback ends when an executor is not to be had here."""


@dataclass
class Hosts:
    """Two users who run host processes, and what those of containers have to know."""

    harness: Any
    us: Any
    stranger: Any
    stack: ExitStack
    _engine: dict[str, str] = field(default_factory=dict[str, str])
    _interpreter: str = ""

    def battery(self, executor: str, *options: str) -> dict[str, Any]:
        """The battery under an executor of ours, or bare."""
        user = self.us if executor == CONTAINER else self.stranger
        name = "bare" if executor == BARE else executor
        environment = self._engine_of(executor)
        try:
            return self.harness.battery(user, name, *options, environment=environment)
        except AssertionError as error:
            raise _failure(executor, str(error)) from error

    def probes(self, peer: Peer) -> dict[str, Any]:
        """The harmless probes of the battery through a library."""
        return self._program("probes", peer.name, self.stranger, self._with_peer(peer))

    def endings(self, subject: str | Peer) -> dict[str, str]:
        """The commands that do not want to end, through an executor of ours or a library."""
        if isinstance(subject, Peer):
            return self._program("endings", subject.name, self.stranger, self._with_peer(subject))
        user = self.us if subject == CONTAINER else self.stranger
        return self._program("endings", subject, user, self._engine_of(subject))

    def who(self, subject: str) -> str:
        """As whom the host of a subject runs."""
        return "root" if subject == CONTAINER and os.geteuid() == 0 else "unprivileged user"

    def _engine_of(self, executor: str) -> Mapping[str, str]:
        if executor != CONTAINER:
            return {}
        if not self._engine:
            engine = self.stack.enter_context(container_engine())
            self._engine = {"OPENSKILL_CONTAINER_IMAGE": engine.image}
            if engine.address:
                self._engine["DOCKER_HOST"] = engine.address
        return self._engine

    def _with_peer(self, peer: Peer) -> dict[str, str]:
        packages = list((ROOT / ".bench" / peer.environment).glob("lib/python3*/site-packages"))
        if not packages or not (packages[0] / peer.module).exists():
            raise NotMeasured(f"{peer.name}: it is not installed; {why_missing(peer.environment)}")
        project = self.stranger.project
        return {"PYTHONPATH": os.pathsep.join(map(str, (project / "src", project, packages[0])))}

    def _program(self, what: str, subject: str, user: Any, environment: Mapping[str, str]) -> dict[str, Any]:
        """`safety_host.py`, with secrets of its own in its environment."""
        planting = importlib.import_module("tests.hostile.planting")
        place = user.place()
        planted = {planting.VARIABLE: planting.token(), **dict.fromkeys(planting.LOADERS, f"{place}/outside")}
        python = user.python
        if "PYTHONPATH" in environment:
            python = self._python()
            # What a copied interpreter needs of its own, or it would take the machine's.
            planted["LD_LIBRARY_PATH"] = f"{Path(python).parents[1] / 'lib'}:{place}/outside"
        program = HERE / _PROGRAMS[0]
        if user.prefix:
            for name in _PROGRAMS:
                shutil.copy(HERE / name, user.project)
            program = user.project / _PROGRAMS[0]
        try:
            done = subprocess.run(
                [*user.prefix, python, str(program), what, subject, place],
                cwd=user.project,
                env=user.environment({**planted, **environment}),
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _failure(subject, f"its host did not end within {_TIMEOUT} seconds") from None
        if done.returncode:
            raise _failure(subject, done.stderr.decode("utf-8", "replace"))
        return json.loads(done.stdout)

    def _python(self) -> str:
        """An interpreter like that of the peers which the stranger can run: theirs may be closed to others."""
        if not self.stranger.prefix:
            return sys.executable
        if not self._interpreter:
            copy = self.stranger.project.parent / "python-of-peers"
            shutil.copytree(sys.base_prefix, copy, symlinks=True, ignore=shutil.ignore_patterns(*_UNNEEDED))
            for path in (copy, *copy.rglob("*")):
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
            self._interpreter = str(copy / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")
        return self._interpreter


@contextmanager
def hosts() -> Generator[Hosts]:
    """Both users, with directories that go away again."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    if shutil.which("setpriv") is None:
        raise NotMeasured("hostile cases: `setpriv` is missing")
    harness: Any = importlib.import_module("tests.hostile.harness")
    with ExitStack() as stack:
        us, stranger = stack.enter_context(harness.ourselves()), stack.enter_context(harness.nobody())
        yield Hosts(harness, us, stranger, stack)


def subjects(extent: Extent) -> tuple[tuple[str, ...], tuple[Peer, ...]]:
    """Which of our executors and which others are tried."""
    return (("local", "sandbox"), PEERS[:1]) if extent == TINY else (OURS, PEERS)


def not_tried(extent: Extent) -> list[str]:
    """What else there is of others, and why it is not tried."""
    return [] if extent == TINY else [f"{name}: {why}" for name, why in NOT_TRIED.items()]


def _failure(subject: str, said: str) -> Exception:
    """Another library that fails is not measured, nor is an executor that this machine lacks; the rest is our fault."""
    if subject not in (*OURS, BARE):
        return NotMeasured(f"{subject}: {last_line(said)}")
    if found := _UNAVAILABLE.search(said):
        return NotMeasured(f"{subject}: {found[1]}")
    return RuntimeError(f"{subject}: {said.strip()}")
