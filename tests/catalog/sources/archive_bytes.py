"""Archives for tests, made byte by byte where no honest program would make them."""

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SKILL = b"---\nname: hello\ndescription: Says hello. Use when greeting.\n---\nSay hello.\n"


@dataclass(frozen=True)
class Entry:
    """One entry of a zip, with every field that can lie."""

    name: str
    data: bytes = b""
    method: int = 0
    flags: int = 0x800
    mode: int = 0o100644
    packed: bytes | None = None
    declared: int | None = None
    crc: int | None = None
    offset: int | None = None


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """An honest zip."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def raw_zip(entries: Sequence[Entry]) -> bytes:
    """A zip that says exactly what the entries say."""
    body, directory = b"", b""
    for entry in entries:
        packed = entry.data if entry.packed is None else entry.packed
        size = len(entry.data) if entry.declared is None else entry.declared
        crc = zlib.crc32(entry.data) if entry.crc is None else entry.crc
        name = entry.name.encode()
        head = struct.pack("<HHHHH", 20, entry.flags, entry.method, 0, 0x21)
        sizes = struct.pack("<IIIHH", crc, len(packed), size, len(name), 0)
        offset = len(body) if entry.offset is None else entry.offset
        body += b"PK\x03\x04" + head + sizes + name + packed
        places = struct.pack("<HHHII", 0, 0, 0, entry.mode << 16, offset)
        directory += b"PK\x01\x02" + struct.pack("<H", 0x314) + head + sizes + places + name
    count = len(entries)
    return body + directory + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(directory), len(body), 0)


def deflated(data: bytes) -> bytes:
    """Data as a zip entry holds it."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


def tar_of(files: Mapping[str, bytes], mode: str = "w:gz", variant: int = tarfile.PAX_FORMAT) -> bytes:
    """An honest tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=variant) as archive:  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
        for name, data in files.items():
            add_file(archive, name, data)  # pyright: ignore[reportUnknownArgumentType]
    return buffer.getvalue()


def tar_with(*infos: tarfile.TarInfo) -> bytes:
    """A plain tar with members of any type; files hold zeros."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:") as archive:
        for info in infos:
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    return buffer.getvalue()


def add_file(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A member that is not a file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def tar_header(name: bytes = b"a.md", size: bytes = b"00000000000\0", kind: bytes = b"0") -> bytes:
    """One header block with a right check sum and any size field."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b"0000644\0"
    block[124:136] = size
    block[148:156] = b"        "
    block[156:157] = kind
    block[257:265] = b"ustar\x0000"
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)
