"""What processes share by number or name: memory, queues, keys, terminals. All are ours and go away again."""

import ctypes
import os
import secrets
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.probes.calls import call, libc

_RMID = 0
_EVERYBODY = 0o666
_SESSION_KEYRING = -3
_JOIN = 1


@dataclass(frozen=True)
class Shared:
    """The names and numbers. A number is -1 where the kernel has no such thing."""

    memory: str
    terminal: str
    shm_id: int
    queue_id: int
    queue_name: str
    key_id: int


@contextmanager
def sharing(secret: bytes) -> Generator[Shared]:
    """Put the secret into each until the end of the block. This process gets a session keyring of its own."""
    name = f"openskill-{secrets.token_hex(8)}"
    with ExitStack() as clean_up:
        memory = Path("/dev/shm", name)
        memory.write_bytes(secret)
        memory.chmod(_EVERYBODY)
        clean_up.callback(memory.unlink)
        yield Shared(
            str(memory),
            _terminal(clean_up),
            _memory_segment(secret, clean_up),
            _queue(secret, clean_up),
            name if _posix_queue(name, secret, clean_up) else "",
            _key(name, secret),
        )


def _terminal(clean_up: ExitStack) -> str:
    ours, theirs = os.openpty()
    clean_up.callback(os.close, ours)
    clean_up.callback(os.close, theirs)
    os.fchmod(theirs, _EVERYBODY)
    return os.ttyname(theirs)


def _memory_segment(secret: bytes, clean_up: ExitStack) -> int:
    try:
        number = libc("shmget", 0, 4096, 0o1000 | _EVERYBODY)
    except OSError:
        return -1
    clean_up.callback(libc, "shmctl", number, _RMID, None)
    address = libc("shmat", number, None, 0)
    ctypes.memmove(address, secret, len(secret))
    libc("shmdt", address)
    return number


def _queue(secret: bytes, clean_up: ExitStack) -> int:
    try:
        number = libc("msgget", 0, 0o1000 | _EVERYBODY)
    except OSError:
        return -1
    clean_up.callback(libc, "msgctl", number, _RMID, None)
    libc("msgsnd", number, (1).to_bytes(8, "little") + secret, len(secret), 0)
    return number


def _posix_queue(name: str, secret: bytes, clean_up: ExitStack) -> bool:
    try:
        opened = call("mq_open", name.encode(), os.O_RDWR | os.O_CREAT | os.O_EXCL, _EVERYBODY, None)
    except OSError:
        return False
    clean_up.callback(os.close, opened)
    clean_up.callback(call, "mq_unlink", name.encode())
    call("mq_timedsend", opened, secret, len(secret), 0, None)
    return True


def _key(name: str, secret: bytes) -> int:
    try:
        call("keyctl", _JOIN, None)
        return call("add_key", b"user", name.encode(), secret, len(secret), _SESSION_KEYRING)
    except OSError:
        return -1
