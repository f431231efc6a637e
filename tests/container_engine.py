"""A real container engine for tests, shared by all of them; `scripts/test_engine.py` runs it.

`python -m tests.container_engine` makes its image on a machine that has none yet, if it can.
"""

import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "scripts" / "test_engine.py"
NEEDED = ("dockerd", "debootstrap", "setpriv")
FIRST_TIME_MAY_TAKE = 900
ENDS_WITHIN = 60


@dataclass(frozen=True, slots=True)
class TestEngine:
    """Where the engine is, and the image that it has."""

    __test__ = False

    address: str
    image: str
    supervisor: int


@pytest.fixture(scope="session")
def container_engine() -> Generator[TestEngine]:
    """A container engine with an image that has python3 and bash. Without root, or without the programs, the test is
    skipped; a missing program fails in CI."""
    from tests.conftest import find_program, skip_unless_root

    skip_unless_root("a container engine is started")
    ci = os.environ.get("CI") == "true"
    for program in NEEDED:
        find_program(program, search_path=os.environ.get("PATH", os.defpath), ci=ci)
    with engine_in(cache_directory()) as engine:
        yield engine


@contextmanager
def engine_in(directory: Path) -> Generator[TestEngine]:
    """The engine of this directory, started when nobody else has. The last to leave waits until it has ended.

    When its users are killed it ends, too: it sees that nobody holds the lock.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "users").open("a") as users:
        # Waits while an engine that nobody needs any more is ending.
        fcntl.flock(users, fcntl.LOCK_SH)
        with (directory / "starting").open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            engine = _running(directory) or _started(directory)
        try:
            yield engine
        finally:
            _leave(users.fileno(), engine)


def cache_directory() -> Path:
    """Where the engine keeps its image from one run of the tests to the next."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "openskills-tests" / "engine"


def _leave(users: int, engine: TestEngine) -> None:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # Somebody else needs it, or it is ending already. Either way the lock is not ours any more.
        fcntl.flock(users, fcntl.LOCK_SH)
        return
    with suppress(ProcessLookupError):
        os.kill(engine.supervisor, signal.SIGTERM)
    deadline = time.monotonic() + ENDS_WITHIN
    while _supervised(engine.supervisor) and time.monotonic() < deadline:
        time.sleep(0.02)


def _running(directory: Path) -> TestEngine | None:
    try:
        found = json.loads((directory / "ready").read_text())
    except FileNotFoundError:
        return None
    engine = TestEngine(found["address"], found["image"], found["pid"])
    return engine if _supervised(engine.supervisor) else None


def _supervised(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        return PROGRAM.name in Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _ended(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _started(directory: Path) -> TestEngine:
    log = directory / "log"
    # Not with subprocess: the program may outlive this process, if only for a moment, and nobody need wait for it.
    output = (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, str(PROGRAM), str(directory)],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), output, (os.POSIX_SPAWN_DUP2, 1, 2)],
        setsid=True,
    )
    deadline = time.monotonic() + FIRST_TIME_MAY_TAKE
    while (engine := _running(directory)) is None:
        # Not by its command line, which is empty for a moment.
        if _ended(pid) or time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"the container engine for tests did not start:\n{said}")
        time.sleep(0.05)
    return engine


def main() -> None:
    """Run the engine once, so that it has its image, unless it ran before."""
    directory = cache_directory()
    can = os.geteuid() == 0 and all(map(shutil.which, NEEDED))
    if can and not (directory / "data").exists():
        with engine_in(directory):
            pass


if __name__ == "__main__":
    main()
