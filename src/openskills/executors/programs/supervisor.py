"""Supervisor: a program that starts commands for one host process, and kills them when that process is gone.

It runs standalone (`python -I -S supervisor.py FD`, also in containers), so it imports nothing of ours. It has one
thread, because PDEATHSIG depends on threads, and adopts orphans, so that a command that forks twice is still its child.
Messages are JSON with a length prefix, in both directions; descriptors are sent with the length.

    start   id, argv, env, cwd (a path, or the index of a descriptor), umask, user (root only)
            cgroup      index of a descriptor: the directory of the cgroup in which the command begins, if possible
            fds         {number in the command: index of a descriptor}
            terminal    number of a descriptor of the command that becomes its controlling terminal
            ignored     signals that the command starts with as ignored
            handshake   [ready, go]: numbers of two pipes in the command. It reports on the first that it is set up,
                        and waits on the second, which stays silent if the host is gone, or until `release` with `hold`
            contained   the command kills its own descendants (bwrap); otherwise they are killed when it ends
            joins       the command stays in this program's session
    signal  id, number, deep: send it to the command inside its container, not to the container
    release id: let a held command begin
    readers id, files [[device, inode] of its stdin, stdout and stderr]: which of its threads wait for input?
    limit   limits, [[resource, soft, hard]]: of this program, and so of all commands that it starts from now on
    fork    with a descriptor: serve that connection from a new process

    serving pid     started id, pid, cgroup (whether it begins there)     ready id     failed id, errno, what
    readers id, readers {thread: how often it was blocked}: empty if unknown, or if others of its threads may print
    exited  id, status, was_ready, cpu_ms, memory_kib, clean (false: some of its processes could not be killed)
"""

import errno
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Any, NoReturn

    Message = dict[str, Any]


_HEADER = struct.Struct("!I")
_MAX_FDS, _MAX_MESSAGE = 64, 64 * 1024 * 1024
_PR_SET_CHILD_SUBREAPER = 36
_KILL_TIMEOUT = _SEAL_TIMEOUT = 1.0
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
# Python ignores the first two, this program the others; a command starts with the defaults.
_DEFAULT_SIGNALS = frozenset((signal.SIGPIPE, signal.SIGXFSZ, *_IGNORED))
# Numbers of system calls: read and readv, select and pselect6, those that wait for another process or thread.
_READS, _SELECTS, _WAITS = (
    ((63, 65), (72,), (95, 98, 133, 260))
    if os.uname().machine == "aarch64"
    else ((0, 19), (23, 270), (34, 61, 130, 202, 247))
)
_CLONE3, _CLONE_INTO_CGROUP = 435, 1 << 33
_MAX_INSPECTED = 100
_TTY = os.makedev(5, 0)


_WAIT_SHARE, _MAX_WAIT, _WAIT_STEP = 0.02, 0.01, 0.0005


class SupervisedCommand:
    """A started command, and our ends of the pipes of its handshake."""

    def __init__(self, pid: int, contained: bool, held: bool, ready: int, go: int) -> None:
        self.pid, self.contained, self.is_held = pid, contained, held
        self.ready, self.go = ready, go
        self.was_ready = ready < 0
        self.started_at = time.monotonic()

    def close(self) -> None:
        _close((self.ready, self.go))
        self.ready = self.go = -1


class SupervisorServer:
    """Serves one connection. When it ends, so does everything that was started over it."""

    def __init__(self, connection: socket.socket, wakeups: int) -> None:
        self._connection = connection
        self._wakeups = wakeups
        self._commands: dict[int, SupervisedCommand] = {}
        self._forks: set[int] = set()
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(wakeups, select.POLLIN)

    def serve(self) -> None:
        """Send our pid, and serve until the host disconnects."""
        try:
            self._send(event="serving", id=0, pid=os.getpid())
            while True:
                for descriptor, _ in self._poll.poll():
                    if descriptor == self._wakeups:
                        os.read(self._wakeups, 4096)
                    elif descriptor == self._connection.fileno():
                        self._handle_message(*self._receive())
                    else:
                        self._on_ready(descriptor)
                self._reap()
        except (EOFError, ConnectionError, ValueError):
            return
        finally:
            for command in self._commands.values():
                _ignore_missing(os.killpg, command.pid, signal.SIGKILL)
            _kill_and_reap_children(())

    def _receive(self) -> "tuple[Message, list[int]]":
        header, descriptors, _, _ = socket.recv_fds(self._connection, _HEADER.size, _MAX_FDS)
        # Descriptors received over a socket are inheritable by default.
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        try:
            (length,) = _HEADER.unpack(header + self._receive_exactly(_HEADER.size - len(header)))
            return json.loads(self._receive_exactly(min(length, _MAX_MESSAGE))), descriptors
        except BaseException:
            _close(descriptors)
            raise

    def _receive_exactly(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self._connection.recv(length - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    def _send(self, **message: object) -> None:
        data = json.dumps(message).encode()
        self._connection.sendall(_HEADER.pack(len(data)) + data)

    def _handle_message(self, message: "Message", descriptors: "list[int]") -> None:
        try:
            action = message["op"]
            if action == "start":
                self._start(message, descriptors)
            elif action == "signal":
                self._forward_signal(message)
            elif action == "release":
                self._release(message["id"])
            elif action == "readers":
                command = self._commands.get(message["id"])
                found = _find_readers(command.pid, command.contained, message["files"]) if command else {}
                self._send(event="readers", id=message["id"], readers=found)
            elif action == "limit":
                for kind, soft, hard in message["limits"]:
                    _, current = resource.getrlimit(kind)
                    unlimited = current == resource.RLIM_INFINITY
                    resource.setrlimit(kind, (soft, hard) if unlimited else (min(soft, current), min(hard, current)))
            elif action == "fork":
                self._fork(descriptors)
        finally:
            _close(descriptors)

    def _start(self, message: "Message", descriptors: "list[int]") -> None:
        identity = message["id"]
        fds: dict[int, int] = {int(number): descriptors[index] for number, index in message["fds"].items()}
        theirs = ours = (-1, -1)
        if message.get("handshake"):
            (ready, their_ready), (their_go, go) = os.pipe(), os.pipe()
            theirs, ours = (their_ready, their_go), (ready, go)
            fds.update(zip(message["handshake"], theirs))  # noqa: B905 - must run on Python 3.9
        try:
            pid, in_cgroup = _spawn(message, fds, descriptors)
        except (OSError, ValueError) as error:
            _close((*theirs, *ours))
            number = getattr(error, "errno", None) or errno.EINVAL
            self._send(event="failed", id=identity, errno=number, what=getattr(error, "strerror", None) or str(error))
            return
        _close(theirs)
        command = self._commands[identity] = SupervisedCommand(
            pid, message.get("contained", False), message.get("hold", False), *ours
        )
        if command.ready >= 0:
            self._poll.register(command.ready, select.POLLIN)
        self._send(event="started", id=identity, pid=pid, cgroup=in_cgroup)

    def _on_ready(self, descriptor: int) -> None:
        """The command is set up and may begin, because the host is still connected."""
        self._poll.unregister(descriptor)
        for identity, command in self._commands.items():
            if command.ready == descriptor:
                command.was_ready = bool(os.read(descriptor, 1))
                os.close(descriptor)
                command.ready = -1
                if not command.is_held:
                    self._release(identity)
                if command.was_ready:
                    self._send(event="ready", id=identity)
                return

    def _release(self, identity: int) -> None:
        command = self._commands.get(identity)
        if command is not None and command.go >= 0:
            # A command that is not sealed never begins: its pipe is closed.
            command.was_ready = command.was_ready and (not command.contained or _is_sealed(command.pid))
            if command.was_ready:
                _ignore_missing(os.write, command.go, b"\n")
            command.close()

    def _forward_signal(self, message: "Message") -> None:
        command = self._commands.get(message["id"])
        if command is None:
            return
        number = message["number"]
        below = _list_descendants(command.pid) if command.contained else []
        if below and (number == signal.SIGKILL or message.get("deep")):
            # The first process below bwrap may be starved and fail to kill the others, so kill all of them.
            for pid in below if number == signal.SIGKILL else _list_children(below[0]):
                _ignore_missing(os.kill, pid, number)
        else:
            _ignore_missing(os.killpg, command.pid, number)
            _ignore_missing(os.kill, command.pid, number)

    def _fork(self, descriptors: "list[int]") -> None:
        try:
            pid = os.fork()
        except OSError:
            return  # The other side sees that its connection is closed.
        if pid:
            self._forks.add(pid)
            return
        # The new process starts without commands; these belong to the old one.
        self._connection.close()
        for command in self._commands.values():
            command.close()
        serve(descriptors[0])

    def _reap(self) -> None:
        ended: dict[int, tuple[int, dict[str, int]]] = {}
        forks = set(self._forks)
        while (pid := (found := _wait_child())[0]) > 0:
            self._forks.discard(pid)
            ended[pid] = found[1:]
        alone = pid < 0
        over = [(identity, command) for identity, command in self._commands.items() if command.pid in ended]
        others = ended.keys() - forks - {command.pid for _, command in over}
        for identity, command in over:
            status, used = ended[command.pid]
            if command.contained:
                # bwrap does not wait for the first process of its sandbox, so its own numbers are useless. We inherit
                # that process.
                parts = [ended[pid][1] for pid in others] if len(over) == 1 else []
                used = _add_up(parts or (self._wait_for_sandbox(command) if len(over) == 1 and pid == 0 else []))
            self._on_exit(identity, command, status, used, alone=alone)
        # Unknown children are first processes of ending sandboxes, processes that a killed bwrap had not yet tied to
        # itself, or leftovers of a killed fork of ours.
        if ended and not alone and all(command.contained for command in self._commands.values()):
            for pid in [one for orphan in _kill_children(self._own_pids) for one in _list_descendants(orphan)]:
                _ignore_missing(os.kill, pid, signal.SIGKILL)

    def _wait_for_sandbox(self, command: SupervisedCommand) -> "list[dict[str, int]]":
        """What the first process of a sandbox used, if it ends soon: within 2 % of the time that the command took."""
        now = time.monotonic()
        deadline = now + min((now - command.started_at) * _WAIT_SHARE, _MAX_WAIT)
        while time.monotonic() < deadline:
            # Only looks: the end of another command is left to the next call.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                time.sleep(_WAIT_STEP)
            elif found.si_pid in self._own_pids - {command.pid}:
                break
            else:
                return [_wait_child(found.si_pid)[2]]
        return []

    @property
    def _own_pids(self) -> "set[int]":
        return {*self._forks, *(command.pid for command in self._commands.values())}

    def _on_exit(
        self, identity: int, command: SupervisedCommand, status: int, used: "dict[str, int]", *, alone: bool
    ) -> None:
        del self._commands[identity]
        if command.ready >= 0:
            self._poll.unregister(command.ready)
        command.close()
        clean = True
        # Without any child, orphans cannot exist.
        if not command.contained and not alone:
            _ignore_missing(os.killpg, command.pid, signal.SIGKILL)
            clean = _kill_and_reap_children(self._own_pids)
        code = os.waitstatus_to_exitcode(status)
        self._send(event="exited", id=identity, status=code, was_ready=command.was_ready, clean=clean, **used)


def _spawn(message: "Message", fds: "dict[int, int]", descriptors: "list[int]") -> "tuple[int, bool]":
    """Start the command; returns its pid, and whether it begins in its cgroup."""
    cwd = message["cwd"]
    os.chdir(descriptors[cwd] if isinstance(cwd, int) else cwd)
    os.umask(message.get("umask", 0o077))
    argv, env, terminal = message["argv"], message["env"], message.get("terminal")
    cgroup: int | None = message.get("cgroup")
    # Target numbers may be in use, so duplicate to free numbers first.
    spare = max([*fds.values(), *fds, 2]) + 1
    actions: list[Any] = [(os.POSIX_SPAWN_DUP2, source, spare + place) for place, source in enumerate(fds.values())]
    actions += [(os.POSIX_SPAWN_DUP2, spare + place, number) for place, number in enumerate(fds)]
    actions += [(os.POSIX_SPAWN_CLOSE, spare + place) for place in range(len(fds))]
    if terminal is not None:
        # The first terminal that a session leader opens becomes its controlling terminal.
        actions.append((os.POSIX_SPAWN_OPEN, spare, f"/dev/fd/{terminal}", os.O_RDWR, 0))
        actions.append((os.POSIX_SPAWN_CLOSE, spare))
    defaults, program = _DEFAULT_SIGNALS.difference(message.get("ignored", ())), _find_program(argv[0], env)
    new, user = not message.get("joins"), message.get("user")
    if cgroup is not None:

        def begin() -> None:
            """What posix_spawn does before the program is executed."""
            if new:
                os.setsid()
            if user is not None:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            for number in defaults:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            for kind, *words in actions:
                if kind == os.POSIX_SPAWN_DUP2:
                    os.dup2(*words)
                elif kind == os.POSIX_SPAWN_CLOSE:
                    os.close(*words)
                else:
                    os.dup2(os.open(*words[1:]), words[0])
            os.execve(program, argv, env)  # noqa: S606 - the given program

        pid = _fork_into(descriptors[cgroup], begin, spare + len(fds) + 1)
        if pid > 0:
            return pid, True
    with _switch_user(user):
        # It does not copy this process.
        pid = os.posix_spawn(program, argv, env, file_actions=actions, setsid=new, setsigdef=defaults, setsigmask=())
    return pid, False


def _fork_into(cgroup: int, begin: "Callable[[], None]", free: int) -> int:
    """Fork into a cgroup and `begin` there, without joining it, which is slow; returns 0 if the kernel refuses.

    Raises the error of `begin`, which does not use the descriptor `free`.
    """
    import ctypes

    reading, writing = os.pipe()
    # Flags, three that are not used, the signal at exit, five that are not used, and the cgroup.
    arguments = struct.pack("11Q", _CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, cgroup)
    # PyDLL keeps the lock of the interpreter, which the child could not take again.
    pid: int = ctypes.PyDLL(None).syscall(_CLONE3, arguments, len(arguments))
    if pid == 0:
        number = errno.EINVAL
        try:
            writing = os.dup2(writing, free, False)
            begin()
        except OSError as error:
            number = error.errno or number
        finally:
            os.write(writing, b"%d" % number)
            os._exit(127)
    os.close(writing)
    # Ends when the program is executed.
    failure = os.read(reading, 16)
    os.close(reading)
    if pid > 0 and failure:
        os.waitpid(pid, 0)
        raise OSError(int(failure), os.strerror(int(failure)))
    return max(pid, 0)


def _add_up(parts: "list[dict[str, int]]") -> "dict[str, int]":
    """What several processes used together; zeros if that is not known."""
    memory = max((part["memory_kib"] for part in parts), default=0)
    return {"cpu_ms": sum(part["cpu_ms"] for part in parts), "memory_kib": memory}


def _wait_child(which: int = -1) -> "tuple[int, int, dict[str, int]]":
    """A child that has ended, its status and what it used; 0 if none has, -1 without children."""
    try:
        pid, status, usage = os.wait4(which, os.WNOHANG)
    except ChildProcessError:
        return -1, 0, {}
    cpu_ms = round((usage.ru_utime + usage.ru_stime) * 1000)
    return pid, status, {"cpu_ms": cpu_ms, "memory_kib": usage.ru_maxrss}


@contextmanager
def _switch_user(user: "int | None") -> "Generator[None]":
    """Run as another user for a moment, as root; faster than a program in between."""
    if user is None:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(user, user, 0)
    os.setresuid(user, user, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


def _find_program(name: str, env: "dict[str, str]") -> str:
    if "/" in name:
        return name
    for path in (f"{directory}/{name}" for directory in env.get("PATH", os.defpath).split(":")):
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise FileNotFoundError(2, "program not found")


def _ignore_missing(action: "Callable[..., object]", *arguments: object) -> None:
    """Do something to a process that may be gone."""
    with suppress(ProcessLookupError, PermissionError, BrokenPipeError, ChildProcessError):
        action(*arguments)


def _list_children(pid: int) -> "list[int]":
    """The children of all its threads; none if it is gone."""
    with suppress(OSError):
        tasks = os.listdir(f"/proc/{pid}/task")
        return [int(word) for task in tasks for word in _read_file(f"/proc/{pid}/task/{task}/children").split()]
    return []


def _list_descendants(pid: int) -> "list[int]":
    """All processes below this one, the nearest first."""
    found = [pid]
    for parent in found:
        found += _list_children(parent)
    return found[1:]


def _find_readers(root: int, contained: bool, files: "list[list[int]]") -> "dict[str, int]":
    """The threads that are blocked in a read of the command's input, with the number of times they were blocked.

    Only processes with one of the command's `files` count. Empty if one of them may still print, or is not accessible.
    """
    pids = [*([] if contained else [root]), *_list_descendants(root)]
    readers: dict[str, int] = {}
    try:
        for pid in pids[:_MAX_INSPECTED]:
            if any(_identify_file(f"/proc/{pid}/fd/{number}")[:2] in files for number in range(3)):
                for task in os.listdir(f"/proc/{pid}/task"):
                    reads = _is_reader(pid, f"/proc/{pid}/task/{task}", files[0])
                    if reads is None:
                        return {}
                    if reads:
                        status = _read_file(f"/proc/{pid}/task/{task}/status")
                        readers[task] = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return {}  # One of them has just ended.
    return readers


def _is_reader(pid: int, task: str, stdin: "list[int]") -> "bool | None":
    """Whether a thread is blocked in a read of the input; None if it runs or waits for time, files or the network."""
    number, *words = _read_file(f"{task}/syscall").split() or [""]
    call = int(number) if number.isdigit() else -1  # "running"
    if call in _WAITS:
        return False
    if call not in (*_READS, *_SELECTS):
        return None
    # The first argument of select is the highest descriptor plus one.
    device, inode, kind = _identify_file(f"/proc/{pid}/fd/{int(words[0], 16) - (call in _SELECTS)}")
    if [device, inode] == stdin or kind == _TTY:
        return True
    return False if kind is None else None


def _identify_file(path: str) -> "list[int | None]":
    """Device, inode and kind of a file: the number of a special file, None for a pipe."""
    try:
        found = os.stat(path)
    except OSError:
        return [0, 0, 0]
    return [found.st_dev, found.st_ino, None if stat.S_ISFIFO(found.st_mode) else found.st_rdev]


def _read_file(path: str) -> str:
    """A file of /proc; empty if the process is gone. Unbuffered bytes are much faster."""
    with suppress(OSError), open(path, "rb", buffering=0) as file:
        return file.read().decode("utf-8", "replace")
    return ""


def _is_sealed(pid: int) -> bool:
    """Wait for the filter of a sandbox's first process, which bwrap sets right after tying it to its parent."""
    deadline = time.monotonic() + _SEAL_TIMEOUT
    for first in _list_children(pid):
        while "Seccomp:\t2" not in _read_file(f"/proc/{first}/status"):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)
    return True


def _kill_children(spared: "Iterable[int]") -> "list[int]":
    found = [pid for pid in _list_children(os.getpid()) if pid not in spared]
    for pid in found:
        _ignore_missing(os.kill, pid, signal.SIGKILL)
    return found


def _kill_and_reap_children(spared: "Iterable[int]") -> bool:
    """Kill and reap all children except `spared`, including adopted ones; false if some remain."""
    deadline = time.monotonic() + _KILL_TIMEOUT
    while found := _kill_children(spared):
        for pid in found:
            _ignore_missing(os.waitpid, pid, os.WNOHANG)
        if time.monotonic() > deadline:
            return False
    return True


def _close(descriptors: "Iterable[int]") -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


def _on_child_exit(*_: object) -> None:
    """The signal only has to wake up the loop."""


def serve(descriptor: int, kind: "type[SupervisorServer]" = SupervisorServer) -> "NoReturn":
    """Be a supervisor for this connection until the other side closes it; then exit."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _on_child_exit)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    try:
        os.set_inheritable(descriptor, False)
        kind(socket.socket(fileno=descriptor), reading).serve()
    finally:
        os._exit(0)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
