"""Commands, limits, results and the layout of a workspace: plain values that can be sent to another machine. Pure."""

import codecs
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import PurePath, PurePosixPath
from types import UnionType
from typing import Any, TypeAlias, cast, get_args, get_origin, get_type_hints

from openskills.arguments import check_arguments
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.paths import parse_relative

MIB = 1024 * 1024
GIB = 1024 * MIB


class Isolation(StrEnum):
    """What isolates a command from the machine; part of every result."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    CONTAINER = "container"
    NONE = "none"


_MINIMUMS = {"timeout": 0.001, "grace": 0, "memory_bytes": 16 * MIB, "total_memory_bytes": 16 * MIB, "processes": 1} | {
    **dict.fromkeys(("file_bytes", "output_bytes"), 0),
    "open_files": 16,
    "cpu_seconds": 1,
}
_MAXIMUM = 2**62

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where commands find the programs of the system."""
DEFAULT_TIMEOUT = 300.0
"""Seconds that a command may run unless its limits say otherwise."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one command. `None` means no limit.

    `memory_bytes` limits the private writable memory of one process. `total_memory_bytes` limits that of all processes
    of the command; a watchdog monitors it, and the kernel enforces it where commands have cgroups. `output_bytes` are
    kept of each stream, half from the head and half from the tail.
    """

    timeout: float = DEFAULT_TIMEOUT
    grace: float = 0.5
    memory_bytes: int | None = 2 * GIB
    total_memory_bytes: int | None = 4 * GIB
    processes: int | None = 128
    open_files: int | None = 1024
    file_bytes: int | None = GIB
    cpu_seconds: int | None = None
    output_bytes: int = MIB

    def __post_init__(self) -> None:
        """Raises `InvalidArgument` with the field for an invalid limit."""
        for name, minimum in _MINIMUMS.items():
            value = getattr(self, name)
            # Written so that NaN fails, too.
            if value is not None and not (isinstance(value, int | float) and minimum <= value < _MAXIMUM):
                raise InvalidArgument(
                    f"limits.{name}", f"{value!r} is invalid; use a number from {minimum:g} on, or None"
                )

    def for_calls(self, calls: int) -> "Limits":
        """The limits of a process tree that serves this many calls at the same time."""
        total, processes = self.total_memory_bytes, self.processes
        return replace(
            self,
            total_memory_bytes=None if total is None else total * calls,
            processes=None if processes is None else processes * calls,
        )


@check_arguments
@dataclass(frozen=True, slots=True)
class TerminalSize:
    """The size of a command's terminal, which replaces pipes."""

    rows: int = 24
    columns: int = 80


@dataclass(frozen=True, slots=True)
class PackageEnvironment:
    """Installed packages for a command.

    `mounts` are files and directories of this machine that the command sees at their own paths, read-only. `path`
    comes first on its `PATH`; `variables` are added. `node_modules` is linked into the skill's folder, where `import`
    of Node finds it.
    """

    mounts: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    node_modules: str | None = None


NO_PACKAGES = PackageEnvironment()
ENVIRONMENTS = "environments"
"""The directory of all environments, beside that of the workspaces."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Command:
    """One command in a workspace. `cwd` and `run_dir` are relative to the workspace and have been checked.

    The executor creates `run_dir` if it is missing. `env` holds the caller's variables; the executor adds the
    workspace's variables and nothing else. `secrets` are variables that are never logged. `input_open` leaves stdin
    open for `Process.write` after `stdin` is written. `readable` keeps output for `Process.read`, also for each stream
    separately; open input or a terminal keeps the combined output anyway. `network` lists the hosts that it may reach
    (`example.org`, `*.example.org:8443`); empty means no network. `warm` names modules to preload: a Python command may
    start from an interpreter that has them loaded, or starts cold if that would make a difference. `packages` are
    installed packages that it can use.
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
    packages: PackageEnvironment = NO_PACKAGES


@dataclass(frozen=True, slots=True)
class CapturedOutput:
    """The head and the tail of a stream, and how many bytes between them were dropped."""

    head: bytes = b""
    tail: bytes = b""
    cut: int = 0

    @property
    def total(self) -> int:
        """The total size of the stream in bytes."""
        return len(self.head) + self.cut + len(self.tail)

    def bytes(self) -> bytes:
        """The captured bytes, with a line that reports dropped ones."""
        if not self.cut:
            return self.head + self.tail
        return self.head + b"\n[... %d bytes not kept ...]\n" % self.cut + self.tail

    def text(self) -> str:
        """The same as text. Invalid UTF-8 becomes U+FFFD; characters are not cut."""
        if not self.cut:
            return (self.head + self.tail).decode("utf-8", "replace")
        head = self.head[: len(self.head) - count_partial_end(self.head)]
        tail = self.tail[count_partial_start(self.tail) :]
        note = f"\n[... {self.total - len(head) - len(tail):,} bytes not kept ...]\n"
        return head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace")


class OutputStream(StrEnum):
    """Which output of a running command is read: both streams combined, or one of them."""

    BOTH = "both"
    STDOUT = "stdout"
    STDERR = "stderr"


class EndReason(StrEnum):
    """Why a command ended."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    KILLED = "killed"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command. `exit_code` is 128 + n if signal n ended it, as in a shell.

    `detail` explains an end that the command did not choose, such as a limit. `notes` are sentences about how it was
    run, such as blocked hosts, or why it was not started warm. `memory_bytes` is the largest resident size of one of
    its processes; 0 if it is not known.
    """

    exit_code: int
    ending: EndReason
    duration_ms: int
    stdout: CapturedOutput
    stderr: CapturedOutput
    cpu_ms: int = 0
    detail: str = ""
    notes: tuple[str, ...] = ()
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ProcessOutput:
    """Bytes of a running command from `offset` on. `missed` bytes before them were dropped.

    The next call uses `next_offset`. `ended` means that this is all.
    """

    data: bytes
    offset: int
    next_offset: int
    missed: int = 0
    ended: bool = False


FileStamp: TypeAlias = tuple[int, int, int]
"""A value that changes whenever a file's content or name changes."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A regular file in a workspace."""

    path: str
    size: int
    stamp: FileStamp
    executable: bool = False


@dataclass(frozen=True, slots=True)
class WorkspaceListing:
    """The matching files, sorted by path; `skipped` lists other matches with the reason."""

    files: tuple[FileInfo, ...]
    skipped: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class WorkspaceUsage:
    """The size of a workspace."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class SkillSnapshot:
    """A skill's files at one moment; the digest identifies them in the executor's store."""

    name: str
    digest: str
    files: int
    size: int
    warnings: tuple[str, ...] = ()


def encode_text(text: str, field: str, what: str, *, errors: str = "surrogateescape") -> bytes:
    """The bytes of a text for a program. `InvalidArgument` for a NUL byte or a lone surrogate begins with `what`."""
    if "\0" in text:
        raise InvalidArgument(field, f"{what}contains a NUL byte")
    try:
        return text.encode("utf-8", errors)
    except UnicodeEncodeError:
        raise InvalidArgument(field, f"{what}contains a lone surrogate") from None


def count_partial_end(data: bytes | bytearray) -> int:
    """How many bytes at the end are an incomplete character of UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-3:])
    return len(decoder.getstate()[0])


def count_partial_start(data: bytes | bytearray) -> int:
    """How many bytes at the start belong to a character of UTF-8 whose beginning is lost."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return start


SKILLS, WORK, RUNS, OUT = "skills", "work", "runs", "out"
INPUTS = "work/inputs"
EDITOR_DIRECTORY = f"{SKILLS}/.editor"
"""The files of scripted editors (`editor_text`), where commands cannot write."""
TOP_DIRECTORIES = (SKILLS, WORK, RUNS, OUT)

LINKS: Mapping[str, str] = {"out": "../../out", "work": "../../work", "inputs": "../../work/inputs"}
"""Links in a staged skill's root to the workspace's own directories."""
VENV = ".venv"
RESERVED = frozenset({*LINKS, VENV})
"""Names in a skill's root that the workspace replaces."""

_VARIABLES = {"WORKSPACE_DIR": "", "SKILLS_DIR": SKILLS, "WORK_DIR": WORK, "OUTPUT_DIR": OUT}
_PREFIX = re.compile(r"\$(?:\{(\w+)\}|(\w+))(?=/|$)")


def build_variables(root: str, run_dir: str, skill: str | None) -> dict[str, str]:
    """The variables that describe the workspace, as absolute paths under `root`."""
    found = {name: f"{root}/{place}" if place else root for name, place in _VARIABLES.items()}
    found["RUN_DIR"] = f"{root}/{run_dir}"
    if skill is not None:
        found["SKILL_NAME"] = skill
    return found


def expand_path(path: str, *, run_dir: str | None = None, field: str = "path") -> str:
    """Replace a leading `$OUTPUT_DIR`, `${WORK_DIR}` … by its workspace-relative path.

    Only the documented variables at the start are replaced. The result is `""` for the workspace itself. Raises
    `InvalidArgument` for another variable at the start.
    """
    match = _PREFIX.match(path)
    if not match:
        return path
    name = match[1] or match[2]
    places = {**_VARIABLES, **({"RUN_DIR": run_dir} if run_dir else {})}
    if name not in places:
        known = ", ".join(f"${known}" for known in places)
        raise InvalidArgument(field, f"unknown variable ${name}; use one of {known}")
    rest = path[match.end() :].lstrip("/")
    return "/".join(part for part in (places[name], rest) if part)


def resolve_cwd(cwd: str, *, skill: str | None, run_dir: str) -> str:
    """The working directory, workspace-relative: `.` is the workspace, `skills/<name>` the default for a skill.

    A relative `cwd` is below the skill's root, `$WORK_DIR/x` below that directory, an absolute one below the workspace
    (`/` is the workspace itself). Raises `ForbiddenPath` for a path outside of the four directories. The executor
    checks whether it exists.
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
            raise ForbiddenPath(f"cwd: {cwd!r} leaves the workspace with '..'")
        return "."
    path = parse_relative(place, field="cwd")
    if path.parts[0] not in TOP_DIRECTORIES:
        raise ForbiddenPath(f"cwd: {cwd!r} is not in the workspace; use one of {', '.join(TOP_DIRECTORIES)}")
    return str(path)


WRITABLE = (WORK, OUT, RUNS)
"""Directories that may be written to."""

_SKILL_ALIASES = {"out": (OUT,), "work": (WORK,), "inputs": tuple(INPUTS.split("/"))}


def normalize_path(path: str, *, field: str = "path") -> str:
    """The canonical form of a path in the workspace, relative to it.

    `inputs/x` is `work/inputs/x`, and `skills/<name>/out/x` is `out/x`, likewise for `work` and `inputs`. Raises
    `ForbiddenPath` for a path outside, `InvalidArgument` for an invalid path.
    """
    return _normalize_path(path, field)


# Every command uses the same few paths.
@lru_cache(1024)
def _normalize_path(path: str, field: str) -> str:
    return "/".join(normalize_parts(parse_relative(path, field=field).parts))


def check_writable_path(path: str, *, field: str = "path") -> str:
    """Like `normalize_path`, for a path to write or remove.

    Raises `ForbiddenPath` for skills, for the workspace's own directories, and for paths outside of them.
    """
    found = normalize_path(path, field=field)
    top, _, rest = found.partition("/")
    if found.startswith(f"{EDITOR_DIRECTORY}/"):
        return found
    if top == SKILLS:
        raise ForbiddenPath(f"{field}: {path!r} is in {SKILLS}/; skills are read-only")
    if top not in WRITABLE:
        raise ForbiddenPath(f"{field}: {path!r} is not in the workspace; use one of {', '.join(WRITABLE)}")
    if not rest:
        raise ForbiddenPath(f"{field}: {path!r} is a top-level directory of the workspace; use a path below it")
    return found


def normalize_parts(parts: Sequence[str]) -> tuple[str, ...]:
    """The same for the parts of a path or pattern that have been checked already."""
    if len(parts) >= 3 and parts[0] == SKILLS and parts[2] in _SKILL_ALIASES:
        return (*_SKILL_ALIASES[parts[2]], *parts[3:])
    if parts[0] == "inputs":
        return (*_SKILL_ALIASES["inputs"], *parts[1:])
    return tuple(parts)


def to_json(value: object) -> object:
    """A dataclass, mapping, path or bytes in JSON, for `json.dumps(value, default=to_json)`."""
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    if isinstance(value, PurePath):
        return str(value)
    # Raises `TypeError` for anything else.
    return {one.name: getattr(value, one.name) for one in fields(cast("Any", value))}


@cache
def build_reader(kind: Any) -> Callable[[Any], Any]:
    """A function that reads back what `to_json` made of a value of this type.

    It raises `ValueError`, `TypeError` or `KeyError` for something else.
    """
    origin, kinds = get_origin(kind), get_args(kind)
    if origin is UnionType:
        read_other = build_reader(kinds[0])
        return lambda value: None if value is None else read_other(value)
    if origin is tuple and kinds[-1] is ...:
        read_item = build_reader(kinds[0])
        return lambda value: tuple(map(read_item, value))
    if origin is tuple:
        readers = [build_reader(one) for one in kinds]
        return lambda value: tuple(read(one) for read, one in zip(readers, value, strict=True))
    if hasattr(kind, "__dataclass_fields__"):
        named = {name: build_reader(hint) for name, hint in get_type_hints(kind).items()}
        return lambda value: kind(**{name: named[name](one) for name, one in dict(value).items()})
    if kind is bytes:
        return b64decode
    return dict if origin is not None else kind
