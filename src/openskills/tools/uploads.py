"""Files that came with the conversation, as they are found in its messages. Reads nothing, and waits for nothing.

`upload_staging` puts them into a workspace.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from openskills.errors import InvalidArgument
from openskills.executors.spec import MIB
from openskills.paths import printable
from openskills.tools.run_upload_parts import FilePart, decoded, file_part, size_at_least
from openskills.tools.upload_problems import Problems

Download = Callable[[str], Awaitable[bytes]]
"""Gets the bytes of a file by the id that a model's provider gave to it."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One file of a user: its name as the user gave it, and its bytes, or an id by which they can be had.

    `key` is the same for the same file, however often it is met.
    """

    key: str
    name: str
    data: bytes | None = field(default=None, repr=False)
    file_id: str = ""
    mime_type: str = ""

    @property
    def shown(self) -> str:
        """How a sentence calls it."""
        return printable((self.name or self.file_id or "a file without a name")[:200])


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """How many files of a conversation come into a workspace, and how many bytes each and all of them may have."""

    files: int = 100
    file_bytes: int = 64 * MIB
    total_bytes: int = 256 * MIB


@dataclass(frozen=True, slots=True)
class StagedUpload:
    """A file of the conversation in a workspace: where it is, and what it was called."""

    path: str
    original_name: str
    mime_type: str
    size: int


@dataclass(slots=True)
class Placed:
    """What is in one workspace, by key. `told` are those of which a model has heard. `turn` is had by who stages."""

    workspace: object
    files: dict[str, StagedUpload] = field(default_factory=dict[str, StagedUpload])
    told: set[str] = field(default_factory=set[str])
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Uploads:
    """The files of one conversation, in the order in which they were met. No more is held than the limits allow.

    `download` gets what is only there as an id, unless that begins with `artifact://`. `warned` is of which problems a
    model has heard: sentences of `problems`, and keys of files that could not be staged.
    """

    def __init__(self, *, download: Download | None = None, limits: UploadLimits | None = None) -> None:
        self.download = download
        self.limits = limits or UploadLimits()
        self.warned: set[str] = set()
        self._files: dict[str, Upload] = {}
        self._bytes = 0
        self._seen: set[object] = set()
        self._problems = Problems()
        self._placed: Placed | None = None

    def add(self, upload: Upload) -> bool:
        """Remember a file; one that is known already is not remembered twice.

        One that is over the limits is not remembered at all: it is among the problems, and the answer is false.
        """
        if upload.key in self._files:
            return True
        size = len(upload.data or b"")
        fault = self._over(size)
        if fault is None:
            self._files[upload.key] = upload
            self._bytes += size
        elif upload.key not in self._seen:
            self._seen.add(upload.key)
            self._problems.add(upload.shown, fault)
        return fault is None

    def note(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Remember the files of all user messages; what is broken or too much is among the problems.

        Meant to be called with the whole conversation, again and again: a part that was met before is only compared.
        """
        for message in messages:
            if message.get("role") == "user":
                for name in ("content", "content_parts"):
                    parts = message.get(name)
                    if isinstance(parts, list | tuple):
                        self._note_parts(cast("Sequence[object]", parts))

    def all(self) -> tuple[Upload, ...]:
        """Every file so far that is of use."""
        return tuple(self._files.values())

    def problems(self) -> tuple[str, ...]:
        """A sentence for each reason for which files are no use."""
        return self._problems.sentences()

    def placed(self, workspace: object) -> Placed:
        """What is in this workspace. Only the latest is remembered: a conversation has one at a time."""
        if self._placed is None or self._placed.workspace is not workspace:
            self._placed = Placed(workspace)
        return self._placed

    def leave(self) -> None:
        """The workspace is closed. Nothing is known about the next one, even if it is the same directory."""
        self._placed = None

    def _note_parts(self, parts: Sequence[object]) -> None:
        for part in parts:
            found = file_part(part)
            if found is not None and (fingerprint := found.fingerprint) not in self._seen:
                self._seen.add(fingerprint)
                self._note(found)

    def _note(self, part: FilePart) -> None:
        content = None
        if part.content and size_at_least(part.content) <= self.limits.file_bytes:
            content = decoded(part.content)
        if content is not None:
            self.add(upload_of(part.name, content[0], part.mime_type or content[1]))
        elif part.file_id:
            key = f"file_id/{part.file_id}/name/{part.name.lower()}"
            self.add(Upload(key, part.name, None, part.file_id, part.mime_type))
        else:
            self._problems.add(_shown(part), self._fault(part))

    def _fault(self, part: FilePart) -> str:
        if not part.content:
            return "there is neither content nor an id"
        if size_at_least(part.content) > self.limits.file_bytes:
            return self._too_large()
        return "the content is no base64"

    def _over(self, size: int) -> str | None:
        """Which limit one more file of this size would break."""
        limits = self.limits
        if size > limits.file_bytes:
            return self._too_large()
        if len(self._files) >= limits.files:
            return f"{limits.files:,} files are the most"
        if self._bytes + size > limits.total_bytes:
            return f"{limits.total_bytes:,} bytes are the most for all files together"
        return None

    def _too_large(self) -> str:
        return f"{self.limits.file_bytes:,} bytes are the most for one file"


def upload_of(name: str, data: bytes, mime_type: str = "") -> Upload:
    """A file whose bytes are at hand."""
    if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - it comes from outside
        raise InvalidArgument("data", f"is {type(data).__name__}; give bytes")
    return Upload(f"sha256/{hashlib.sha256(data).hexdigest()}/name/{name.lower()}", name, data, mime_type=mime_type)


def _shown(part: FilePart) -> str:
    return printable(part.name[:200]) or "a file without a name"
