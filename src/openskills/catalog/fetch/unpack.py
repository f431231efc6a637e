"""Archives that can neither escape nor explode: zip, tar, and tar compressed with gzip, bzip2 or xz."""

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from openskills.catalog.fetch.arriving import arriving
from openskills.catalog.fetch.entries import MAX_ENTRIES, Entries
from openskills.catalog.fetch.members import Kind, Member, Meter, corrupt
from openskills.catalog.fetch.tar_members import BLOCK, is_header, tar_members
from openskills.catalog.fetch.zip_members import zip_members
from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SourceUnavailable, UnsupportedMedia

_MAGIC = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
}
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, MemoryError)


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """What is refused: bytes count as they come out, not as the archive declares them.

    Folders that the name of a file merely implies count as `entries` too.
    """

    total: int = 256 << 20
    per_entry: int = 64 << 20
    entries: int = MAX_ENTRIES
    ratio: int = 100
    ratio_from: int = 8 << 20


DEFAULT_LIMITS = UnpackLimits()


def archive_format(head: bytes) -> str | None:
    """The format of an archive by its first 512 bytes, or None; names of files are not asked."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    return "tar" if is_header(head) else None


def unpack(archive: Path, into: Path, *, limits: UnpackLimits = DEFAULT_LIMITS, label: str | None = None) -> None:
    """Write the files of `archive` to the new directory `into`, all or nothing.

    Raises a `SkillError` that names the archive, the entry and the reason: `ForbiddenPath` for names and links that
    could leave `into`, `LimitExceeded` for too much of anything, `InvalidSkill` for what is damaged or ambiguous,
    `UnsupportedMedia` for what is no archive or cannot be read. `label` names the archive where its file does not.
    Files get mode 0644, or 0755 where executable.
    """
    if into.exists():
        raise InvalidArgument("into", f"{into} exists already")
    where = label or archive.name
    entries = Entries(where, limits.entries)
    with arriving(into) as directory, closing(_members(archive, where, limits)) as members:
        for number, member in enumerate(members, start=1):
            if number > limits.entries:
                raise LimitExceeded(f"{where}: holds more than {limits.entries:,} entries")
            _write(member, directory, entries, where, limits)


def _members(archive: Path, where: str, limits: UnpackLimits) -> Generator[Member]:
    try:
        with archive.open("rb") as file:
            kind = archive_format(file.read(BLOCK))
        packed = archive.stat().st_size
    except OSError as error:
        raise SourceUnavailable(f"{archive}: cannot be read: {error.strerror}") from None
    meter = Meter(where, packed, total=limits.total, ratio=limits.ratio, ratio_from=limits.ratio_from)
    if kind == "zip":
        yield from zip_members(archive, where, meter, entries=limits.entries)
    elif kind:
        yield from _tar(archive, kind, where, meter)
    else:
        raise UnsupportedMedia(f"{where}: is not a zip or tar archive")


def _tar(archive: Path, kind: str, where: str, meter: Meter) -> Iterator[Member]:
    with _decompressed(archive, kind) as stream:
        yield from tar_members(_Checked(stream, where), where, meter)


def _decompressed(archive: Path, kind: str) -> io.BufferedIOBase:
    match kind:
        case "gzip":
            return gzip.open(archive, "rb")
        case "bzip2":
            return bz2.open(archive, "rb")
        case "xz":
            return lzma.open(archive, "rb")
        case _:
            return archive.open("rb")


class _Checked:
    """A stream whose every way to fail is the same error."""

    def __init__(self, stream: io.BufferedIOBase, where: str) -> None:
        self._stream = stream
        self._where = where

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except _DAMAGE as error:
            raise corrupt(self._where, error) from None


def _write(member: Member, directory: Path, entries: Entries, where: str, limits: UnpackLimits) -> None:
    name = member.name
    if member.kind is Kind.DIRECTORY:
        # Archives made with `tar -C folder .` begin with "./".
        path = entries.directory(name) if PurePosixPath(name).parts else PurePosixPath()
        if not _is_litter(path):
            (directory / path).mkdir(mode=0o755, parents=True, exist_ok=True)
        return
    if member.kind is not Kind.FILE:
        raise ForbiddenPath(f"{where}: {name!r} is a {member.kind}; only files and folders are unpacked")
    path = entries.file(name)
    if not _is_litter(path):
        _write_file(member, directory / path, where, limits)


def _is_litter(path: PurePosixPath) -> bool:
    return path.parts[:1] == ("__MACOSX",) or path.name == ".DS_Store"


def _write_file(member: Member, path: Path, where: str, limits: UnpackLimits) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    mode = 0o755 if member.executable else 0o644
    count = 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        for chunk in member.chunks:
            count += len(chunk)
            if count > limits.per_entry:
                raise LimitExceeded(f"{where}: {member.name!r} is larger than {limits.per_entry:,} bytes")
            file.write(chunk)
