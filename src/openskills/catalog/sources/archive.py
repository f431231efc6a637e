"""Pack skills, and unpack untrusted archives safely: zip, tar, and tar compressed with gzip, bzip2 or xz.

Entries cannot leave the target directory, and size and ratio are limited. tar files are read by our own code: for a
damaged header the standard library quietly ends the archive, and up to Python 3.11.9 a header can keep it busy for
hours (CVE-2024-6232, CVE-2025-8194). Links and devices are refused, never resolved.
"""

import bz2
import gzip
import hashlib
import lzma
import os
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, NamedTuple

from openskills.catalog.skill import SKILL_FILE, find_resources
from openskills.errors import (
    ForbiddenPath,
    InvalidArgument,
    InvalidSkill,
    LimitExceeded,
    SourceUnavailable,
    UnsupportedMedia,
)
from openskills.filesystem import replace_directory
from openskills.paths import open_inside, parse_relative

CHUNK = 65536
MAX_NAME = 1024
MAX_DEPTH = 32
MAX_ENTRIES = 10_000
_DRIVE = re.compile(r"[A-Za-z]:")


def is_plain_name(name: str) -> bool:
    """Whether an untrusted name can be used as a folder name unchanged."""
    return 0 < len(name) <= 64 and name[0] not in ".-" and all(char.isalnum() or char in "-_." for char in name)


class EntryNames:
    """The names used so far in one tree, at most `max_entries` with folders. `where` names the tree in messages.

    Names that differ only in case or Unicode normalization are refused: on some file systems they are the same file.
    """

    def __init__(self, where: str, max_entries: int = MAX_ENTRIES) -> None:
        self._where = where
        self._max_entries = max_entries
        self._taken: dict[str, tuple[str, bool]] = {}

    def add_file(self, name: str) -> PurePosixPath:
        """The path of a new file; raises a `SkillError` that names the entry and the reason."""
        path = self._parse_path(name)
        if self._claim(path, is_directory=False):
            raise InvalidSkill(f"{self._where}: {name!r} appears twice; keep one of them")
        return path

    def add_directory(self, name: str) -> PurePosixPath:
        """The path of a directory, which may be named more than once."""
        path = self._parse_path(name)
        self._claim(path, is_directory=True)
        return path

    def _parse_path(self, name: str) -> PurePosixPath:
        if "\\" in name:
            raise ForbiddenPath(f"{self._where}: {name!r} contains a backslash; separate folders with '/'")
        if _DRIVE.match(name):
            raise ForbiddenPath(f"{self._where}: {name!r} starts with a drive letter; use a relative name")
        path = parse_relative(name, field=self._where)
        if len(name) > MAX_NAME or len(path.parts) > MAX_DEPTH:
            limit = f"the limit is {MAX_NAME} characters and {MAX_DEPTH} levels"
            raise InvalidArgument(self._where, f"{name[:60]!r}... is too long or too deep; {limit}")
        return path

    def _claim(self, path: PurePosixPath, *, is_directory: bool) -> bool:
        """Register `path` and its parents; returns whether `path` was known before."""
        for parent in list(path.parents)[-2::-1]:
            self._take(str(parent), is_directory=True)
        known = self._take(str(path), is_directory=is_directory)
        if len(self._taken) > self._max_entries:
            limit = f"more than {self._max_entries:,} files and folders"
            raise LimitExceeded(f"{self._where}: {limit} with {str(path)!r}")
        return known

    def _take(self, name: str, *, is_directory: bool) -> bool:
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
        if key not in self._taken:
            self._taken[key] = (name, is_directory)
            return False
        other, other_is_directory = self._taken[key]
        if other != name:
            reason = "differ only in case or Unicode form; rename one of them"
            raise InvalidSkill(f"{self._where}: {other!r} and {name!r} {reason}")
        if other_is_directory != is_directory:
            raise InvalidSkill(f"{self._where}: {name!r} is both a file and a folder; rename one of them")
        return True


class MemberKind(StrEnum):
    """The kind of a member; only the first two can be unpacked."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMBOLIC_LINK = "symbolic link"
    HARD_LINK = "hard link"
    DEVICE = "device"
    FIFO = "named pipe"
    SPARSE = "sparse file"
    UNKNOWN = "entry of an unknown kind"


@dataclass(frozen=True, slots=True)
class Member:
    """One entry. `chunks` yields its bytes; exhaust it before the next member."""

    name: str
    kind: MemberKind
    executable: bool
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """Limits of unpacking. Bytes are counted as they come out, not as the archive declares them.

    Parent folders of a file count as `entries` too.
    """

    total: int = 256 << 20
    per_entry: int = 64 << 20
    entries: int = MAX_ENTRIES
    ratio: int = 100
    ratio_from: int = 8 << 20


DEFAULT_LIMITS = UnpackLimits()


class UnpackMeter:
    """Counts the unpacked bytes of an archive, and stops an archive bomb early."""

    def __init__(self, where: str, packed: int, limits: UnpackLimits) -> None:
        self._where = where
        self._total = limits.total
        self._ratio = limits.ratio
        self._max_ratio_bytes = max(limits.ratio_from, limits.ratio * packed)
        self._entry = ""
        self._count = 0

    def start_entry(self, name: str) -> None:
        """Name the entry of the following bytes."""
        self._entry = f" with the entry {name!r}"

    def add(self, count: int) -> None:
        """Count bytes; raises `LimitExceeded` for too many, in total or relative to the size of the archive."""
        self._count += count
        what = f"{self._where}: unpacks to more than"
        if self._count > self._total:
            raise LimitExceeded(f"{what} {self._total:,} bytes{self._entry}; make it smaller")
        if self._count > self._max_ratio_bytes:
            ratio = f"{self._ratio} times its own size"
            raise LimitExceeded(f"{what} {ratio}{self._entry}; this looks like an archive bomb")


def corrupt_archive(where: str, what: object) -> InvalidSkill:
    return InvalidSkill(f"{where}: the archive is damaged or incomplete ({what}); create or download it again")


BLOCK = 512
_MAX_HEADER = 65536
_ZERO = bytes(BLOCK)
_KINDS = {
    b"0": MemberKind.FILE,
    b"\0": MemberKind.FILE,
    b"7": MemberKind.FILE,
    b"1": MemberKind.HARD_LINK,
    b"2": MemberKind.SYMBOLIC_LINK,
    b"3": MemberKind.DEVICE,
    b"4": MemberKind.DEVICE,
    b"5": MemberKind.DIRECTORY,
    b"6": MemberKind.FIFO,
    b"S": MemberKind.SPARSE,
}


def tar_members(stream: IO[bytes], where: str, meter: UnpackMeter) -> Iterator[Member]:
    """The members in order; raises `InvalidSkill` for a damaged or truncated stream."""
    reader = _TarReader(stream, where, meter)
    extension = _PaxExtension()
    while (block := reader.read_exactly(BLOCK)) != _ZERO:
        header = _parse_header(block, where)
        if header.type in (b"x", b"X"):
            extension.add_pax(reader.read_small(header.size), where)
        elif header.type == b"L":
            extension.path = reader.read_small(header.size).rstrip(b"\0")
        elif header.type in (b"g", b"K"):
            reader.skip(header.size)
        else:
            member = _tar_member(header, extension, reader)
            extension = _PaxExtension()
            yield member
            for _ in member.chunks:
                pass
    reader.drain()


class _Header(NamedTuple):
    name: bytes
    mode: int
    size: int
    type: bytes


@dataclass(slots=True)
class _PaxExtension:
    """The extended headers before a member."""

    path: bytes | None = None
    size: int | None = None
    sparse: bool = False

    def add_pax(self, data: bytes, where: str) -> None:
        for key, value in _pax_records(data, where):
            if key == b"path":
                self.path = value
            elif key == b"size":
                if not value.isdigit() or len(value) > 20:
                    raise corrupt_archive(where, "the size in an extended header cannot be read")
                self.size = int(value)
            elif key.startswith(b"GNU.sparse."):
                self.sparse = True


class _TarReader:
    def __init__(self, stream: IO[bytes], where: str, meter: UnpackMeter) -> None:
        self._stream = stream
        self._where = where
        self.meter = meter

    def read_exactly(self, size: int) -> bytes:
        data = self._read_some(size)
        if len(data) != size:
            raise corrupt_archive(self._where, "unexpected end of file")
        return data

    def read_small(self, size: int) -> bytes:
        if size > _MAX_HEADER:
            raise InvalidSkill(f"{self._where}: a header has {size:,} bytes; the limit is {_MAX_HEADER:,}")
        data = self.read_exactly(size)
        self.read_exactly(-size % BLOCK)
        return data

    def read_chunks(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            data = self.read_exactly(min(left, CHUNK))
            left -= len(data)
            yield data
        self.read_exactly(-size % BLOCK)

    def skip(self, size: int) -> None:
        for _ in self.read_chunks(size):
            pass

    def drain(self) -> None:
        # The checksum of a compressed stream is at its end.
        while self._read_some(CHUNK):
            pass

    def _read_some(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except _DAMAGE as error:
            raise corrupt_archive(self._where, error) from None
        self.meter.add(len(data))
        return data


def _tar_member(header: _Header, extension: _PaxExtension, reader: _TarReader) -> Member:
    raw = header.name if extension.path is None else extension.path
    name = raw.decode("utf-8", "surrogateescape")
    kind = MemberKind.SPARSE if extension.sparse else _KINDS.get(header.type, MemberKind.UNKNOWN)
    if kind is MemberKind.FILE and name.endswith("/"):
        kind = MemberKind.DIRECTORY
    size = header.size if extension.size is None else extension.size
    reader.meter.start_entry(name)
    chunks = reader.read_chunks(size if kind is MemberKind.FILE else 0)
    return Member(name, kind, bool(header.mode & 0o111), chunks)


def _parse_header(block: bytes, where: str) -> _Header:
    checksum = _parse_number(block[148:156], where)
    unsigned = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    # Some old programs summed the bytes as signed numbers.
    signed = unsigned - 256 * sum(byte > 127 for byte in block[:148] + block[156:])
    if checksum not in (unsigned, signed):
        raise corrupt_archive(where, "wrong checksum in a header")
    name = block[:100].partition(b"\0")[0]
    if block[257:263] == b"ustar\0" and block[345]:
        name = block[345:500].partition(b"\0")[0] + b"/" + name
    return _Header(name, _parse_number(block[100:108], where), _parse_number(block[124:136], where), block[156:157])


def is_header(block: bytes) -> bool:
    """Whether these bytes start like a tar archive."""
    if len(block) < BLOCK or not block[0]:
        return False
    try:
        _parse_header(block[:BLOCK], "")
    except InvalidSkill:
        return False
    return True


def _parse_number(field: bytes, where: str) -> int:
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.partition(b"\0")[0].strip()
    try:
        number = int(digits or b"0", 8)
    except ValueError:
        raise corrupt_archive(where, "invalid number in a header") from None
    if number < 0:
        raise corrupt_archive(where, "negative number in a header")
    return number


def _pax_records(data: bytes, where: str) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while position < len(data):
        space = data.find(b" ", position, position + 20)
        digits = data[position:space] if space > 0 else b""
        end = position + int(digits) if digits.isdigit() else 0
        key, equals, value = data[space + 1 : end].partition(b"=")
        if not equals or end > len(data) or not value.endswith(b"\n"):
            raise corrupt_archive(where, "an extended header cannot be read")
        yield key, value[:-1]
        position = end


_LOCAL_HEADER = 30
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What the library raises for damaged files. RuntimeError includes NotImplementedError.
_ZIP_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, OverflowError, RuntimeError)


def zip_members(archive: Path, where: str, meter: UnpackMeter, *, entries: int) -> Iterator[Member]:
    """The members in the order of the directory; raises `InvalidSkill` for a damaged file.

    Entries that overlap (CVE-2024-0450), are encrypted or use a rare compression are refused by name. Bytes that belong
    to no entry are refused, too: programs that read the file differently could find another archive in them.
    """
    with archive.open("rb") as file, _open_zip(_BoundedFile(file, where, entries), where) as opened:
        infos = opened.infolist()
        if len(infos) > entries:
            raise LimitExceeded(f"{where}: has {len(infos):,} entries; the limit is {entries:,}")
        spans = sorted((info.header_offset, _find_entry_end(info, file, where), info.orig_filename) for info in infos)
        spans.append((opened.start_dir, opened.start_dir, "the directory"))
        for (_, end, name), (start, _, other) in pairwise(spans):
            if end > start:
                raise InvalidSkill(f"{where}: {name!r} overlaps {other!r}; this looks like an archive bomb")
        _check_layout(opened, infos, spans, file, where)
        for info in infos:
            yield _zip_member(opened, info, where, meter)


_END_RECORD = 22
_MAX_DESCRIPTOR = 24
"""Bytes after the content of an entry whose size was not known when it was written."""


def _check_layout(
    opened: zipfile.ZipFile,
    infos: Sequence[zipfile.ZipInfo],
    spans: Sequence[tuple[int, int, str]],
    file: IO[bytes],
    where: str,
) -> None:
    """Check that the file consists of the entries and one directory, without anything before, between or after."""
    hidden = "could be read as another archive; create it again with an ordinary zip program"
    if spans[0][0] != 0:
        raise InvalidSkill(f"{where}: has {spans[0][0]:,} bytes before its first entry, which {hidden}")
    streamed = {info.header_offset for info in infos if info.flag_bits & 0x8}
    for (offset, end, name), (start, _, _) in pairwise(spans):
        if start - end > (_MAX_DESCRIPTOR if offset in streamed else 0):
            raise InvalidSkill(f"{where}: has {start - end:,} bytes after {name!r}, which {hidden}")
    size = file.seek(0, os.SEEK_END)
    file.seek(opened.start_dir)
    tail = file.read(max(1 << 20, len(infos) * 512) + 1)
    length = sum(46 + len(_raw_name(info)) + len(info.extra) + len(info.comment) for info in infos)
    record = tail[length : length + _END_RECORD]
    is_last = record.startswith(b"PK\x05\x06") and opened.start_dir + length + _END_RECORD + len(opened.comment) == size
    if not is_last or b"PK\x05\x06" in opened.comment:
        raise InvalidSkill(f"{where}: has bytes around its directory, which {hidden}")


def _raw_name(info: zipfile.ZipInfo) -> bytes:
    return info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437", "surrogateescape")


class _BoundedFile:
    """A file that limits the size of one read, so that a huge directory is not read into memory."""

    def __init__(self, file: IO[bytes], where: str, entries: int) -> None:
        self._file = file
        self._where = where
        self._max_read = max(1 << 20, entries * 512)
        self.seek = file.seek
        self.tell = file.tell
        self.close = file.close
        self.seekable = file.seekable

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(min(size, self._max_read + 1) if size >= 0 else self._max_read + 1)
        if len(data) > self._max_read:
            raise LimitExceeded(f"{self._where}: its directory has more than {self._max_read:,} bytes")
        return data


def _open_zip(file: _BoundedFile, where: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)  # pyright: ignore[reportArgumentType, reportCallIssue]
    except (*_ZIP_DAMAGE, OSError) as error:
        raise corrupt_archive(where, error) from None


def _find_entry_end(info: zipfile.ZipInfo, file: IO[bytes], where: str) -> int:
    try:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
    except (OSError, ValueError, OverflowError):
        header = b""
    if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
        raise corrupt_archive(where, f"{info.orig_filename!r} has no header")
    name, extra = struct.unpack("<HH", header[26:30])
    return info.header_offset + _LOCAL_HEADER + name + extra + info.compress_size


def _zip_member(opened: zipfile.ZipFile, info: zipfile.ZipInfo, where: str, meter: UnpackMeter) -> Member:
    # `filename` is cut at a NUL byte; the original name must be checked.
    name = info.orig_filename
    if info.flag_bits & _ENCRYPTED:
        raise UnsupportedMedia(f"{where}: {name!r} is encrypted; create the archive without a password")
    kind = _member_kind(info, name)
    if kind is MemberKind.FILE and info.compress_type not in _METHODS:
        method = f"compression method {info.compress_type}"
        raise UnsupportedMedia(f"{where}: {name!r} uses {method}; use deflate or no compression")
    executable = bool(info.external_attr >> 16 & 0o111)
    return Member(name, kind, executable, _read_chunks(opened, info, where, meter))


def _member_kind(info: zipfile.ZipInfo, name: str) -> MemberKind:
    kinds = {
        0: MemberKind.FILE,
        stat.S_IFREG: MemberKind.FILE,
        stat.S_IFDIR: MemberKind.DIRECTORY,
        stat.S_IFLNK: MemberKind.SYMBOLIC_LINK,
        stat.S_IFIFO: MemberKind.FIFO,
        stat.S_IFBLK: MemberKind.DEVICE,
        stat.S_IFCHR: MemberKind.DEVICE,
    }
    kind = kinds.get(stat.S_IFMT(info.external_attr >> 16), MemberKind.UNKNOWN)
    return MemberKind.DIRECTORY if kind is MemberKind.FILE and name.endswith("/") else kind


def _read_chunks(opened: zipfile.ZipFile, info: zipfile.ZipInfo, where: str, meter: UnpackMeter) -> Iterator[bytes]:
    declared = info.file_size
    count = 0
    # The library stops at the declared size. Read to the real end instead, to detect a wrong size.
    info.file_size = 1 << 62
    try:
        meter.start_entry(info.orig_filename)
        with opened.open(info) as content:
            while chunk := content.read(CHUNK):
                meter.add(len(chunk))
                count += len(chunk)
                yield chunk
    except _ZIP_DAMAGE as error:
        raise corrupt_archive(where, f"{info.orig_filename!r}: {error or 'unexpected end of file'}") from None
    if count != declared:
        raise InvalidSkill(f"{where}: {info.orig_filename!r} has {count:,} bytes but declares {declared:,}")


ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".skill")
_MAGIC = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
}
_DECOMPRESSORS: Mapping[str, Callable[[Path, str], Any]] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, MemoryError)


def detect_format(head: bytes) -> str | None:
    """The format of an archive by its first 512 bytes, or None."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    return "tar" if is_header(head) else None


def unpack(archive: Path, into: Path, *, limits: UnpackLimits = DEFAULT_LIMITS, label: str | None = None) -> None:
    """Unpack `archive` into the new directory `into`, all or nothing. `label` is its name in messages.

    Raises a `SkillError` that names the archive, the entry and the reason: `ForbiddenPath` for names and links that
    could leave `into`, `LimitExceeded`, `InvalidSkill` for a damaged or ambiguous archive, and `UnsupportedMedia` for
    an unknown format. Files get mode 0644, or 0755 if executable.
    """
    if into.exists():
        raise InvalidArgument("into", f"{into} already exists")
    where = label or archive.name
    entries = EntryNames(where, limits.entries)
    with replace_directory(into) as directory, closing(_iter_members(archive, where, limits)) as members:
        for number, member in enumerate(members, start=1):
            if number > limits.entries:
                raise LimitExceeded(f"{where}: has more than {limits.entries:,} entries")
            _write_member(member, directory, entries, where, limits)


def _iter_members(archive: Path, where: str, limits: UnpackLimits) -> Generator[Member]:
    try:
        with archive.open("rb") as file:
            kind = detect_format(file.read(BLOCK))
        packed = archive.stat().st_size
    except OSError as error:
        raise SourceUnavailable(f"{archive}: cannot be read: {error.strerror}") from None
    meter = UnpackMeter(where, packed, limits)
    if kind == "zip":
        yield from zip_members(archive, where, meter, entries=limits.entries)
    elif kind:
        with _DECOMPRESSORS.get(kind, open)(archive, "rb") as stream:
            yield from tar_members(stream, where, meter)
    else:
        raise UnsupportedMedia(f"{where}: not a zip or tar archive")


def _write_member(member: Member, directory: Path, entries: EntryNames, where: str, limits: UnpackLimits) -> None:
    name = member.name
    if member.kind is MemberKind.DIRECTORY:
        # Archives made with `tar -C folder .` start with "./".
        path = entries.add_directory(name) if PurePosixPath(name).parts else PurePosixPath()
        if not _is_litter(path):
            (directory / path).mkdir(mode=0o755, parents=True, exist_ok=True)
        return
    if member.kind is not MemberKind.FILE:
        raise ForbiddenPath(f"{where}: {name!r} is a {member.kind}; only files and folders are unpacked")
    path = entries.add_file(name)
    if _is_litter(path):
        return
    target = directory / path
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    mode = 0o755 if member.executable else 0o644
    count = 0
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        for chunk in member.chunks:
            count += len(chunk)
            if count > limits.per_entry:
                raise LimitExceeded(f"{where}: {member.name!r} is larger than {limits.per_entry:,} bytes")
            file.write(chunk)


def _is_litter(path: PurePosixPath) -> bool:
    return path.parts[:1] == ("__MACOSX",) or path.name == ".DS_Store"


_OLDEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file that is packed: the oldest one that zip can express."""


class FileContent(NamedTuple):
    """A file to pack or to publish: its relative path, bytes, and whether it is executable."""

    path: str
    data: bytes
    executable: bool = False

    def under(self, directory: str) -> "FileContent":
        return self._replace(path=f"{directory}/{self.path}")


def write_zip(target: Path | BinaryIO, files: Iterable[FileContent]) -> None:
    """Write files to a zip archive in the given order, without times, with mode 0644 or 0755, and not compressed.

    The same files give the same bytes on every machine: compressed bytes would depend on the library.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            info = zipfile.ZipInfo(file.path, _OLDEST)
            info.create_system = 3  # Unix, so that the modes count
            info.external_attr = (stat.S_IFREG | (0o755 if file.executable else 0o644)) << 16
            archive.writestr(info, file.data)


def is_program(data: bytes, mode: int) -> bool:
    """Whether a file is packed and published as executable: if it is, or starts with `#!`."""
    return bool(mode & 0o111) or data.startswith(b"#!")


def hash_content(path: Path) -> tuple[str, int]:
    """The SHA-256 and the size of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return digest, file.tell()


def pack_folder(folder: Path, name: str, archive: Path, paths: Iterable[str] | None = None) -> tuple[str, int]:
    """Write files of a skill to a zip archive with the only folder `name`; returns its SHA-256 and its size.

    By default, all files but those of version control and of environments. They are sorted and written as by
    `write_zip`.
    """
    if paths is None:
        paths = {SKILL_FILE, *(one.path for one in find_resources(str(folder)))}

    def read(path: str) -> FileContent:
        with os.fdopen(open_inside(str(folder), path), "rb") as file:
            data, status = file.read(), os.fstat(file.fileno())
        return FileContent(f"{name}/{path}", data, is_program(data, status.st_mode))

    write_zip(archive, map(read, sorted(paths)))
    return hash_content(archive)
