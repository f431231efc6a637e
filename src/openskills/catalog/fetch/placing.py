"""What came from elsewhere, as a folder in the cache: the same content is placed once."""

import hashlib
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from openskills.catalog.fetch.arriving import MONTH, arriving, forget, found, scratch
from openskills.catalog.fetch.entries import is_plain
from openskills.catalog.fetch.unpack import unpack
from openskills.catalog.skill import SKILL_FILE
from openskills.errors import LimitExceeded, SourceUnavailable
from openskills.skillmd.parse import parse

_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".skill")
_HEAD = 65536
_CHUNK = 1 << 20
_MAX_ARCHIVE = 512 << 20


def has_archive_suffix(name: str) -> bool:
    """Whether a file name promises an archive."""
    return name.lower().endswith(_SUFFIXES)


def place_archive(archive: Path, sha256: str, cache: Path, *, name: str) -> Path:
    """The folder with the files of an archive. `name` is how people call the archive; messages use it.

    An archive that is one skill, with a SKILL.md at its root, gets a folder named as the skill, because the name of a
    skill has to be that of its folder. Nobody else may write to `archive`: its digest has to be `sha256`.
    """
    return _placed(cache / "archives", sha256, name, lambda content: unpack(archive, content, label=name))


def placed_archive(sha256: str, cache: Path, *, name: str) -> Path | None:
    """The folder of an archive with this digest that was placed before."""
    return _known(cache / "archives", sha256, name)


def place_skill_file(file: Path, sha256: str, cache: Path, *, name: str) -> Path:
    """A folder that holds this SKILL.md and nothing else."""

    def fill(content: Path) -> None:
        content.mkdir(mode=0o755)
        shutil.copyfile(file, content / SKILL_FILE)

    return _placed(cache / "files", sha256, name, fill)


@contextmanager
def copied(file: IO[bytes], cache: Path, *, name: str) -> Generator[tuple[Path, str]]:
    """A copy that nobody else writes to, and its digest, so that what is checked is what is unpacked."""
    digest, count = hashlib.sha256(), 0
    with scratch(cache / "archives") as directory:
        copy = directory / "archive"
        with copy.open("wb") as target:
            while chunk := file.read(_CHUNK):
                count += len(chunk)
                if count > _MAX_ARCHIVE:
                    raise LimitExceeded(f"{name}: is larger than {_MAX_ARCHIVE:,} bytes, too much for an archive")
                digest.update(chunk)
                target.write(chunk)
        yield copy, digest.hexdigest()


def sha256_of(path: Path) -> str:
    """The digest of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_name(content: Path, fallback: str) -> str:
    """The name that a folder should have: that of the skill it is, else `fallback`, else "skills"."""
    return _skill_name(content) or _plain(fallback)


def stem(name: str) -> str:
    """The name of an archive without the suffix that says so."""
    suffixes = sorted((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), key=len)
    return name[: -len(suffixes[-1])] if suffixes else name


def _known(parent: Path, sha256: str, name: str) -> Path | None:
    folder = found(parent / sha256) or found(parent / f"{sha256}-{_plain(stem(name))}")
    if folder:
        forget(parent, after=MONTH)
    return folder


def _placed(parent: Path, sha256: str, name: str, fill: Callable[[Path], None]) -> Path:
    folder = _known(parent, sha256, name)
    if not folder:
        with scratch(parent) as temporary:
            content = temporary / "content"
            fill(content)
            own = _skill_name(content)
            fallback = _plain(stem(name))
            # A folder that is called as its archive is not for those who have the same bytes under another name.
            with arriving(parent / (sha256 if own else f"{sha256}-{fallback}")) as place:
                content.rename(place / (own or fallback))
        folder = _known(parent, sha256, name)
    if not folder:
        raise SourceUnavailable(f"{name}: holds no files")
    return folder


def _skill_name(content: Path) -> str | None:
    manifest = content / SKILL_FILE
    if not manifest.is_file():
        return None
    with manifest.open("rb") as file:
        parsed = parse(file.read(_HEAD).decode("utf-8", "replace")).manifest
    return parsed.name if parsed and is_plain(parsed.name) else None


def _plain(name: str) -> str:
    return name if is_plain(name) else "skills"
