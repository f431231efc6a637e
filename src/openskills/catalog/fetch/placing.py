"""What came from elsewhere, as a folder in the cache: the same content is placed once."""

import hashlib
import shutil
from pathlib import Path

from openskills.catalog.fetch.arriving import arriving, in_use
from openskills.catalog.fetch.entries import is_plain
from openskills.catalog.fetch.unpack import unpack
from openskills.catalog.skill import SKILL_FILE
from openskills.skillmd.parse import parse

_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".skill")
_HEAD = 65536


def has_archive_suffix(name: str) -> bool:
    """Whether a file name promises an archive."""
    return name.lower().endswith(_SUFFIXES)


def place_archive(archive: Path, sha256: str, cache: Path, *, name: str) -> Path:
    """The folder with the files of an archive. `name` is how people call the archive; messages use it.

    An archive that is one skill, with a SKILL.md at its root, gets a folder named as the skill, because the name of a
    skill has to be that of its folder.
    """
    place = cache / "archives" / sha256
    if not place.is_dir():
        with arriving(place) as temporary:
            content = temporary / "content"
            unpack(archive, content, label=name)
            content.rename(temporary / folder_name(content, stem(name)))
    in_use(place)
    return next(place.iterdir())


def place_skill_file(file: Path, sha256: str, cache: Path, *, name: str) -> Path:
    """A folder that holds this SKILL.md and nothing else."""
    place = cache / "files" / sha256
    if not place.is_dir():
        with arriving(place) as temporary:
            content = temporary / "content"
            content.mkdir(mode=0o755)
            shutil.copyfile(file, content / SKILL_FILE)
            content.rename(temporary / folder_name(content, stem(name)))
    in_use(place)
    return next(place.iterdir())


def sha256_of(path: Path) -> str:
    """The digest of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_name(content: Path, fallback: str) -> str:
    """The name that a folder should have: that of the skill it is, else `fallback`, else "skills"."""
    manifest = content / SKILL_FILE
    if manifest.is_file():
        with manifest.open("rb") as file:
            parsed = parse(file.read(_HEAD).decode("utf-8", "replace")).manifest
        if parsed and is_plain(parsed.name):
            return parsed.name
    return fallback if is_plain(fallback) else "skills"


def stem(name: str) -> str:
    """The name of an archive without the suffix that says so."""
    suffixes = sorted((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), key=len)
    return name[: -len(suffixes[-1])] if suffixes else name
