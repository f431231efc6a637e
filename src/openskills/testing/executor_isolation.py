"""Promises of executors that isolate: what a command cannot see, change or reach, whoever runs this process."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from openskills.executors.spec import Command, Isolation
from openskills.testing.executor_skills import CHANGE, HOME
from openskills.testing.executor_staging import SKILL, staged
from openskills.testing.promises import expect
from openskills.testing.trial import Promise, Trial, content, python

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
# The owner of a file may do this; a host that is not root has no other user for its commands.
_NOT_KNOWN_TO_LANDLOCK = frozenset({"chmod", "utime", "chmod of the directory"})


async def _outside(trial: Trial) -> None:
    """A command cannot write outside of its workspace, and cannot read files of this process, whatever their modes."""
    outside, secret = _opened_up(trial)
    found = await trial.answer(_OUTSIDE, str(outside))
    expect(secret not in found, "a command reads a file outside of its workspace")
    expect(not (outside / "new").exists(), "a command made a file outside of its workspace")
    expect(not found, f"a command can write to {found}")


async def _skill(trial: Trial) -> None:
    """A command cannot change a staged skill, nor put another one in its place."""
    await staged(trial)
    before = await content(trial.workspace, f"{HOME}/SKILL.md")
    for skill in (SKILL, None):
        command = Command(python(CHANGE), skill=skill, cwd=HOME)
        done: set[str] = set(json.loads(await trial.said(command)))
        if trial.isolation is Isolation.LANDLOCK:
            done -= _NOT_KNOWN_TO_LANDLOCK
        expect(not done, f"a command can do this to a skill: {', '.join(sorted(done))}")
    expect(await content(trial.workspace, f"{HOME}/SKILL.md") == before, "SKILL.md was changed")


async def _processes(trial: Trial) -> None:
    """A command finds nothing of this process in /proc, and cannot signal it."""
    outside, secret = _opened_up(trial)
    ours = Path("/proc/self/cmdline").read_bytes().hex() if Path("/proc/self/cmdline").exists() else "none"
    with (outside / "secret").open("rb"):
        found = await trial.answer(_THROUGH_PROC, str(outside), secret, str(os.getpid()), ours)
    expect(not found["found"], f"a command reads a file of this process through {found['found']}")
    expect(not found["signalled"], "a command can send signals to this process")
    if trial.isolation is not Isolation.LANDLOCK:
        # Landlock does not hide names; see what it lacks.
        expect(not found["seen"], f"a command sees this process as {found['seen']}")


async def _network(trial: Trial) -> None:
    """Without hosts that it may reach, a command reaches nobody: not a server on loopback, not a Unix socket."""
    name = f"openskills-check-{uuid4()}"
    path = str(trial.directory / "socket")
    trial.directory.chmod(0o755)
    async with _listening(name, path) as (port, heard):
        reached = await trial.answer(_CONNECT, str(port), name, path)
        # What was sent has arrived by now, if it ever does: our own word comes after it.
        with socket.create_connection(("127.0.0.1", port)) as own:
            own.sendall(b"own")
        while "own" not in heard:
            await asyncio.sleep(0.01)
    expect(not reached, f"it reached {reached}")
    expect(heard == ["own"], f"{len(heard) - 1} messages of it arrived")


async def _rights(trial: Trial) -> None:
    """A command is not root, has no capability and cannot get any."""
    found = await trial.answer(_RIGHTS)
    expect(0 not in found["ids"], f"its user and group ids are {found['ids']}")
    expect(0 not in found["groups"], f"it is in the groups {found['groups']}")
    expect(not found["rights"], f"it has capabilities: {found['rights']}")
    expect(found["no new"] == "1", "it can get new privileges")


def _opened_up(trial: Trial) -> tuple[Path, str]:
    """A directory that everybody may write to, with a file that everybody may read, and what is in it."""
    secret = str(uuid4())
    outside = trial.directory / "outside"
    outside.mkdir()
    (outside / "secret").write_text(secret, "ascii")
    for path, mode in ((trial.directory, 0o755), (outside, 0o777), (outside / "secret", 0o644)):
        path.chmod(mode)
    return outside, secret


@asynccontextmanager
async def _listening(name: str, path: str) -> AsyncGenerator[tuple[int, list[str]]]:
    """Listeners of this process: a port for streams and datagrams, and two Unix sockets; and what they hear."""
    heard: list[str] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.read(100)).decode("ascii", "replace"))
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    datagrams, _ = await loop.create_datagram_endpoint(lambda: _Hearing(heard), ("127.0.0.1", port))
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


class _Hearing(asyncio.DatagramProtocol):
    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 - the signature is asyncio's
        self._heard.append(data.decode("ascii", "replace"))


ISOLATION: tuple[Promise, ...] = (_outside, _skill, _processes, _network, _rights)
