"""Command, Limits, Ended, layout.

What is asked of an executor and what comes back: plain values that can travel to another machine.

How a workspace is laid out, and what its places are called. Pure.

What a path in a workspace means, whatever the links under a skill's root make of it. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.paths import parse_relative

MIB = 1024 * 1024
GIB = 1024 * MIB


class Isolation(StrEnum):
    """What stands between a command and the machine, said in every result."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    CONTAINER = "container"
    NONE = "none"


_MINIMUMS = {"timeout": 0.001, "grace": 0, "memory_bytes": 16 * MIB, "total_memory_bytes": 16 * MIB, "processes": 1} | {
    "open_files": 16,
    "file_bytes": 0,
    "cpu_seconds": 1,
    "output_bytes": 0,
}
_MAXIMUM = 2**62


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may use. `None` is no limit of ours.

    `memory_bytes` is what one process may have as private writable memory; `total_memory_bytes` is watched over all
    processes of the command. `output_bytes` is kept of each stream, half from its head and half from its tail.
    """

    timeout: float = 300.0
    grace: float = 0.5
    memory_bytes: int | None = 2 * GIB
    total_memory_bytes: int | None = 4 * GIB
    processes: int | None = 128
    open_files: int | None = 1024
    file_bytes: int | None = GIB
    cpu_seconds: int | None = None
    output_bytes: int = MIB

    def __post_init__(self) -> None:
        """Raises `InvalidArgument` with the field for what no command could be run under."""
        for name, least in _MINIMUMS.items():
            value = getattr(self, name)
            # NaN is neither less nor more than anything.
            if value is not None and not (isinstance(value, int | float) and least <= value < _MAXIMUM):
                raise InvalidArgument(
                    f"limits.{name}", f"{value!r} is no limit; use a number from {least:g} on, or None"
                )


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """The size of the terminal that a command gets instead of pipes."""

    rows: int = 24
    columns: int = 80


@dataclass(frozen=True, slots=True)
class Command:
    """One command in a workspace. `cwd` and `run_dir` are relative to the workspace and have been checked.

    The executor makes `run_dir` when it is missing. `env` has what the caller adds; the executor adds the workspace's
    variables and nothing else. `secrets` are variables, too, and never logged. `input_open` leaves stdin open for
    `Process.write` after `stdin` is written. `readable` keeps output for `Process.read` while it runs, each stream by
    itself, too; an open input and a terminal keep both together anyway. `network` names the hosts that it may reach
    (`example.org`, `*.example.org:8443`); empty is no network at all. `warm` names modules: a Python command may start
    from an interpreter that has them loaded already, and starts cold where that would make a difference.
    """

    argv: tuple[str, ...]
    skill: str | None = None
    cwd: str = "."
    run_dir: str = "runs/run"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    stdin: bytes = field(default=b"", repr=False)
    input_open: bool = False
    readable: bool = False
    terminal: TerminalSize | None = None
    limits: Limits = Limits()
    network: tuple[str, ...] = ()
    warm: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CapturedOutput:
    """What a stream brought: its head and its tail, and how many bytes between them were not kept."""

    head: bytes = b""
    tail: bytes = b""
    cut: int = 0

    @property
    def total(self) -> int:
        """How many bytes the stream brought in all."""
        return len(self.head) + self.cut + len(self.tail)

    def bytes(self) -> bytes:
        """Everything that was kept, with a line in between that says what was not."""
        if not self.cut:
            return self.head + self.tail
        return self.head + b"\n[... %d bytes not kept ...]\n" % self.cut + self.tail

    def text(self) -> str:
        """The same as text; what is no UTF-8 becomes U+FFFD, and no character is cut in two by us."""
        head, tail = self.head, self.tail
        if self.cut:
            head, tail = _trim_end(head), _trim_start(tail)
        shown = head.decode("utf-8", "replace")
        if self.cut:
            shown += f"\n[... {self.total - len(head) - len(tail):,} bytes not kept ...]\n"
        return shown + tail.decode("utf-8", "replace") if self.cut else (head + tail).decode("utf-8", "replace")


class OutputStream(StrEnum):
    """Which output of a running command is read: both in the order in which they came, or one of them."""

    BOTH = "both"
    STDOUT = "stdout"
    STDERR = "stderr"


class EndReason(StrEnum):
    """Why a command is not running any more."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    KILLED = "killed"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. `exit_code` is 128 + n when signal n ended it, as a shell would say it.

    `detail` is a sentence when somebody else than the command decided: which limit, which signal of ours. `notes` are
    sentences about how it was run: which hosts were refused, why it was not started warm.
    """

    exit_code: int
    ending: EndReason
    duration_ms: int
    stdout: CapturedOutput
    stderr: CapturedOutput
    cpu_ms: int = 0
    detail: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessOutput:
    """Bytes of a running command from `offset` on. `missed` bytes before them are not kept any more.

    The next call asks for `next_offset`. `ended` says that no more will come.
    """

    data: bytes
    offset: int
    next_offset: int
    missed: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One regular file in a workspace; `stamp` changes whenever its content or its name changes."""

    path: str
    size: int
    stamp: tuple[int, int, int]
    executable: bool = False


@dataclass(frozen=True, slots=True)
class WorkspaceListing:
    """The files that match, sorted by path; `skipped` says what matched and is not handed out, and why."""

    files: tuple[FileInfo, ...]
    skipped: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class WorkspaceUsage:
    """What a workspace holds."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class SkillSnapshot:
    """A skill's tree as it was at one moment: its digest names it in the executor's store."""

    name: str
    digest: str
    files: int
    size: int
    warnings: tuple[str, ...] = ()


def _trim_end(data: bytes) -> bytes:
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < needed else data
    return data


def _trim_start(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


SKILLS, WORK, RUNS, OUT = "skills", "work", "runs", "out"
INPUTS = "work/inputs"
TOP_DIRECTORIES = (SKILLS, WORK, RUNS, OUT)

LINKS: Mapping[str, str] = {"out": "../../out", "work": "../../work", "inputs": "../../work/inputs"}
"""What lies under a staged skill's root and leads to the workspace's own directories."""
VENV = ".venv"
RESERVED = frozenset({*LINKS, VENV})
"""Names at the top of a skill that a workspace puts something of its own in the place of."""

_VARIABLES = {"WORKSPACE_DIR": "", "SKILLS_DIR": SKILLS, "WORK_DIR": WORK, "OUTPUT_DIR": OUT}
_PREFIX = re.compile(r"\$(?:\{(\w+)\}|(\w+))(?=/|$)")


def build_variables(root: str, run_dir: str, skill: str | None) -> dict[str, str]:
    """The variables of the mission documents, as absolute paths under `root`."""
    found = {name: f"{root}/{place}" if place else root for name, place in _VARIABLES.items()}
    found["RUN_DIR"] = f"{root}/{run_dir}"
    if skill is not None:
        found["SKILL_NAME"] = skill
    return found


def expand_path(path: str, *, run_dir: str | None = None, field: str = "path") -> str:
    """A path whose leading `$OUTPUT_DIR`, `${WORK_DIR}` … is replaced by the place it means, workspace-relative.

    Only the documented variables, only at the start: everything else is literal. The result is `""` for the
    workspace itself. Raises `InvalidArgument` for another variable at the start.
    """
    match = _PREFIX.match(path)
    if not match:
        return path
    name = match[1] or match[2]
    places = {**_VARIABLES, **({"RUN_DIR": run_dir} if run_dir else {})}
    if name not in places:
        known = ", ".join(f"${known}" for known in places)
        raise InvalidArgument(field, f"${name} is not a place of the workspace; use one of {known}")
    rest = path[match.end() :].lstrip("/")
    return "/".join(part for part in (places[name], rest) if part)


def resolve_cwd(cwd: str, *, skill: str | None, run_dir: str) -> str:
    """Where a command runs, workspace-relative: `.` is the workspace, `skills/<name>` the default for a skill.

    A relative `cwd` is below the skill's root, `$WORK_DIR/x` and its kin below that place, an absolute one is below
    the workspace (`/` is the workspace itself). Raises `ForbiddenPath` for what climbs out or lies outside the four
    directories; nothing is ever silently redirected. Whether it exists is for the executor to find out.
    """
    home = f"{SKILLS}/{skill}" if skill else "."
    if not cwd or cwd == ".":
        return home
    place = expand_path(cwd, run_dir=run_dir, field="cwd")
    if place is cwd and not cwd.startswith("/"):
        return str(PurePosixPath(home) / parse_relative(cwd, field="cwd"))
    place = place.lstrip("/")
    if not place.strip("/."):
        if ".." in place.split("/"):
            raise ForbiddenPath(f"cwd: {cwd!r} climbs out with '..'")
        return "."
    path = parse_relative(place, field="cwd")
    if path.parts[0] not in TOP_DIRECTORIES:
        raise ForbiddenPath(
            f"cwd: {cwd!r} is not in the workspace; it has the directories {', '.join(TOP_DIRECTORIES)}"
        )
    return str(path)


WRITABLE = (WORK, OUT, RUNS)
"""Where files may be put."""

_SKILL_ALIASES = {"out": (OUT,), "work": (WORK,), "inputs": tuple(INPUTS.split("/"))}


def normalize_path(path: str, *, field: str = "path") -> str:
    """The one spelling of a path in the workspace, relative to it.

    `inputs/x` is `work/inputs/x`, `skills/<name>/out/x` is `out/x`, and so on for `work` and `inputs` there. Raises
    `ForbiddenPath` for what climbs out, `InvalidArgument` for what is no path.
    """
    return _normalize_path(path, field)


# Every command asks for the same few.
@lru_cache(1024)
def _normalize_path(path: str, field: str) -> str:
    return "/".join(normalize_parts(parse_relative(path, field=field).parts))


def check_writable_path(path: str, *, field: str = "path") -> str:
    """The same for something that is to be put there or removed; raises `ForbiddenPath` for a place of skills, for
    the workspace's own directories, and for what lies beside them."""
    found = normalize_path(path, field=field)
    top, _, rest = found.partition("/")
    if top == SKILLS:
        raise ForbiddenPath(f"{field}: {path!r} is in {SKILLS}/; skills are read-only")
    if top not in WRITABLE:
        raise ForbiddenPath(f"{field}: {path!r} is in none of the workspace's directories {', '.join(WRITABLE)}")
    if not rest:
        raise ForbiddenPath(f"{field}: {path!r} is a directory of the workspace itself; name something in it")
    return found


def normalize_parts(parts: Sequence[str]) -> tuple[str, ...]:
    """The same for the parts of a path or pattern that have been checked already."""
    if len(parts) >= 3 and parts[0] == SKILLS and parts[2] in _SKILL_ALIASES:
        return (*_SKILL_ALIASES[parts[2]], *parts[3:])
    if parts[0] == "inputs":
        return (*_SKILL_ALIASES["inputs"], *parts[1:])
    return tuple(parts)
