"""The lines of a journal: each says that a request began or how it ended, and has a checksum. Pure.

    checksum  B  request  fingerprint  time
    checksum  E  request  fingerprint  result as JSON

A line that a crash cut short is the last one, and was promised to nobody. One with a wrong checksum counts as not
there.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

BEGAN, ENDED = b"B", b"E"
_PARTS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One whole line: where it is in the file, and what it is about. `rest` is the time or the result."""

    offset: int
    length: int
    kind: bytes
    request: str
    fingerprint: str
    rest: bytes


def began(request: str, fingerprint: str, time: float) -> bytes:
    """The line for a request that begins."""
    return _line(BEGAN, request, fingerprint, b"%.3f" % time)


def ended(request: str, fingerprint: str, result: Mapping[str, object]) -> bytes:
    """The line for a request that has ended. Raises `TypeError` or `ValueError` for what JSON has no form of."""
    # JSON escapes line ends and, this way, everything beyond ASCII.
    return _line(ENDED, request, fingerprint, json.dumps(result, allow_nan=False, separators=(",", ":")).encode())


def lines_in(data: bytes) -> Iterator[Line]:
    """Every whole line, in order."""
    offset = 0
    while (end := data.find(b"\n", offset)) >= 0:
        found = line_in(data[offset:end], offset)
        if found:
            yield found
        offset = end + 1


def line_in(text: bytes, offset: int = 0) -> Line | None:
    """What a line without its end says; None when it is not whole."""
    body = text[9:]
    parts = body.split(b" ", 3)
    if text[:9] != _checksum(body) or len(parts) != _PARTS:
        return None
    kind, request, fingerprint, rest = parts
    return Line(offset, len(text), kind, request.decode("ascii"), fingerprint.decode("ascii"), rest)


def _line(kind: bytes, request: str, fingerprint: str, rest: bytes) -> bytes:
    body = b" ".join((kind, request.encode("ascii"), fingerprint.encode("ascii"), rest))
    return _checksum(body) + body + b"\n"


def _checksum(body: bytes) -> bytes:
    return b"%08x " % zlib.crc32(body)
