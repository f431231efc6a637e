"""The members of a tar stream.

The standard library's reader is not used: for a damaged header it quietly ends the archive, and up to Python 3.11.9 a
header can keep it busy for hours (CVE-2024-6232, CVE-2025-8194). Links and devices are named, never resolved.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from openskills.catalog.fetch.members import CHUNK, Kind, Member, Meter, Readable, corrupt
from openskills.errors import InvalidSkill

BLOCK = 512
_MAX_HEADER = 65536
_ZERO = bytes(BLOCK)
_KINDS = {
    b"0": Kind.FILE,
    b"\0": Kind.FILE,
    b"7": Kind.FILE,
    b"1": Kind.HARD_LINK,
    b"2": Kind.SYMBOLIC_LINK,
    b"3": Kind.DEVICE,
    b"4": Kind.DEVICE,
    b"5": Kind.DIRECTORY,
    b"6": Kind.FIFO,
    b"S": Kind.SPARSE,
}


def tar_members(stream: Readable, where: str, meter: Meter) -> Iterator[Member]:
    """The members in order; raises `InvalidSkill` for a stream that is damaged or ends too early."""
    reader = _Reader(stream, where, meter)
    extension = _Extension()
    while (block := reader.exactly(BLOCK)) != _ZERO:
        header = _header(block, where)
        if header.type in (b"x", b"X"):
            extension.add_pax(reader.small(header.size), where)
        elif header.type == b"L":
            extension.path = reader.small(header.size).rstrip(b"\0")
        elif header.type in (b"g", b"K"):
            reader.skip(header.size)
        else:
            member, rest = _member(header, extension, reader)
            extension = _Extension()
            yield member
            for _ in rest:
                pass
    reader.drain()


@dataclass(frozen=True, slots=True)
class _Header:
    name: bytes
    mode: int
    size: int
    type: bytes


class _Extension:
    """What the headers before a member say about it."""

    def __init__(self) -> None:
        self.path: bytes | None = None
        self.size: int | None = None
        self.sparse = False

    def add_pax(self, data: bytes, where: str) -> None:
        for key, value in _pax_records(data, where):
            if key == b"path":
                self.path = value
            elif key == b"size":
                self.size = _decimal(value, where)
            elif key.startswith(b"GNU.sparse."):
                self.sparse = True


class _Reader:
    def __init__(self, stream: Readable, where: str, meter: Meter) -> None:
        self._stream = stream
        self._where = where
        self.meter = meter

    def exactly(self, size: int) -> bytes:
        data = self._some(size)
        if len(data) != size:
            raise corrupt(self._where, "it ends in the middle")
        return data

    def small(self, size: int) -> bytes:
        if size > _MAX_HEADER:
            raise InvalidSkill(f"{self._where}: a header of {size:,} bytes; at most {_MAX_HEADER:,} are read")
        data = self.exactly(size)
        self.exactly(-size % BLOCK)
        return data

    def chunks(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            data = self.exactly(min(left, CHUNK))
            left -= len(data)
            yield data
        self.exactly(-size % BLOCK)

    def skip(self, size: int) -> None:
        for _ in self.chunks(size):
            pass

    def drain(self) -> None:
        # The check sum of a compressed stream stands at its end.
        while self._some(CHUNK):
            pass

    def _some(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.meter.add(len(data))
        return data


def _member(header: _Header, extension: _Extension, reader: _Reader) -> tuple[Member, Iterator[bytes]]:
    raw = header.name if extension.path is None else extension.path
    name = raw.decode("utf-8", "surrogateescape")
    kind = Kind.SPARSE if extension.sparse else _KINDS.get(header.type, Kind.UNKNOWN)
    if kind is Kind.FILE and name.endswith("/"):
        kind = Kind.DIRECTORY
    size = header.size if extension.size is None else extension.size
    reader.meter.entry(name)
    chunks = reader.chunks(size if kind is Kind.FILE else 0)
    return Member(name, kind, bool(header.mode & 0o111), chunks), chunks


def _header(block: bytes, where: str) -> _Header:
    checksum = _number(block[148:156], where)
    unsigned = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    # Some old programs added the bytes up as signed numbers.
    signed = unsigned - 256 * sum(byte > 127 for byte in block[:148] + block[156:])
    if checksum not in (unsigned, signed):
        raise corrupt(where, "the check sum of a header is wrong")
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and block[345]:
        name = _text(block[345:500]) + b"/" + name
    return _Header(name, _number(block[100:108], where), _number(block[124:136], where), block[156:157])


def is_header(block: bytes) -> bool:
    """Whether these bytes begin like a tar archive."""
    if len(block) < BLOCK or not block[0]:
        return False
    try:
        _header(block[:BLOCK], "")
    except InvalidSkill:
        return False
    return True


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _number(field: bytes, where: str) -> int:
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.partition(b"\0")[0].strip()
    try:
        number = int(digits or b"0", 8)
    except ValueError:
        raise corrupt(where, "a number in a header cannot be read") from None
    if number < 0:
        raise corrupt(where, "a number in a header is negative")
    return number


def _decimal(value: bytes, where: str) -> int:
    if not value.isdigit() or len(value) > 20:
        raise corrupt(where, "the size in an extended header cannot be read")
    return int(value)


def _pax_records(data: bytes, where: str) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while position < len(data):
        space = data.find(b" ", position, position + 20)
        digits = data[position:space] if space > 0 else b""
        end = position + int(digits) if digits.isdigit() else 0
        key, equals, value = data[space + 1 : end].partition(b"=")
        if not equals or end > len(data) or not value.endswith(b"\n"):
            raise corrupt(where, "an extended header cannot be read")
        yield key, value[:-1]
        position = end
