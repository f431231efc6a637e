"""Conformance checks of isolation, interactive commands and terminals."""

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from openskills.executors.protocol import Process
from openskills.executors.spec import Command, EndReason, Isolation, Limits, OutputStream, TerminalSize
from openskills.testing.checks import (
    ExecutorTrial,
    Promise,
    describe_result,
    expect,
    expect_refusal,
    python_argv,
    read_content,
    read_until,
    shell_argv,
)
from openskills.testing.executor_commands import FAMILY
from openskills.testing.executor_skills import CHANGE, HOME, SKILL, new_skill, stage_skill

_OUTSIDE = """
import json, os, sys
outside = sys.argv[1]
found = []
for name in ('/etc', '/usr', '/usr/bin', '/bin', '/lib', '/boot', '/root', '/home', '/var', '/opt', '/srv', '/sys',
             '/proc/sys/kernel', '/proc/sysrq-trigger', '/dev', '/dev/mem', '/dev/sda', '/run'):
    if os.access(name, os.W_OK):
        found.append(name)
try:
    with open(f'{outside}/new', 'w'):
        found.append('a directory of this machine')
except OSError:
    pass
try:
    with open(f'{outside}/secret') as file:
        found.append(file.read())
except OSError:
    pass
print(json.dumps(found))
"""
_THROUGH_PROC = """
import glob, json, os, stat, sys
outside, secret, pid, ours = sys.argv[1:]
found = []
def look(path):
    try:
        place = os.open(path, os.O_PATH)
    except (OSError, ValueError):
        return
    try:
        status = os.fstat(place)
        # What is read from a pipe or a terminal is taken from whom it was meant for.
        if stat.S_ISREG(status.st_mode) and status.st_size == len(secret):
            with open(f'/proc/self/fd/{place}', 'rb') as file:
                if file.read() == secret.encode():
                    found.append(path)
    except OSError:
        pass
    finally:
        os.close(place)
for process in glob.glob('/proc/[0-9]*'):
    for path in (f'{process}/root{outside}/secret', f'{process}/cwd/secret', *glob.glob(f'{process}/fd/*')):
        look(path)
def is_ours(process):
    try:
        with open(f'{process}/cmdline', 'rb') as file:
            return file.read().hex() == ours
    except OSError:
        return False
seen = [process for process in glob.glob('/proc/[0-9]*') if is_ours(process)]
try:
    os.kill(int(pid), 0)
    signalled = is_ours(f'/proc/{pid}')
except OSError:
    signalled = False
print(json.dumps({'found': found, 'seen': seen, 'signalled': signalled}))
"""
_CONNECT = """
import json, socket, sys
port, name = int(sys.argv[1]), sys.argv[2]
reached = []
def attempt(what, family, kind, address):
    try:
        with socket.socket(family, kind) as connection:
            connection.settimeout(1)
            connection.connect(address)
            connection.send(b'hello')
            reached.append(what)
    except OSError:
        pass
attempt('tcp', socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', port))
attempt('abstract', socket.AF_UNIX, socket.SOCK_STREAM, chr(0) + name)
attempt('path', socket.AF_UNIX, socket.SOCK_STREAM, sys.argv[3])
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.sendto(b'hello', ('127.0.0.1', port))
except OSError:
    pass
print(json.dumps(reached))
"""
_RIGHTS = """
import json, os
with open('/proc/self/status') as file:
    status = dict(line.split(':', 1) for line in file)
rights = {name: int(status[name], 16) for name in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb')}
print(json.dumps({'ids': [*os.getresuid(), *os.getresgid()], 'groups': os.getgroups(),
    'rights': [name for name, value in rights.items() if value], 'no new': status['NoNewPrivs'].strip()}))
"""
_SET_ID = """
import ctypes, json, os, stat
libc = ctypes.CDLL(None)
os.makedirs('work/set-id', exist_ok=True)
os.chdir('work/set-id')
open('plain', 'w').close()
os.umask(0)
here, fchmodat2, openat2 = os.open('.', os.O_RDONLY), 452, 437
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o6755, 0)
attempts = [
    lambda: os.chmod('plain', 0o4755), lambda: os.chmod('plain', 0o2755),
    lambda: os.chmod('plain', 0o6755, dir_fd=here), lambda: os.fchmod(os.open('plain', os.O_RDONLY), 0o4755),
    lambda: os.close(os.open('opened', os.O_CREAT | os.O_WRONLY, 0o4755)),
    lambda: libc.open(b'old', os.O_CREAT | os.O_WRONLY, 0o4755), lambda: libc.creat(b'created', 0o4755),
    lambda: os.link(f'/proc/self/fd/{os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)}', 'unnamed'),
    lambda: os.mkdir('directory', 0o2755), lambda: os.mknod('node', stat.S_IFREG | 0o4755),
    lambda: libc.syscall(fchmodat2, here, b'plain', 0o4755, 0),
    lambda: libc.syscall(openat2, here, b'second', how, 24),
]
for attempt in attempts:
    try:
        attempt()
    except OSError:
        pass
print(json.dumps([name for name in os.listdir() if os.lstat(name).st_mode & 0o6000]))
"""
_OTHER_SKILL = """
import glob, json, os, sys
secret, venv = sys.argv[1].encode(), sys.argv[2]
done = []
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/task/*/environ'):
    try:
        with open(path, 'rb') as file:
            if secret in file.read():
                done.append('reads the variables of its processes')
    except OSError:
        pass
for name in ('planted', 'bin/python', '.uv/x', '../planted', '../scripts/run.py'):
    path = os.path.join(venv, name)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w'):
            done.append('writes to its folder')
    except OSError:
        pass
open(os.path.expanduser('~/.planted'), 'w').close()
print(json.dumps(sorted(set(done))))
"""
# The owner of a file may do this; a host that is not root has no other user for its commands.
_NOT_KNOWN_TO_LANDLOCK = frozenset({"chmod", "utime", "chmod of the directory"})


async def _check_outside(trial: ExecutorTrial) -> None:
    """A command cannot write outside of its workspace, and cannot read files of this process, whatever their modes."""
    outside, secret = _make_open_directory(trial)
    found = await trial.run_json(_OUTSIDE, str(outside))
    expect(secret not in found, "a command reads a file outside of its workspace")
    expect(not (outside / "new").exists(), "a command made a file outside of its workspace")
    expect(not found, f"a command can write to {found}")


async def _check_skill(trial: ExecutorTrial) -> None:
    """A command cannot change or replace a staged skill, unless it is a command of that skill."""
    await stage_skill(trial)
    await trial.workspace.stage(await trial.executor.snapshot("other", new_skill(trial.directory / "elsewhere")))
    before = await read_content(trial.workspace, f"{HOME}/SKILL.md")
    for skill in ("other", None):
        command = Command(python_argv(CHANGE), skill=skill, cwd=HOME)
        done: set[str] = set(json.loads(await trial.read_output(command)))
        if trial.isolation is Isolation.LANDLOCK:
            done -= _NOT_KNOWN_TO_LANDLOCK
        expect(not done, f"a command can do this to a skill: {', '.join(sorted(done))}")
    expect(await read_content(trial.workspace, f"{HOME}/SKILL.md") == before, "SKILL.md was changed")


async def _check_other_skill(trial: ExecutorTrial) -> None:
    """A skill cannot get at the secrets of another one in the same workspace, nor at what that executes."""
    await stage_skill(trial)
    await trial.workspace.stage(await trial.executor.snapshot("other", new_skill(trial.directory / "elsewhere")))
    secret = uuid4().hex
    keeps = """echo "$TOKEN" > ~/kept; echo "$TOKEN" > "$TMPDIR/kept"; exec cat"""
    waits = Command(shell_argv(keeps), skill="other", secrets={"TOKEN": secret}, input_open=True)
    process = await trial.workspace.start(waits)
    await process.write(b"started\n")
    await read_until(process, b"started\n")
    venv = f"{trial.workspace.root}/skills/other/.venv"
    done = json.loads(await trial.read_output(Command(python_argv(_OTHER_SKILL, secret, venv), skill=SKILL)))
    expect(not done, f"a skill can do this to another one: {', '.join(done)}")
    await process.close_input()
    await process.wait()
    search = 'grep -rlF -e "$0" "$WORKSPACE_DIR" "$TMPDIR" ~ 2>/dev/null || true'
    kept = await trial.read_output(Command((*shell_argv(search), secret), skill=SKILL))
    expect(not kept, f"a skill can read what another one keeps in its home or its temporary directory: {kept}")
    look = Command(shell_argv("ls -A ~ | grep -c planted || true"), skill="other", secrets={"TOKEN": secret})
    expect((await trial.read_output(look)).strip() == "0", "a skill can plant files in the home of another one")


async def _check_processes(trial: ExecutorTrial) -> None:
    """A command finds nothing of this process in /proc, and cannot signal it."""
    outside, secret = _make_open_directory(trial)
    ours = Path("/proc/self/cmdline").read_bytes().hex() if Path("/proc/self/cmdline").exists() else "none"
    with (outside / "secret").open("rb"):
        found = await trial.run_json(_THROUGH_PROC, str(outside), secret, str(os.getpid()), ours)
    expect(not found["found"], f"a command reads a file of this process through {found['found']}")
    expect(not found["signalled"], "a command can send signals to this process")
    if trial.isolation is not Isolation.LANDLOCK:
        # Landlock does not hide names; see what it lacks.
        expect(not found["seen"], f"a command sees this process as {found['seen']}")


async def _check_network(trial: ExecutorTrial) -> None:
    """Without allowed hosts, a command reaches no server, neither on loopback nor on a Unix socket."""
    name = f"openskills-check-{uuid4()}"
    path = str(trial.directory / "socket")
    trial.directory.chmod(0o755)
    async with _open_listeners(name, path) as (port, heard):
        reached = await trial.run_json(_CONNECT, str(port), name, path)
        # What was sent has arrived by now, if it ever does: our own word comes after it.
        with socket.create_connection(("127.0.0.1", port)) as own:
            own.sendall(b"own")
        while "own" not in heard:
            await asyncio.sleep(0.01)
    expect(not reached, f"it reached {reached}")
    expect(heard == ["own"], f"{len(heard) - 1} messages of it arrived")


async def _check_rights(trial: ExecutorTrial) -> None:
    """A command is not root, and has and gets no capabilities."""
    found = await trial.run_json(_RIGHTS)
    expect(0 not in found["ids"], f"its user and group ids are {found['ids']}")
    expect(0 not in found["groups"], f"it is in the groups {found['groups']}")
    expect(not found["rights"], f"it has capabilities: {found['rights']}")
    expect(found["no new"] == "1", "it can get new privileges")


async def _check_set_id_bits(trial: ExecutorTrial) -> None:
    """A command cannot leave a program that runs as its owner for everybody who starts it."""
    found = await trial.run_json(_SET_ID)
    expect(not found, f"files with set-user-id or set-group-id bits: {found}")


def _make_open_directory(trial: ExecutorTrial) -> tuple[Path, str]:
    """A directory writable by everyone with a file readable by everyone, and its content."""
    secret = str(uuid4())
    outside = trial.directory / "outside"
    outside.mkdir()
    (outside / "secret").write_text(secret, "ascii")
    for path, mode in ((trial.directory, 0o755), (outside, 0o777), (outside / "secret", 0o644)):
        path.chmod(mode)
    return outside, secret


@asynccontextmanager
async def _open_listeners(name: str, path: str) -> AsyncGenerator[tuple[int, list[str]]]:
    """Listeners of this process: a TCP and UDP port and two Unix sockets, and what they receive."""
    heard: list[str] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.read(100)).decode("ascii", "replace"))
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    datagrams, _ = await loop.create_datagram_endpoint(lambda: _DatagramRecorder(heard), ("127.0.0.1", port))
    abstract = await asyncio.start_unix_server(hear, "\0" + name)
    unix = await asyncio.start_unix_server(hear, path)
    Path(path).chmod(0o666)
    try:
        yield port, heard
    finally:
        datagrams.close()
        for one in (server, abstract, unix):
            one.close()
            await one.wait_closed()


class _DatagramRecorder(asyncio.DatagramProtocol):
    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 - the signature is asyncio's
        self._heard.append(data.decode("ascii", "replace"))


ISOLATION: tuple[Promise, ...] = (
    _check_outside,
    _check_skill,
    _check_other_skill,
    _check_processes,
    _check_network,
    _check_rights,
    _check_set_id_bits,
)


_LATE_READER = """
import hashlib, os, sys, time
while not os.path.exists('work/go'):
    time.sleep(0.01)
data = sys.stdin.buffer.read()
print(len(data), hashlib.sha256(data).hexdigest())
"""
_MAX_TAKEN_BYTES = 64 * 1024 * 1024


async def _check_dialogue(trial: ExecutorTrial) -> None:
    """A command can be talked to while it runs: its output can be read at once, and input arrives."""
    command = "import sys\nfor line in sys.stdin: print('heard', line.strip(), flush=True)"
    process = await trial.workspace.start(Command(python_argv(command), stdin=b"zero\n", input_open=True))
    offset = 0
    for word in ("zero", "one", "two"):
        if word != "zero":
            expect(await process.write(f"{word}\n".encode()) == len(word) + 1, "three letters are not taken at once")
        heard = await read_until(process, f"{word}\n".encode(), offset=offset)
        expect(heard == f"heard {word}\n".encode(), f"it heard {word!r} and said {heard!r}")
        offset += len(heard)
    await process.close_input()
    await process.close_input()
    ended = await process.wait()
    expect(ended.exit_code == 0, f"after the end of its input: {describe_result(ended)}")


async def _check_read_once(trial: ExecutorTrial) -> None:
    """Output is read by byte offset, each byte once, in pieces of any size; and again, as long as it is kept."""
    wanted = b"".join(b"line %d\n" % number for number in range(2000))
    command = "import time\nfor n in range(2000):\n print('line', n, flush=n % 100 == 0)"
    process = await trial.workspace.start(Command(python_argv(command), readable=True))
    pieces, offset, ended = b"", 0, False
    while not ended:
        output = await process.read(offset, wait=1.0, limit=777)
        expect(output.offset == offset, f"asked for {offset}, it gave what is at {output.offset}")
        expect(output.next_offset == offset + len(output.data), f"after {offset} it goes on at {output.next_offset}")
        expect(len(output.data) <= 777, f"asked for 777 bytes, it gave {len(output.data)}")
        pieces, offset, ended = pieces + output.data, output.next_offset, output.ended
    expect(pieces == wanted, f"{len(wanted)} bytes were written, {len(pieces)} were read, or other ones")
    await process.wait()
    again = await process.read(100, limit=50)
    expect((again.data, again.ended) == (wanted[100:150], False), f"after the end, from 100 on, there is {again}")
    last = await process.read(len(wanted) - 3, limit=1000)
    expect((last.data, last.ended) == (wanted[-3:], True), f"at the end there is {last}")
    beyond = await process.read(len(wanted), wait=5.0)
    expect((beyond.data, beyond.ended) == (b"", True), f"after the last byte there is {beyond}")
    await expect_refusal(process.read(-1), "a negative offset is accepted")


async def _check_read_waits(trial: ExecutorTrial) -> None:
    """A read returns what is available, and waits for the first byte only if asked to."""
    process = await trial.workspace.start(Command(("cat",), input_open=True))
    nothing = await process.read(0)
    expect((nothing.data, nothing.ended) == (b"", False), f"nothing was written, and it reads {nothing}")
    nothing = await process.read(0, wait=0.05)
    expect((nothing.data, nothing.ended) == (b"", False), f"nothing was written, and it reads {nothing}")
    reading = asyncio.ensure_future(process.read(0, wait=30.0))
    await asyncio.sleep(0)
    await process.write(b"x")
    expect((await reading).data == b"x", "a read that waits for output does not return the byte that was written")
    ending = asyncio.ensure_future(process.read(1, wait=30.0))
    await process.close_input()
    last = await ending
    if not last.ended:
        last = await process.read(1, wait=30.0)
    expect((last.data, last.ended) == (b"", True), f"a read that waits while the command ends returns {last}")


async def _check_missed_output(trial: ExecutorTrial) -> None:
    """Of long output the last part is kept; the missing bytes before it are counted."""
    command = Command(shell_argv("seq -f %09g 10000"), readable=True, limits=Limits(output_bytes=1000))
    process = await trial.workspace.start(command)
    await process.wait()
    output = await process.read(0)
    expect(output.missed == output.offset > 0, f"from 0 on there is {output.missed} missed before {output.offset}")
    tail = output.data
    while not output.ended:
        output = await process.read(output.next_offset)
        tail += output.data
    whole = b"".join(b"%09d\n" % number for number in range(1, 10_001))
    expect(
        output.next_offset == len(whole), f"{len(whole)} bytes were written; the last offset is {output.next_offset}"
    )
    expect(len(tail) >= 1000 and whole.endswith(tail), f"the {len(tail)} bytes that are kept are not the last ones")


async def _check_each_stream(trial: ExecutorTrial) -> None:
    """If requested, each stream can be read separately."""
    process = await trial.workspace.start(Command(shell_argv("echo out; echo error >&2"), readable=True))
    await process.wait()
    found = [(await process.read(0, stream=stream)).data for stream in (OutputStream.STDOUT, OutputStream.STDERR)]
    expect(found == [b"out\n", b"error\n"], f"stdout and stderr are {found}")
    both = (await process.read(0)).data
    expect(sorted(both.splitlines()) == [b"error", b"out"], f"both together are {both!r}")
    plain = await trial.workspace.start(Command(("true",)))
    await expect_refusal(plain.read(0), "what was not started to be read can be read")


async def _check_back_pressure(trial: ExecutorTrial) -> None:
    """If a command does not read, write() takes only what fits and returns how much; no byte is lost."""
    process = await trial.workspace.start(Command(python_argv(_LATE_READER), input_open=True))
    piece, sent, digest = bytes(range(256)) * 256, 0, hashlib.sha256()
    taken = len(piece)
    while taken == len(piece) and sent < _MAX_TAKEN_BYTES:
        taken = await process.write(piece)
        digest.update(piece[:taken])
        sent += taken
    expect(sent < _MAX_TAKEN_BYTES, f"{sent} bytes were taken by a command that does not read")
    await trial.workspace.write("work/go", b"")
    rest = piece
    while rest:
        taken = await process.write(rest)
        digest.update(rest[:taken])
        sent, rest = sent + taken, rest[taken:]
        await asyncio.sleep(0 if taken else 0.01)
    await process.close_input()
    ended = await process.wait()
    expect(
        ended.stdout.text().split() == [str(sent), digest.hexdigest()],
        f"of {sent} bytes it got: {describe_result(ended)}",
    )


async def _check_closed_input(trial: ExecutorTrial) -> None:
    """Nothing can be written to a closed input, to one that was never open, and to what has ended: InvalidArgument."""
    waiting = Command(shell_argv("cat >/dev/null; while ! [ -e work/go ]; do sleep 0.02; done"), input_open=True)
    process = await trial.workspace.start(waiting)
    await process.close_input()
    await expect_refusal(process.write(b"x"), "something can be written after the input was closed")
    await trial.workspace.write("work/go", b"")
    await process.wait()
    await expect_refusal(process.write(b"x"), "something can be written after the end")
    await process.close_input()
    await trial.workspace.remove("work/go")
    unopened = await trial.workspace.start(Command(waiting.argv))
    await expect_refusal(unopened.write(b"x"), "something can be written to an input that was not left open")
    await expect_refusal(unopened.resize(24, 80), "what has no terminal can be resized")
    await unopened.kill()


INTERACTIVE: tuple[Promise, ...] = (
    _check_dialogue,
    _check_read_once,
    _check_read_waits,
    _check_missed_output,
    _check_each_stream,
    _check_back_pressure,
    _check_closed_input,
)


CTRL_C, CTRL_Z = b"\x03", b"\x1a"
_SIZES = """
import os, signal
print([os.isatty(n) for n in range(3)], os.get_terminal_size(), os.open('/dev/tty', os.O_RDWR) > 2)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print('waiting', flush=True)
signal.sigwait([signal.SIGWINCH])
print('now', os.get_terminal_size().columns, os.get_terminal_size().lines)
"""
_QUERY = """
import os, select, sys, termios
settings = termios.tcgetattr(0)
settings[3] &= ~(termios.ICANON | termios.ECHO)
termios.tcsetattr(0, termios.TCSANOW, settings)
os.write(1, b'\\x1b[6n\\x1b[c\\x1b]11;?\\x07\\x05')
print('answered' if select.select([0], [], [], 0.3)[0] else 'silence')
"""

# One process: a shell that has just forked may not be able to stop.
_JOB = b"""
import os, time
print('running', flush=True)
while not os.path.exists('work/go'):
    time.sleep(0.01)
print('done', flush=True)
"""


class _TerminalShell:
    """A shell on a terminal, and somebody who types."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._offset = 0

    async def type(self, keys: bytes, wanted: bytes) -> bytes:
        """Press keys, and wait until something is written that was not there before."""
        await self.process.write(keys)
        said = await read_until(self.process, wanted, offset=self._offset)
        expect(wanted in said, f"typed {keys!r}, waited for {wanted!r}, and read {said[-300:]!r}")
        self._offset += len(said)
        return said


async def _start_shell(trial: ExecutorTrial, argv: tuple[str, ...] = ("sh", "-i")) -> _TerminalShell:
    return _TerminalShell(await trial.workspace.start(Command(argv, terminal=TerminalSize(), limits=Limits(grace=0.3))))


async def _check_size(trial: ExecutorTrial) -> None:
    """A terminal has the size that it was given, and another one when it is resized, which the command hears."""
    process = await trial.workspace.start(Command(python_argv(_SIZES), terminal=TerminalSize(33, 101)))
    said = await read_until(process, b"waiting")
    expect(b"[True, True, True]" in said, f"not everything is a terminal: {said!r}")
    expect(b"columns=101, lines=33" in said, f"33 rows and 101 columns were asked for: {said!r}")
    expect(b"True\r\n" in said, f"it is not the command's own terminal: {said!r}")
    await expect_refusal(process.resize(0, 80), "a terminal without rows is accepted")
    await process.resize(44, 132)
    ended = await process.wait()
    expect("now 132 44" in ended.stdout.text(), f"after a resize to 44 rows and 132 columns: {describe_result(ended)}")
    await process.resize(24, 80)


async def _check_one_stream(trial: ExecutorTrial) -> None:
    """A terminal has one stream: everything is in stdout, lines end with CR LF, and input is echoed."""
    shell = await _start_shell(trial, ("sh", "-c", "read line; echo error $line >&2; exit 5"))
    await shell.type(b"typed\n", b"error typed\r\n")
    ended = await shell.process.wait()
    expect(ended.exit_code == 5, f"the exit code is {ended.exit_code}")
    expect(ended.stdout.bytes() == b"typed\r\nerror typed\r\n", f"stdout is {ended.stdout.bytes()!r}")
    expect(ended.stderr.total == 0, f"stderr is {ended.stderr.bytes()!r}")


async def _check_interrupt(trial: ExecutorTrial) -> None:
    """Ctrl-C ends the command in the foreground, and the shell goes on."""
    shell = await _start_shell(trial)
    await shell.type(b"sh -c 'echo run''ning; exec sleep 600'\n", b"running")
    await shell.type(CTRL_C + b"echo code''=$?\n", b"code=130")
    await shell.process.kill()


async def _check_job_control(trial: ExecutorTrial) -> None:
    """Ctrl-Z stops the command in the foreground, and it can be continued in the background."""
    await trial.workspace.write("work/job.py", _JOB)
    shell = await _start_shell(trial)
    await shell.type(b"python3 -I -S work/job.py\n", b"running")
    await shell.type(CTRL_Z, b"topped")
    await shell.type(b"bg; echo still''-here\n", b"still-here")
    await shell.type(b": > work/go; wait; echo wai''ted\n", b"waited")
    await shell.process.kill()
    said = (await shell.process.wait()).stdout.text()
    expect("done" in said, f"the job did not go on: {said[-300:]!r}")


async def _check_end_of_input(trial: ExecutorTrial) -> None:
    """close_input() is Ctrl-D."""
    shell = await _start_shell(trial, ("sh", "-c", "cat; echo e''nd"))
    await shell.type(b"line\n", b"line\r\nline\r\n")
    await shell.process.close_input()
    ended = await shell.process.wait()
    expect((ended.exit_code, ended.stdout.text()[-5:]) == (0, "end\r\n"), f"after Ctrl-D: {describe_result(ended)}")


async def _check_hangup(trial: ExecutorTrial) -> None:
    """kill() ends a shell on a terminal with its jobs, those in the background and those that ignore signals, too."""
    await trial.workspace.write("work/family.py", FAMILY.encode())
    shell = await _start_shell(trial)
    await shell.type(b"python3 -I -S work/family.py 'deaf children' work/lock &\n", b"ready")
    await shell.process.kill()
    ended = await shell.process.wait()
    expect(ended.ending is EndReason.KILLED, f"after a kill: {describe_result(ended)}")
    expect(not await trial.is_held("work/lock"), "its jobs are still there")


async def _check_queries(trial: ExecutorTrial) -> None:
    """Nobody answers when a command asks the terminal what it is or where its cursor stands."""
    process = await trial.workspace.start(Command(python_argv(_QUERY), terminal=TerminalSize()))
    ended = await process.wait()
    expect("silence" in ended.stdout.text(), f"it was answered: {describe_result(ended)}")


TERMINAL: tuple[Promise, ...] = (
    _check_size,
    _check_one_stream,
    _check_interrupt,
    _check_job_control,
    _check_end_of_input,
    _check_hangup,
    _check_queries,
)
