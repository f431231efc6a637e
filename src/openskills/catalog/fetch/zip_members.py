"""The members of a zip file, found by the standard library and checked where it does not look."""

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO

from openskills.catalog.fetch.members import CHUNK, Kind, Member, Meter, corrupt
from openskills.errors import InvalidSkill, LimitExceeded, UnsupportedMedia

_LOCAL_HEADER = 30
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What the library raises for files that are not as they should be. RuntimeError includes "not implemented".
_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, OverflowError, RuntimeError)


def zip_members(archive: Path, where: str, meter: Meter, *, entries: int) -> Iterator[Member]:
    """The members in the order of the directory; raises `InvalidSkill` for a file that is damaged.

    Entries that share bytes (CVE-2024-0450), are encrypted or use a rare compression are refused by name.
    """
    with archive.open("rb") as file, _open(_Bounded(file, where, entries), where) as opened:
        infos = opened.infolist()
        if len(infos) > entries:
            raise LimitExceeded(f"{where}: holds {len(infos):,} entries; at most {entries:,} are unpacked")
        _refuse_overlaps(infos, opened.start_dir, file, where)
        for info in infos:
            yield _member(opened, info, where, meter)


class _Bounded:
    """A file that gives no more than a fair share at once, so that a huge directory is not read into memory."""

    def __init__(self, file: IO[bytes], where: str, entries: int) -> None:
        self._file = file
        self._where = where
        self._most = max(1 << 20, entries * 512)
        self.seek = file.seek
        self.tell = file.tell
        self.close = file.close
        self.seekable = file.seekable

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(min(size, self._most + 1) if size >= 0 else self._most + 1)
        if len(data) > self._most:
            raise LimitExceeded(f"{self._where}: its directory takes more than {self._most:,} bytes")
        return data


def _open(file: _Bounded, where: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)  # pyright: ignore[reportArgumentType, reportCallIssue]
    except (*_DAMAGE, OSError) as error:
        raise corrupt(where, error) from None


def _refuse_overlaps(infos: list[zipfile.ZipInfo], directory: int, file: IO[bytes], where: str) -> None:
    spans = sorted((info.header_offset, _end(info, file, where), info.orig_filename) for info in infos)
    spans.append((directory, directory, "the directory"))
    for (_, end, name), (start, _, other) in pairwise(spans):
        if end > start:
            raise InvalidSkill(f"{where}: {name!r} overlaps {other!r}; this looks like an archive bomb")


def _end(info: zipfile.ZipInfo, file: IO[bytes], where: str) -> int:
    try:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
    except (OSError, ValueError, OverflowError):
        header = b""
    if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
        raise corrupt(where, f"{info.orig_filename!r} has no header")
    name, extra = struct.unpack("<HH", header[26:30])
    return info.header_offset + _LOCAL_HEADER + name + extra + info.compress_size


def _member(opened: zipfile.ZipFile, info: zipfile.ZipInfo, where: str, meter: Meter) -> Member:
    # `filename` is cut at a NUL byte; the name that was written is the one to judge.
    name = info.orig_filename
    if info.flag_bits & _ENCRYPTED:
        raise UnsupportedMedia(f"{where}: {name!r} is encrypted; make the archive without a password")
    kind = _kind(info, name)
    if kind is Kind.FILE and info.compress_type not in _METHODS:
        method = f"compression method {info.compress_type}"
        raise UnsupportedMedia(f"{where}: {name!r} uses {method}; use deflate or no compression")
    executable = bool(info.external_attr >> 16 & 0o111)
    return Member(name, kind, executable, _chunks(opened, info, where, meter))


def _kind(info: zipfile.ZipInfo, name: str) -> Kind:
    kinds = {
        0: Kind.FILE,
        stat.S_IFREG: Kind.FILE,
        stat.S_IFDIR: Kind.DIRECTORY,
        stat.S_IFLNK: Kind.SYMBOLIC_LINK,
        stat.S_IFIFO: Kind.FIFO,
        stat.S_IFBLK: Kind.DEVICE,
        stat.S_IFCHR: Kind.DEVICE,
    }
    kind = kinds.get(stat.S_IFMT(info.external_attr >> 16), Kind.UNKNOWN)
    return Kind.DIRECTORY if kind is Kind.FILE and name.endswith("/") else kind


def _chunks(opened: zipfile.ZipFile, info: zipfile.ZipInfo, where: str, meter: Meter) -> Iterator[bytes]:
    declared = info.file_size
    count = 0
    # The library stops at the declared size. Read on to the real end instead, so that a lie is seen.
    info.file_size = 1 << 62
    try:
        meter.entry(info.orig_filename)
        with opened.open(info) as content:
            while chunk := content.read(CHUNK):
                meter.add(len(chunk))
                count += len(chunk)
                yield chunk
    except _DAMAGE as error:
        raise corrupt(where, f"{info.orig_filename!r}: {error or 'it ends in the middle'}") from None
    if count != declared:
        raise InvalidSkill(f"{where}: {info.orig_filename!r} holds {count:,} bytes but declares {declared:,}")
