"""The sandbox profile as arguments of `bwrap`, and memory files to pass private data to it.

A command sees an allow-list: parts of the system, read-only; its workspace; and small file systems in memory that end
with it. It has no capabilities, no other users, no network except its own loopback, and sees only its own processes.
"""

import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openskills.executors.spec import MIB, SKILLS, encode_text
from openskills.executors.supervisor import MARKER_VARIABLE
from openskills.filesystem import write_all

ROOT = "/workspace"
HOME = "/home/u"
USER = 1000

READY, GO, OPTIONS, FILTER, ETC, TREE, SKILLS_TREE, SKILL_TREE, WORDS, MOUNTS = range(3, 13)
"""The descriptor numbers that `bwrap` is started with; `MOUNTS` is the first of those for a command's packages."""

MAX_WORDS = 8000
"""`bwrap` accepts 9,000 words. Commands with more than this are read from the descriptor `WORDS`."""

_SHM, _TMP, _HOME = 64 * MIB, 256 * MIB, 64 * MIB
_SIGNALS = "INT,QUIT,TSTP"
# dash starts half a millisecond faster than bash.
DASH, BASH = "/bin/dash", "/bin/bash"
_ULIMITS = {"open_files": "-n", "file_kib": "-f", "memory_kib": "-d", "cpu_seconds": "-t"}
_PROCESSES = {DASH: "-p", BASH: "-u"}


@dataclass(frozen=True, slots=True)
class VisibleSystem:
    """The parts of this machine that a sandbox sees, besides the generated `/etc`: directories and links.

    `hidden` are files of `/proc` with information about others. `in_etc` are the entries that `/etc` needs for them:
    links (path and target), and mount points (None).
    """

    binds: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...] = ()
    in_etc: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits that are set inside, so that they apply to one sandbox and not to its user; None means unlimited."""

    processes: int | None = None
    open_files: int | None = None
    file_kib: int | None = None
    memory_kib: int | None = None
    cpu_seconds: int | None = None


def build_system_options(system: VisibleSystem) -> list[str]:
    """The options that are the same for every command."""
    options = [
        *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(USER), "--gid", str(USER)),
        *("--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv"),
        # Before everything that may be mounted in them.
        *("--size", str(_TMP), "--perms", "1777", "--tmpfs", "/tmp", "--size", str(_HOME), "--tmpfs", HOME),  # noqa: S108
        *("--ro-bind-fd", str(ETC), "/etc"),
    ]
    for path in system.binds:
        options += ["--ro-bind", path, path]
    for target, path in system.links:
        options += ["--symlink", target, path]
    return [
        *options,
        # For settings the kernel checks the user, not capabilities: root outside would be root inside.
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *(word for path in system.hidden for word in ("--ro-bind", "/dev/null", path)),
        *("--dev", "/dev", "--size", str(_SHM), "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
    ]


def build_command_options(
    *,
    env: Mapping[str, str],
    cwd: str,
    skill: str | None,
    terminal: bool,
    mounts: Sequence[str] = (),
    first: bool = False,
) -> list[str]:
    """The options of one command; `skill` is the one whose folder is writable, `mounts` are read-only.

    `first`: the command is process 1 of the sandbox, and reaps the others.
    """
    options = [word for at, path in enumerate(mounts, MOUNTS) for word in ("--ro-bind-fd", str(at), path)]
    options += ["--bind-fd", str(TREE), ROOT, "--ro-bind-fd", str(SKILLS_TREE), f"{ROOT}/{SKILLS}"]
    if skill is not None:
        options += ["--bind-fd", str(SKILL_TREE), f"{ROOT}/{SKILLS}/{skill}"]
    options += ["--remount-ro", "/", "--chdir", os.path.normpath(f"{ROOT}/{cwd}"), "--seccomp", str(FILTER)]
    if not terminal:
        # On a terminal this would disable job control; there the filter denies injecting keystrokes.
        options.append("--new-session")
    if first:
        options.append("--as-pid-1")
    for name, value in env.items():
        options += ["--setenv", name, value]
    return options


def encode_options(options: Sequence[str]) -> bytes:
    """Encode options for `bwrap --args`; raises `InvalidArgument` for a NUL byte or lone surrogate."""
    return b"".join(word + b"\0" for word in encode_words(options))


def encode_words(texts: Sequence[str]) -> list[bytes]:
    """Encode words of a command line; raises `InvalidArgument` for a NUL byte or lone surrogate."""
    return [encode_text(text, "command", "") for text in texts]


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
    """The command line of a sandbox. It contains no secrets: every user of the machine can read it.

    `uid` is the user to switch to, for a host that is root.
    """
    encode_words(argv)
    # No --pdeathsig here: bwrap sets it itself once it has started the sandbox. Killed before that, it would leave a
    # child that waits for it forever; if it survives, it ends because the handshake fails.
    user = ("--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--")
    long = len(argv) > MAX_WORDS
    shell = BASH if long else shell
    return [
        *(() if uid is None else (setpriv, *user)),
        *(bwrap, "--args", str(OPTIONS), "--setenv", MARKER_VARIABLE, marker, "--"),
        # Without -p, bash would source BASH_ENV before any limit is set. dash ignores it.
        *(
            shell,
            *(("--norc", "--noprofile") if shell == BASH else ()),
            "-pc",
            _build_start_script(held, shell, long=long),
            "sh",
        ),
        *(() if long else to_words(argv, terminal=terminal)),
    ]


def _build_start_script(held: SandboxLimits, shell: str, *, long: bool) -> str:
    """The shell script that sets the limits, performs the handshake, and executes the command.

    dash accepts one limit at a time, and counts file sizes in blocks of 512 bytes.
    """
    wanted = {_PROCESSES[shell]: held.processes, **{flag: getattr(held, name) for name, flag in _ULIMITS.items()}}
    if shell == DASH and held.file_kib is not None:
        wanted["-f"] = held.file_kib * 2
    limits = "".join(f"ulimit {flag} {value} && " for flag, value in wanted.items() if value is not None)
    words = f'mapfile -d "" -t words <&{WORDS}; exec {WORDS}<&-; set -- "${{words[@]}}"; ' if long else ""
    return (
        f"ulimit -c 0 && {limits}echo >&{READY} && exec {READY}>&- && read -r _ <&{GO} || exit 125; "
        f'exec {GO}<&-; {words}exec {"--" if shell == BASH else ""} "$@"'
    )


def to_words(argv: Sequence[str], *, terminal: bool) -> Sequence[str]:
    """The words to execute inside for a command."""
    if not terminal:
        return argv
    # bwrap ignores the keyboard signals, and its children inherit that.
    reset = ["/usr/bin/env", f"--default-signal={_SIGNALS}", "--"]
    # env would take a program name with "=" for a variable.
    return [*reset, *(("/bin/bash", "-pc", 'exec -- "$@"', "bash") if "=" in argv[0] else ()), *argv]


class SealedMemoryFile:
    """An anonymous, immutable file for any number of readers."""

    def __init__(self, data: bytes) -> None:
        self._descriptor = create_memory_file(data, os.MFD_ALLOW_SEALING)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, seals)

    def open_reader(self) -> int:
        """A new descriptor with its own position. The caller closes it."""
        return os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close it; open readers are not affected."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def create_memory_file(data: bytes, flags: int = 0) -> int:
    """An anonymous file with this content, positioned at its start. The caller closes the descriptor."""
    descriptor = os.memfd_create("openskills", os.MFD_CLOEXEC | flags)
    try:
        write_all(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
