"""Trust in the skills and files of projects: the user's decisions, bound to a digest of the content.

When anything in a folder changes, its digest changes and the decision does not apply any more.
"""

import hashlib
import json
import os
import stat
import time
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

from openskills.catalog.skill import TICK_NS, Stamp, stamp_of
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.filesystem import lock_file, replace_file


class TrustAnswer(StrEnum):
    """The user's answer to whether skills may be used."""

    YES = "yes"
    NO = "no"


@dataclass(frozen=True, slots=True)
class TrustDecision:
    """The answer about one folder or file with one content. `project` is the real path of its project, or a server."""

    project: str
    digest: str
    answer: TrustAnswer
    at: str

    def answer_for(self, digest: str) -> TrustAnswer | None:
        """The answer if it was given for this digest, otherwise None."""
        return self.answer if self.digest == digest else None


class TrustStore:
    """Decisions by real path in one file with mode 0600, safe to change from several processes."""

    def __init__(self, directory: Path, name: str = "trust") -> None:
        self._file = directory / f"{name}.json"

    def read_decisions(self) -> dict[str, TrustDecision]:
        """All decisions. Raises `InvalidArgument` when the file is damaged, or another user could have written it."""
        try:
            with self._file.open("rb") as file:
                self._check_owner(os.fstat(file.fileno()))
                content: Any = json.loads(file.read())
            return {str(place): _parse_decision(entry) for place, entry in content["places"].items()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InvalidArgument(self._file.name, f"{self._file} cannot be read: {error.strerror}") from None
        except (ValueError, LookupError, TypeError, AttributeError):
            raise InvalidArgument(self._file.name, f"{self._file} is damaged; repair or remove it") from None

    def is_trusted(self, place: str | os.PathLike[str], digest: str) -> bool:
        decision = self.read_decisions().get(os.path.realpath(place))
        return decision is not None and decision.answer_for(digest) is TrustAnswer.YES

    def _check_owner(self, found: os.stat_result) -> None:
        for path, status in ((self._file, found), (self._file.parent, self._file.parent.stat())):
            if status.st_uid not in (0, os.geteuid()):
                raise InvalidArgument(self._file.name, f"{path} belongs to another user; remove it")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                message = f"other users can write to {path}, so its decisions do not count; run: chmod go-w {path}"
                raise InvalidArgument(self._file.name, message)

    def remember(self, project: Path | str, digests: Mapping[str, str], answer: TrustAnswer) -> None:
        """Store one answer for some folders of a project (real path to digest), replacing earlier ones.

        For the skills of a server, `project` is its name, and the keys are the name and the URI of each skill.
        """
        if not digests:
            return
        at = datetime.now(UTC).isoformat(timespec="seconds")
        found = project if isinstance(project, str) else os.path.realpath(project)
        with self._edit_decisions() as decisions:
            decisions.update({place: TrustDecision(found, digest, answer, at) for place, digest in digests.items()})

    def forget(self, places: Collection[str]) -> None:
        if not places:
            return
        with self._edit_decisions() as decisions:
            for place in places:
                decisions.pop(place, None)

    @contextmanager
    def _edit_decisions(self) -> Generator[dict[str, TrustDecision]]:
        """The decisions, locked; changes made in the block are saved."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_file(self._file.with_suffix(".lock")):
            decisions = self.read_decisions()
            yield decisions
            content = {"places": {place: asdict(decision) for place, decision in decisions.items()}}
            replace_file(self._file, json.dumps(content, indent=2, sort_keys=True).encode(), durable=True)


def _parse_decision(entry: Any) -> TrustDecision:
    return TrustDecision(str(entry["project"]), str(entry["digest"]), TrustAnswer(entry["answer"]), str(entry["at"]))


MAX_ENTRIES = 20_000
MAX_BYTES = 512 * 1024 * 1024
_CHUNK = 1024 * 1024
# O_NONBLOCK: the file may have been replaced by a FIFO, which must not block.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def hash_folder(folder: Path, confine: Path) -> tuple[str, dict[str, Stamp]]:
    """A digest over every file in `folder`: names, content, executable bits, and links with their targets.

    The content behind a link counts if it is in `confine`; no other link is ever followed to a skill. The digest does
    not depend on the path by which the folder is reached. The second value has the stamp of every file and link that
    was hashed, by real path: as long as a stamp is the same, so is the content. Raises `LimitExceeded` for too many
    files or bytes, and `OSError` when something cannot be read.
    """
    hashing = _FolderDigest(folder, confine)
    return hashing.run(), hashing.stamps


class _FolderDigest:
    def __init__(self, folder: Path, confine: Path) -> None:
        self._shown = folder
        self._top = os.path.realpath(folder)
        self._confine = Path(os.path.realpath(confine))
        self._entries = MAX_ENTRIES
        self._bytes = MAX_BYTES
        self.stamps: dict[str, Stamp] = {}

    def run(self) -> str:
        whole = hashlib.sha256()
        for path in self._walk():
            name = os.fsencode(os.path.relpath(path, self._top))
            # Neither can contain a NUL, so different lists of files give different bytes.
            whole.update(b"%s\0%s\0" % (name, self._digest_entry(path)))
        return whole.hexdigest()

    def _walk(self) -> Iterator[str]:
        """Every file and link, each directory once, in an order that depends on the names only."""
        seen: set[str] = set()
        waiting = [self._top]
        while waiting:
            directory = waiting.pop()
            real = os.path.realpath(directory)
            if real in seen or not self._is_confined(real):
                continue
            seen.add(real)
            for entry in self._list_entries(directory):
                is_directory = entry.is_dir(follow_symlinks=False)
                if is_directory or (entry.is_symlink() and os.path.isdir(entry.path)):
                    waiting.append(entry.path)
                if not is_directory:
                    yield entry.path

    def _list_entries(self, directory: str) -> list[os.DirEntry[str]]:
        with os.scandir(directory) as entries:
            found = list(islice(entries, self._entries + 1))
        self._entries -= len(found)
        self._check_limits()
        return sorted(found, key=lambda entry: entry.name)

    def _digest_entry(self, path: str) -> bytes:
        if not os.path.islink(path):
            return self._digest_file(path)
        real = os.path.realpath(path)
        counts = self._is_confined(real) and os.path.isfile(real)
        self.stamps[_resolve_parent(path)] = stamp_of(os.lstat(path))
        return b"link %s %s" % (self._digest_file(real) if counts else b"-", os.fsencode(os.readlink(path)))

    def _digest_file(self, path: str) -> bytes:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return b"special"
        with open(os.open(path, _FLAGS), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_ctime_ns > time.time_ns() - TICK_NS:
                # Another change could leave the same stamp.
                time.sleep(TICK_NS / 1e9)
                status = os.fstat(file.fileno())
            self.stamps[_resolve_parent(path)] = stamp_of(status)
            self._bytes -= status.st_size
            self._check_limits()
            content = hashlib.sha256()
            left = status.st_size
            while chunk := file.read(min(left, _CHUNK)):
                content.update(chunk)
                left -= len(chunk)
        return b"file %d %s" % (bool(status.st_mode & 0o111), content.hexdigest().encode())

    def _is_confined(self, real: str) -> bool:
        return Path(real).is_relative_to(self._confine)

    def _check_limits(self) -> None:
        if self._entries < 0 or self._bytes < 0:
            limits = f"{MAX_ENTRIES:,} files and folders or {MAX_BYTES:,} bytes"
            raise LimitExceeded(f"{self._shown} has more than {limits}; move other files out of it")


def _resolve_parent(path: str) -> str:
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
