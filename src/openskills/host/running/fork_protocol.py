"""What the host and the processes that serve the calls of a skill say to each other. Pure.

The other side is `executors/inside/hostzygote.py`, which describes the messages.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

_CALL = struct.Struct("!IBI")
_FRAME = struct.Struct("!cI")
_END = struct.Struct("!iQQQQB")
_MOST_NAMES = 4096
_STALE, _CUT, _UNCLEAN = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Ended:
    """How the process of a call ended, and all that it wrote, up to what may be kept.

    `returncode` is negative for a signal. `stale`: it was not begun, because what it was to execute has changed.
    `imported` are modules that it has imported and that were not there, as it says itself.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int
    cut: bool
    stale: bool
    clean: bool
    cpu_ms: float
    memory_kib: int
    imported: tuple[str, ...] = ()


class Late(TimeoutError):
    """A call did not end in time; what it had written until then."""

    def __init__(self, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__()
        self.stdout = stdout
        self.stderr = stderr


def encoded_call(stdin: bytes, variables: Mapping[str, str], *, live: bool) -> bytes:
    """A call as the process that serves it reads it. Raises `ValueError` for a variable that cannot be one."""
    lines = b"".join(_variable(name, value) for name, value in variables.items())
    return b"".join((_CALL.pack(_CALL.size + len(lines) + len(stdin), live, len(lines)), lines, stdin))


def _variable(name: str, value: str) -> bytes:
    if "\0" in name or "\0" in value or "=" in name or not name:
        raise ValueError(name)
    return b"%b=%b\0" % (name.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"))


class Frames:
    """Takes in an answer as it arrives, in pieces of any size."""

    def __init__(self) -> None:
        self._unread = b""
        self._parts: dict[bytes, list[bytes]] = {b"o": [], b"e": []}
        self.fresh: list[tuple[str, bytes]] = []

    def feed(self, data: bytes) -> Ended | None:
        """Take in the next piece; returns the end when that was in it. What came before it is added to `fresh`.

        Raises `ValueError` for what is no answer.
        """
        data = self._unread + data if self._unread else data
        place, length = 0, len(data)
        while place + _FRAME.size <= length:
            kind, size = _FRAME.unpack_from(data, place)
            start, end = place + _FRAME.size, place + _FRAME.size + size
            if kind == b"x":
                if not _END.size <= size <= _END.size + _MOST_NAMES:
                    raise ValueError(kind)
                if end > length:
                    break
                return self._ended(data[start:end])
            if kind not in self._parts:
                raise ValueError(kind)
            if end > length:
                break
            part = data[start:end]
            self._parts[kind].append(part)
            self.fresh.append(("stdout" if kind == b"o" else "stderr", part))
            place = end
        self._unread = data[place:]
        return None

    def late(self) -> Late:
        """What has come, of an answer that has no end."""
        return Late(b"".join(self._parts[b"o"]), b"".join(self._parts[b"e"]))

    def _ended(self, data: bytes) -> Ended:
        status, spent, memory, stdout, stderr, flags = _END.unpack_from(data)
        names = data[_END.size :].decode("ascii", "replace")
        return Ended(
            returncode=-(status & 0x7F) if status & 0x7F else (status >> 8) & 0xFF,
            stdout=b"".join(self._parts[b"o"]),
            stderr=b"".join(self._parts[b"e"]),
            stdout_bytes=stdout,
            stderr_bytes=stderr,
            cut=bool(flags & _CUT),
            stale=bool(flags & _STALE),
            clean=not flags & _UNCLEAN,
            cpu_ms=spent / 1000,
            memory_kib=memory,
            imported=tuple(names.split(",")) if names else (),
        )
