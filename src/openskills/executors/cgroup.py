"""Cgroups (version 2) of commands, with which the kernel limits the memory and the tasks of each process tree.

They are used where this process runs in a cgroup that was delegated to it (`Delegate=yes` of systemd). A cgroup with
processes cannot have controllers for children, so this process moves to a leaf below it first. A command begins in its
cgroup (`programs/supervisor.py`), because joining one later waits for all processors. Linux only.
"""

import asyncio
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from openskills.executors.spec import Limits
from openskills.executors.watchdog import list_descendants

LEAF = "openskills.host"
"""The cgroup below the delegated one to which this process and others of its host move."""
ADVICE = "start it with systemd-run --user --scope -p Delegate=yes"

_PREFIX = "openskills.run-"
_CONTROLLERS = ("memory", "pids")
_MEMORY = "memory.max"
_MARKS = ("user.delegate", "trusted.delegate")
_MAX_MOVES = 8
_REMOVE_TIMEOUT, _REMOVE_PAUSE = 5.0, 0.005


def parse_own_path(text: str) -> str | None:
    """The path of a process in the hierarchy, from its `/proc/PID/cgroup`; None without version 2. Pure."""
    return next((line[3:] for line in text.splitlines() if line.startswith("0::/")), None)


def find_directory(mountinfo: str, path: str) -> Path | None:
    """The directory of a path in the hierarchy, from `/proc/PID/mountinfo`; None if that is not mounted. Pure."""
    for line in mountinfo.splitlines():
        mount, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            root, point = (re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), word) for word in mount.split()[3:5])
            above = root.rstrip("/")
            # Outside of our cgroup namespace the path begins with /..
            if f"{path}/".startswith(f"{above}/") and not path.startswith("/.."):
                return Path(point) / path.removeprefix(above).lstrip("/")
    return None


def _compute_maxima(limits: Limits) -> dict[str, float]:
    """The contents of `memory.max` and `pids.max`."""
    memory, processes = limits.total_memory_bytes, limits.processes
    # One more than the watchdog allows, so that it sees and reports the excess.
    tasks = math.inf if processes is None else 2 * processes + 1
    return {_MEMORY: math.inf if memory is None else memory, "pids.max": tasks}


class Cgroup:
    """The cgroup of one process tree; `descriptor` is its directory. Close it when the tree has ended."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._maxima = dict[str, float]()
        self._excess = ""
        self._closed = False
        path.mkdir()
        try:
            _write(path / "memory.oom.group", "1")
            with suppress(FileNotFoundError):
                # A kernel without swap does not have it.
                _write(path / "memory.swap.max", "0")
            self._set(_compute_maxima(limits))
            self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except BaseException:
            path.rmdir()
            raise

    def limit(self, limits: Limits, *, busy: bool = False) -> None:
        """Apply the limits of the next command, or those `for_calls` at the same time.

        If it is `busy` with others, limits are only raised. Has no effect on one that is being removed.
        """
        wanted = _compute_maxima(limits)
        if busy:
            wanted = {name: max(value, self._maxima[name]) for name, value in wanted.items()}
        if not self._closed:
            with suppress(FileNotFoundError):
                self._set(wanted)

    def describe_excess(self) -> str:
        """A sentence about the limit for which the kernel killed its processes; empty if it did not."""
        if not self._closed:
            with suppress(OSError):
                lines = (self._path / "memory.events").read_text("ascii").splitlines()
                seen = {name: int(count) for name, _, count in (line.partition(" ") for line in lines)}
                # `oom` only counts its own limit: the kernel may also kill because the machine has no memory left.
                if seen["oom"] and seen["oom_kill"] and self._maxima[_MEMORY] < math.inf:
                    memory = f"{self._maxima[_MEMORY]:,}"
                    self._excess = f"its processes used {memory} bytes of memory; the limit is {memory}"
        return self._excess

    def close(self) -> None:
        """Remove it in the background, with everything that still runs there. Safe to call twice."""
        if self._closed:
            return
        self.describe_excess()
        self._closed = True
        os.close(self.descriptor)
        try:
            asyncio.get_running_loop().run_in_executor(None, _remove, self._path)
        except RuntimeError:
            # The event loop has ended, or ends.
            _remove(self._path)

    def _set(self, wanted: dict[str, float]) -> None:
        for name, value in wanted.items():
            # Without a limit from the start.
            if value != self._maxima.get(name, math.inf):
                _write(self._path / name, "max" if value == math.inf else str(value))
        self._maxima = wanted


class Cgroups:
    """The cgroups that this process may make below `base`; `reason` says why there are none, or no more of them."""

    def __init__(self, base: Path | None, reason: str = "") -> None:
        self._base = base
        self.reason = reason

    def create(self, name: str, limits: Limits) -> Cgroup | None:
        """A cgroup for a process tree with these limits, if they need one. Blocking."""
        if self._base is None or self.reason or limits.total_memory_bytes is None:
            return None
        try:
            return Cgroup(self._base / f"{_PREFIX}{name}", limits)
        except OSError as error:
            self.reason = f"cannot make cgroups: {error.strerror}"
            return None

    def remove_orphans(self, is_orphaned: Callable[[str], bool]) -> None:
        """Remove those that hosts which are gone have left behind; `is_orphaned` judges their names. Blocking."""
        if self._base is not None:
            for path in self._base.glob(f"{_PREFIX}*"):
                if is_orphaned(path.name.removeprefix(_PREFIX)):
                    _remove(path)


_lock = threading.Lock()
FOUND: list[Cgroups] = []
"""What `find_cgroups` has found in this process; empty before it was called."""


def find_cgroups(is_orphaned: Callable[[str], bool]) -> Cgroups:
    """Find out once whether this process may make cgroups, prepare that, and remove those of dead hosts. Blocking."""
    with _lock:
        if not FOUND:
            try:
                cgroups = _prepare()
                cgroups.remove_orphans(is_orphaned)
            except (OSError, ValueError) as error:
                cgroups = Cgroups(None, f"cannot be used: {error}")
            FOUND.append(cgroups)
        return FOUND[0]


def _prepare() -> Cgroups:
    path = parse_own_path(_read("/proc/self/cgroup")) if sys.platform == "linux" else None
    here = None if path is None else find_directory(_read("/proc/self/mountinfo"), path)
    if here is None:
        return Cgroups(None, "cgroup v2 is not mounted")
    if here.name.startswith(_PREFIX):
        return Cgroups(None, "the cgroup of another command limits this process")
    base = here.parent if here.name == LEAF else here
    if not _is_delegated(base, path in ("/", f"/{LEAF}")):
        return Cgroups(None, "no delegated cgroup v2")
    missing = [name for name in _CONTROLLERS if name not in _read(base / "cgroup.controllers").split()]
    if missing:
        return Cgroups(None, f"the cgroup v2 has no controller {' and '.join(missing)}")
    if stranger := _move_to_leaf(base):
        return Cgroups(None, f"process {stranger} is in the same cgroup v2")
    _write(base / "cgroup.subtree_control", " ".join(f"+{name}" for name in _CONTROLLERS))
    return Cgroups(base)


def _is_delegated(base: Path, at_top: bool) -> bool:
    """Whether others leave this cgroup to us: it is marked so, belongs to us, or is all that a container has."""
    if not all(os.access(base / name, os.W_OK) for name in (".", "cgroup.procs", "cgroup.subtree_control")):
        return False
    for mark in _MARKS:
        with suppress(OSError):
            if os.getxattr(base, mark) == b"1":
                return True
    if os.geteuid() != 0:
        return base.stat().st_uid == os.geteuid()
    # Root may write everywhere. The top of the machine has no type, in contrast to that of a namespace.
    return at_top and (base / "cgroup.type").exists()


def _move_to_leaf(base: Path) -> str:
    """Move this process and its descendants to the leaf; returns which other process is in `base`, if there is one."""
    leaf = base / LEAF
    for _ in range(_MAX_MOVES):
        # Those of other namespaces have the number 0.
        found = [int(line) for line in _read(base / "cgroup.procs").split()]
        own = list_descendants(os.getpid())
        strangers = [pid for pid in found if pid not in own and (pid == 0 or os.path.exists(f"/proc/{pid}"))]
        if strangers:
            return str(strangers[0])
        if not found:
            break
        leaf.mkdir(exist_ok=True)
        for pid in found:
            with suppress(ProcessLookupError):
                _write(leaf / "cgroup.procs", str(pid))
    return ""


def _remove(path: Path) -> None:
    """Kill everything in a cgroup and remove it, with those that were made below. Blocking."""
    deadline = time.monotonic() + _REMOVE_TIMEOUT
    while True:
        try:
            for directory, _, _ in os.walk(path, topdown=False):
                os.rmdir(directory)
        except FileNotFoundError:
            return
        except OSError:
            # Without cgroup.kill (before Linux 5.14) only the supervisor kills.
            with suppress(OSError):
                _write(path / "cgroup.kill", "1")
        else:
            return
        if time.monotonic() > deadline:
            return
        time.sleep(_REMOVE_PAUSE)


def _read(path: str | Path) -> str:
    return Path(path).read_text("utf-8", "replace")


def _write(path: Path, text: str) -> None:
    # One write, without creating a file.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
