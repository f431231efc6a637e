"""What is asked of an executor and what comes back: plain values that can travel to another machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from openskills.errors import InvalidArgument

MIB = 1024 * 1024
GIB = 1024 * MIB


class Isolation(StrEnum):
    """What stands between a command and the machine, said in every result."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    CONTAINER = "container"
    NONE = "none"


_LEAST = {"timeout": 0.001, "grace": 0, "memory_bytes": 16 * MIB, "total_memory_bytes": 16 * MIB, "processes": 1} | {
    "open_files": 16,
    "file_bytes": 0,
    "cpu_seconds": 1,
    "output_bytes": 0,
}
_MOST = 2**62


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
        for name, least in _LEAST.items():
            value = getattr(self, name)
            # NaN is neither less nor more than anything.
            if value is not None and not (isinstance(value, int | float) and least <= value < _MOST):
                raise InvalidArgument(
                    f"limits.{name}", f"{value!r} is no limit; use a number from {least:g} on, or None"
                )


@dataclass(frozen=True, slots=True)
class Terminal:
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
    terminal: Terminal | None = None
    limits: Limits = Limits()
    network: tuple[str, ...] = ()
    warm: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Captured:
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
            head, tail = _without_cut_end(head), _without_cut_start(tail)
        shown = head.decode("utf-8", "replace")
        if self.cut:
            shown += f"\n[... {self.total - len(head) - len(tail):,} bytes not kept ...]\n"
        return shown + tail.decode("utf-8", "replace") if self.cut else (head + tail).decode("utf-8", "replace")


class Stream(StrEnum):
    """Which output of a running command is read: both in the order in which they came, or one of them."""

    BOTH = "both"
    STDOUT = "stdout"
    STDERR = "stderr"


class Ending(StrEnum):
    """Why a command is not running any more."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    KILLED = "killed"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `exit_code` is 128 + n when signal n ended it, as a shell would say it.

    `detail` is a sentence when somebody else than the command decided: which limit, which signal of ours. `notes` are
    sentences about how it was run: which hosts were refused, why it was not started warm.
    """

    exit_code: int
    ending: Ending
    duration_ms: int
    stdout: Captured
    stderr: Captured
    cpu_ms: int = 0
    detail: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
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
class Listing:
    """The files that match, sorted by path; `skipped` says what matched and is not handed out, and why."""

    files: tuple[FileInfo, ...]
    skipped: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Usage:
    """What a workspace holds."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A skill's tree as it was at one moment: its digest names it in the executor's store."""

    name: str
    digest: str
    files: int
    size: int
    warnings: tuple[str, ...] = ()


def _without_cut_end(data: bytes) -> bytes:
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < needed else data
    return data


def _without_cut_start(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
