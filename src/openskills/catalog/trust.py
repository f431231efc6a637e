"""Which projects' skills a person has agreed to, remembered by what was in them at that time."""

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from openskills.errors import InvalidArgument, LimitExceeded

MAX_FILES = 20_000
MAX_BYTES = 512 * 1024 * 1024
_CHUNK = 1024 * 1024


def digest_of(directories: Iterable[Path], confine: Path) -> str:
    """One digest over every file in `directories`: names, content, executable bits, and what links lead to.

    Linked directories count as long as they lie in `confine`: no others are ever searched for skills. Raises
    `LimitExceeded` when there is more than anybody would call a set of skills.
    """
    whole = hashlib.sha256()
    size = 0
    found = _walk([str(directory) for directory in directories], os.path.realpath(confine))
    for files, (path, status) in enumerate(found, start=1):
        size += status.st_size
        if files > MAX_FILES or size > MAX_BYTES:
            limits = f"{MAX_FILES:,} files or {MAX_BYTES:,} bytes"
            raise LimitExceeded(f"the skills have more than {limits}; move what is not a skill out of their folders")
        name = os.fsencode(os.path.relpath(path, confine))
        whole.update(b"%s\0%s\n" % (name, _content(path, status)))
    return whole.hexdigest()


class TrustStore:
    """The decisions, in one file that only its owner can write."""

    def __init__(self, config_dir: Path) -> None:
        self._file = config_dir / "trust.json"

    def trusts(self, project: Path, digest: str) -> bool:
        """Whether the skills of `project` were agreed to as they are now."""
        return self._answer(project, digest) == "yes"

    def declined(self, project: Path, digest: str) -> bool:
        """Whether a person said no to the skills of `project` as they are now, and need not be asked again."""
        return self._answer(project, digest) == "no"

    def trust(self, project: Path, digest: str) -> None:
        """Remember that the skills of `project` with this digest may be used."""
        self._remember(project, digest, "yes")

    def decline(self, project: Path, digest: str) -> None:
        """Remember that the skills of `project` with this digest may not be used."""
        self._remember(project, digest, "no")

    def forget(self, project: Path) -> bool:
        """Take the decision back; False when there was none."""
        entries = self._entries()
        known = entries.pop(os.path.realpath(project), None) is not None
        if known:
            self._write(entries)
        return known

    def projects(self) -> dict[str, str]:
        """Every trusted project and when it was agreed to."""
        return {path: entry["at"] for path, entry in self._entries().items() if entry["answer"] == "yes"}

    def _answer(self, project: Path, digest: str) -> str | None:
        entry = self._entries().get(os.path.realpath(project))
        return entry["answer"] if entry and entry["digest"] == digest else None

    def _remember(self, project: Path, digest: str, answer: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        decision = {"answer": answer, "digest": digest, "at": now}
        self._write({**self._entries(), os.path.realpath(project): decision})

    def _entries(self) -> dict[str, dict[str, str]]:
        try:
            content: Any = json.loads(self._file.read_text("utf-8"))
            return {
                str(path): {key: str(entry[key]) for key in ("answer", "digest", "at")}
                for path, entry in content["decisions"].items()
            }
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InvalidArgument("trust.json", f"{self._file} cannot be read: {error.strerror}") from None
        except (ValueError, LookupError, TypeError, AttributeError):
            raise InvalidArgument("trust.json", f"{self._file} is damaged; mend or remove it") from None

    def _write(self, entries: dict[str, dict[str, str]]) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._file.parent, prefix=".trust-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"decisions": entries}, file, indent=2, sort_keys=True)
        os.replace(temporary, self._file)


def _walk(directories: list[str], confine: str) -> Iterator[tuple[str, os.stat_result]]:
    seen: set[str] = set()
    waiting = list(reversed(directories))
    while waiting:
        directory = waiting.pop()
        real = os.path.realpath(directory)
        if real in seen or not f"{real}/".startswith(f"{confine}/"):
            continue
        seen.add(real)
        with os.scandir(directory) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir():
                    waiting.append(entry.path)
                if not entry.is_dir(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False)


def _content(path: str, status: os.stat_result) -> bytes:
    if stat.S_ISREG(status.st_mode):
        return b"%s %d" % (_file_digest(path), bool(status.st_mode & 0o111))
    if not stat.S_ISLNK(status.st_mode):
        return b"special"
    target = b"link " + os.fsencode(os.readlink(path))
    return target + b" " + _file_digest(path) if os.path.isfile(path) else target


def _file_digest(path: str) -> bytes:
    content = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            content.update(chunk)
    return content.hexdigest().encode()
