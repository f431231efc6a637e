"""Bwrap options, visible paths, memory files.

The profile of the sandbox, as arguments of `bwrap`. Pure.

What a command sees is an allow-list: parts of the system, read-only; its workspace; small file systems in memory that
end with it. It has no capability, no other user, no network but its own loopback, and sees no process but its own.

Files in memory, to hand something to a program that nobody else may read.
"""

import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openskills.errors import InvalidArgument
from openskills.executors.spec import MIB, SKILLS, VENV
from openskills.executors.supervisor import MARKER_VARIABLE

ROOT = "/workspace"
HOME = "/home/u"
USER = 1000

READY, GO, OPTIONS, FILTER, ETC, TREE, SKILLS_TREE, VENV_TREE = range(3, 11)
"""Numbers of the descriptors that `bwrap` is started with."""

_SHM, _TMP, _HOME = 64 * MIB, 256 * MIB, 64 * MIB
_SIGNALS = "INT,QUIT,TSTP"
# Quicker to start than bash by half a millisecond.
DASH, BASH = "/bin/dash", "/bin/bash"
_ULIMITS = {"open_files": "-n", "file_kib": "-f", "memory_kib": "-d", "cpu_seconds": "-t"}
_PROCESSES = {DASH: "-p", BASH: "-u"}


@dataclass(frozen=True, slots=True)
class VisibleSystem:
    """What of this machine is shown, besides an `/etc` of our own: directories as they are, and links.

    `hidden` are files of `/proc` that tell about others. `in_etc` is what `/etc` has to hold for the directories: links
    (path and target), and places (None) for what is shown below it.
    """

    binds: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...] = ()
    in_etc: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits that are set inside, so that they count for one sandbox and not for its user; None is no limit."""

    processes: int | None = None
    open_files: int | None = None
    file_kib: int | None = None
    memory_kib: int | None = None
    cpu_seconds: int | None = None


def build_system_options(system: VisibleSystem) -> list[str]:
    """The part of the options that is the same for every command."""
    options = [
        *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(USER), "--gid", str(USER)),
        *("--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv"),
        # Before everything that may lie in them.
        *("--size", str(_TMP), "--perms", "1777", "--tmpfs", "/tmp", "--size", str(_HOME), "--tmpfs", HOME),  # noqa: S108
        *("--ro-bind-fd", str(ETC), "/etc"),
    ]
    for path in system.binds:
        options += ["--ro-bind", path, path]
    for target, path in system.links:
        options += ["--symlink", target, path]
    return [
        *options,
        # The kernel asks who writes to a setting, not with which capabilities: root outside would be root inside.
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *(word for path in system.hidden for word in ("--ro-bind", "/dev/null", path)),
        *("--dev", "/dev", "--size", str(_SHM), "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
    ]


def build_command_options(
    *, env: Mapping[str, str], cwd: str, venv_of: str | None, terminal: bool, first: bool = False
) -> list[str]:
    """The part of the options that belongs to one command; `venv_of` names the skill whose `.venv` it may write to.

    `first`: the command is process 1 of the sandbox, and looks after all others there.
    """
    options = ["--bind-fd", str(TREE), ROOT, "--ro-bind-fd", str(SKILLS_TREE), f"{ROOT}/{SKILLS}"]
    if venv_of is not None:
        options += ["--bind-fd", str(VENV_TREE), f"{ROOT}/{SKILLS}/{venv_of}/{VENV}"]
    options += ["--remount-ro", "/", "--chdir", os.path.normpath(f"{ROOT}/{cwd}"), "--seccomp", str(FILTER)]
    if not terminal:
        # On a terminal this would take away job control. There the filter is what keeps it from typing for the user.
        options.append("--new-session")
    if first:
        options.append("--as-pid-1")
    for name, value in env.items():
        options += ["--setenv", name, value]
    return options


def encode_options(options: Sequence[str]) -> bytes:
    """Options as `bwrap --args` reads them; raises `InvalidArgument` for what would become two."""
    (data,) = _to_bytes(["".join(f"{option}\0" for option in options)])
    if data.count(b"\0") != len(options):
        raise _nul_error()
    return data


def encode_words(texts: Sequence[str]) -> list[bytes]:
    """Texts as the kernel takes them; raises `InvalidArgument` for what it cannot take."""
    found = _to_bytes(texts)
    if any(b"\0" in word for word in found):
        raise _nul_error()
    return found


def _to_bytes(texts: Sequence[str]) -> list[bytes]:
    try:
        return [os.fsencode(text) for text in texts]
    except UnicodeEncodeError:
        raise InvalidArgument("command", "contains half a character (a lone surrogate)") from None


def _nul_error() -> InvalidArgument:
    return InvalidArgument("command", "contains a NUL byte")


def build_command_line(
    *,
    bwrap: str,
    setpriv: str,
    uid: int | None,
    marker: str,
    held: SandboxLimits,
    argv: Sequence[str],
    terminal: bool,
    shell: str = BASH,
) -> list[str]:
    """What is started. Nothing secret is in it: every user of the machine can read it.

    `uid` is the user to become first, for a host that is root.
    """
    encode_words(argv)
    # No --pdeathsig here: bwrap binds itself to the keeper when it has something to contain. Killed before that, it
    # would leave a child that waits for it for ever; alive, it gets to the point where nobody gives the word, and ends.
    user = ("--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--")
    return [
        *(() if uid is None else (setpriv, *user)),
        *(bwrap, "--args", str(OPTIONS), "--setenv", MARKER_VARIABLE, marker, "--"),
        # Without -p bash would source what BASH_ENV names before any limit is set. To dash it means nothing.
        *(shell, *(("--norc", "--noprofile") if shell == BASH else ()), "-pc", _build_start_script(held, shell), "sh"),
        *(_wrap_for_terminal(argv) if terminal else argv),
    ]


def _build_start_script(held: SandboxLimits, shell: str) -> str:
    """The first thing inside: set the limits, say so, wait for the word, become the command.

    dash takes one limit at a time, and counts a file's size in blocks of 512 bytes.
    """
    wanted = {_PROCESSES[shell]: held.processes, **{flag: getattr(held, name) for name, flag in _ULIMITS.items()}}
    if shell == DASH and held.file_kib is not None:
        wanted["-f"] = held.file_kib * 2
    limits = "".join(f"ulimit {flag} {value} && " for flag, value in wanted.items() if value is not None)
    return (
        f"ulimit -c 0 && {limits}echo >&{READY} && exec {READY}>&- && read -r _ <&{GO} || exit 125; "
        f'exec {GO}<&-; exec {"--" if shell == BASH else ""} "$@"'
    )


def _wrap_for_terminal(argv: Sequence[str]) -> list[str]:
    # bwrap ignores the keys of the terminal, and what it starts would, too.
    reset = ["/usr/bin/env", f"--default-signal={_SIGNALS}", "--"]
    # A program whose name has a "=" in it is a variable to env.
    return [*reset, *(("/bin/bash", "-pc", 'exec -- "$@"', "bash") if "=" in argv[0] else ()), *argv]


def create_memory_file(data: bytes) -> int:
    """A descriptor of a file without a name that holds `data`, at its beginning. The descriptor is the caller's."""
    return _write_memory_file(os.memfd_create("openskills", os.MFD_CLOEXEC), data)


class SealedMemoryFile:
    """A file without a name that nobody can change, for many programs one after the other or at once."""

    def __init__(self, data: bytes) -> None:
        self._descriptor = _write_memory_file(
            os.memfd_create("openskills", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), data
        )
        unchangeable = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, unchangeable)

    def open_reader(self) -> int:
        """A new descriptor that reads it from its beginning, whatever others have read. It is the caller's."""
        return os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Let it go when the last reader has."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _write_memory_file(descriptor: int, data: bytes) -> int:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
