"""Files of the conversation.

Files of the conversation.

A file in a message, as somebody's chat format writes it down. Pure.

Files of a conversation that are no use, and why: few sentences, however many files. Pure.

Files that came with the conversation, as they are found in its messages. Reads nothing, and waits for nothing.

`upload_staging` puts them into a workspace.

Files of the conversation into a workspace, where commands find them: `work/inputs/`.

Each comes once. From then on it belongs to the workspace: what a command changed, moved or deleted there stays so.
A workspace that was opened again has its files from before; one that is still as the user gave it is taken as it is,
and what lies under its name otherwise is left alone: the user's file gets another name then.
"""

import asyncio
import base64
import binascii
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from openskills.artifacts.store import BINARY, SCHEME, USER_PREFIX, ArtifactStore, Content, Scope, parse_ref
from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SkillError
from openskills.executors.files.mime import detect_mime_type
from openskills.executors.files.tree import choose_upload_name
from openskills.executors.protocol import Workspace
from openskills.executors.spans import BYTES
from openskills.executors.spec import INPUTS, MIB
from openskills.paths import to_printable
from openskills.telemetry.metrics import count
from openskills.telemetry.spans import span

_TYPES = ("file", "input_file")
_NAMES = ("filename", "name")
_CONTENTS = ("file_data", "data", "base64")
_IDS = ("file_id", "file_url")
_BLANKS = re.compile(r"\s+")
_URL_SAFE = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True)
class FilePart:
    """What a part says: its content as bytes, or as text that has to be decoded; or an id by which it can be had."""

    name: str = ""
    content: bytes | str = field(default=b"", repr=False)
    file_id: str = ""
    mime_type: str = ""

    @property
    def fingerprint(self) -> tuple[str, str, str, int, int]:
        """The same for equal parts. Texts and bytes remember their hash, so the second time costs nothing."""
        return self.name, self.mime_type, self.file_id, len(self.content), hash(self.content)


def parse_file_part(part: object) -> FilePart | None:
    """The file in a part of a message, not decoded; None when it is something else.

    Understood are `{"type": "file", "file": {"filename", "file_data", "file_id"}}`, `input_file` with the same fields
    beside the type, and `name`, `data`, `base64`, `file_url` and `mime_type` in either.
    """
    if not isinstance(part, Mapping):
        return None
    given = cast("Mapping[str, object]", part)
    if given.get("type") not in _TYPES:
        return None
    inner = given.get("file")
    fields = cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else given
    content = next((one for key in _CONTENTS if isinstance(one := fields.get(key), bytes | str) and one), b"")
    return FilePart(_find_text(fields, *_NAMES), content, _find_text(fields, *_IDS), _find_text(fields, "mime_type"))


def decode_content(content: bytes | str) -> tuple[bytes, str] | None:
    """Bytes, and the MIME type that a data URL says; None for text that is neither a data URL nor base64."""
    if isinstance(content, bytes):
        return content, ""
    if content[:5].lower() != "data:":
        data = _decode_base64(content)
        return None if data is None else (data, "")
    head, _, rest = content.partition(",")
    mime_type, *parameters = head[5:].split(";")
    data = _decode_base64(rest) if "base64" in map(str.lower, parameters) else _unquote(rest)
    return None if data is None else (data, mime_type.strip())


def estimate_min_size(content: bytes | str) -> int:
    """A number of bytes that a content certainly has when it is decoded; costs nothing."""
    # In a data URL, three characters are one byte at worst.
    return len(content) if isinstance(content, bytes) else len(content) // 3 - 1024


def _decode_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        # Wrapped in lines, in the alphabet for URLs, or without its padding: all of these are written.
        mended = _BLANKS.sub("", text).translate(_URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(mended + "=" * (-len(mended) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _unquote(text: str) -> bytes | None:
    return unquote_to_bytes(text) if text.isascii() else None


def _find_text(fields: Mapping[str, object], *names: str) -> str:
    return next((one for name in names if isinstance(one := fields.get(name), str) and one), "")


MAX_NAMED_FILES = 3
"""So many files are named for one reason; the others are counted."""
MAX_REASONS = 10
"""So many reasons are told; for the others, the files are counted."""


@dataclass(slots=True)
class _FileGroup:
    """Those that are no use for one reason."""

    names: list[str] = field(default_factory=list[str])
    count: int = 0


class UploadProblems:
    """What is wrong with files, by reason."""

    def __init__(self) -> None:
        self._by_reason: dict[str, _FileGroup] = {}

    def add(self, name: str, reason: str) -> None:
        """One more file; `name` is as it can be shown."""
        files = self._by_reason.setdefault(reason, _FileGroup())
        files.count += 1
        if len(files.names) < MAX_NAMED_FILES:
            files.names.append(name)

    def describe(self) -> tuple[str, ...]:
        """One for each reason, in the order in which they were met."""
        told = [_describe_group(files, reason) for reason, files in self._by_reason.items()]
        rest = sum(files.count for files in list(self._by_reason.values())[MAX_REASONS:])
        return (*told[:MAX_REASONS], *([f"{rest:,} more files of the conversation are not there"] if rest else []))


def _describe_group(files: _FileGroup, reason: str) -> str:
    names = ", ".join(files.names)
    more = files.count - len(files.names)
    if more:
        names = f"{names} and {more:,} more"
    return f"{names} of the conversation {'is' if files.count == 1 else 'are'} not there: {reason}"


DownloadCallback = Callable[[str], Awaitable[bytes]]
"""Gets the bytes of a file by the id that a model's provider gave to it."""


@dataclass(frozen=True, slots=True)
class UserUpload:
    """One file of a user: its name as the user gave it, and its bytes, or an id by which they can be had.

    `key` is the same for the same file, however often it is met.
    """

    key: str
    name: str
    data: bytes | None = field(default=None, repr=False)
    file_id: str = ""
    mime_type: str = ""

    @property
    def display_name(self) -> str:
        """How a sentence calls it."""
        return to_printable((self.name or self.file_id or "a file without a name")[:200])


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """How many files of a conversation come into a workspace, and how many bytes each and all of them may have."""

    files: int = 100
    file_bytes: int = 64 * MIB
    total_bytes: int = 256 * MIB


@dataclass(frozen=True, slots=True)
class WorkspaceUpload:
    """A file of the conversation in a workspace: where it is, and what it was called."""

    path: str
    original_name: str
    mime_type: str
    size: int


@dataclass(slots=True)
class WorkspaceUploads:
    """What is in one workspace, by key. `told` are those of which a model has heard. `turn` is had by who stages."""

    workspace: object
    files: dict[str, WorkspaceUpload] = field(default_factory=dict[str, WorkspaceUpload])
    reported: set[str] = field(default_factory=set[str])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Uploads:
    """The files of one conversation, in the order in which they were met. No more is held than the limits allow.

    `download` gets what is only there as an id, unless that begins with `artifact://`. `warned` is of which problems a
    model has heard: sentences of `problems`, and keys of files that could not be staged.
    """

    def __init__(self, *, download: DownloadCallback | None = None, limits: UploadLimits | None = None) -> None:
        self.download = download
        self.limits = limits or UploadLimits()
        self.warned: set[str] = set()
        self._files: dict[str, UserUpload] = {}
        self._bytes = 0
        self._seen: set[object] = set()
        self._problems = UploadProblems()
        self._placed: WorkspaceUploads | None = None

    def add(self, upload: UserUpload) -> bool:
        """Remember a file; one that is known already is not remembered twice.

        One that is over the limits is not remembered at all: it is among the problems, and the answer is false.
        """
        if upload.key in self._files:
            return True
        size = len(upload.data or b"")
        fault = self._find_exceeded_limit(size)
        if fault is None:
            self._files[upload.key] = upload
            self._bytes += size
        elif upload.key not in self._seen:
            self._seen.add(upload.key)
            self._problems.add(upload.display_name, fault)
        return fault is None

    def add_from_messages(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Remember the files of all user messages; what is broken or too much is among the problems.

        Meant to be called with the whole conversation, again and again: a part that was met before is only compared.
        """
        for message in messages:
            if message.get("role") == "user":
                for name in ("content", "content_parts"):
                    parts = message.get(name)
                    if isinstance(parts, list | tuple):
                        self._add_parts(cast("Sequence[object]", parts))

    def all(self) -> tuple[UserUpload, ...]:
        """Every file so far that is of use."""
        return tuple(self._files.values())

    def describe_problems(self) -> tuple[str, ...]:
        """A sentence for each reason for which files are no use."""
        return self._problems.describe()

    def get_workspace_uploads(self, workspace: object) -> WorkspaceUploads:
        """What is in this workspace. Only the latest is remembered: a conversation has one at a time."""
        if self._placed is None or self._placed.workspace is not workspace:
            self._placed = WorkspaceUploads(workspace)
        return self._placed

    def leave_workspace(self) -> None:
        """The workspace is closed. Nothing is known about the next one, even if it is the same directory."""
        self._placed = None

    def _add_parts(self, parts: Sequence[object]) -> None:
        for part in parts:
            found = parse_file_part(part)
            if found is not None and (fingerprint := found.fingerprint) not in self._seen:
                self._seen.add(fingerprint)
                self._add_part(found)

    def _add_part(self, part: FilePart) -> None:
        content = None
        if part.content and estimate_min_size(part.content) <= self.limits.file_bytes:
            content = decode_content(part.content)
        if content is not None:
            self.add(upload_from_bytes(part.name, content[0], part.mime_type or content[1]))
        elif part.file_id:
            key = f"file_id/{part.file_id}/name/{part.name.lower()}"
            self.add(UserUpload(key, part.name, None, part.file_id, part.mime_type))
        else:
            self._problems.add(_format_name(part), self._describe_fault(part))

    def _describe_fault(self, part: FilePart) -> str:
        if not part.content:
            return "there is neither content nor an id"
        if estimate_min_size(part.content) > self.limits.file_bytes:
            return self._describe_too_large()
        return "the content is no base64"

    def _find_exceeded_limit(self, size: int) -> str | None:
        """Which limit one more file of this size would break."""
        limits = self.limits
        if size > limits.file_bytes:
            return self._describe_too_large()
        if len(self._files) >= limits.files:
            return f"{limits.files:,} files are the most"
        if self._bytes + size > limits.total_bytes:
            return f"{limits.total_bytes:,} bytes are the most for all files together"
        return None

    def _describe_too_large(self) -> str:
        return f"{self.limits.file_bytes:,} bytes are the most for one file"


def upload_from_bytes(name: str, data: bytes, mime_type: str = "") -> UserUpload:
    """A file whose bytes are at hand."""
    if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - it comes from outside
        raise InvalidArgument("data", f"is {type(data).__name__}; give bytes")
    return UserUpload(f"sha256/{hashlib.sha256(data).hexdigest()}/name/{name.lower()}", name, data, mime_type=mime_type)


def _format_name(part: FilePart) -> str:
    return to_printable(part.name[:200]) or "a file without a name"


DOWNLOAD_TIMEOUT = 120.0

_MAX_NAME_CHARS = 255
_MIME_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class UploadReport:
    """Files of the conversation that a model has not heard of yet, by key, and what is wrong with others.

    `missing` is what is not there and why, `warnings` that of it which a model has not heard of; `problems` are its
    keys in `Uploads.warned`.
    """

    files: dict[str, WorkspaceUpload]
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problems: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _UploadContent:
    """A file whose bytes can be had now."""

    name: str
    content: Content
    size: int
    sha256: str
    mime_type: str


class UploadStager:
    """Puts the files of a conversation into a workspace. What cannot be had is a warning, and is tried again."""

    def __init__(
        self, uploads: Uploads, workspace: Workspace, *, scope: Scope, artifacts: ArtifactStore | None = None
    ) -> None:
        self._uploads = uploads
        self._workspace = workspace
        self._scope = scope
        self._artifacts = artifacts

    async def stage(self) -> UploadReport:
        """Stage what is not there yet. Whoever asks at the same time waits."""
        placed, broken = self._uploads.get_workspace_uploads(self._workspace), self._uploads.describe_problems()
        failed: dict[str, tuple[str, str]] = {}
        if any(upload.key not in placed.files for upload in self._uploads.all()):
            async with placed.lock:
                failed = await self._stage_new(placed)
        files = {key: file for key, file in placed.files.items() if key not in placed.reported}
        warned = self._uploads.warned
        news = {key: about for key, about in failed.items() if key not in warned}
        return UploadReport(
            files,
            warnings=(*(one for one in broken if one not in warned), *_describe_failures(news)),
            missing=(*broken, *_describe_failures(failed)),
            problems=frozenset((*broken, *news)),
        )

    def mark_reported(self, arrivals: UploadReport) -> None:
        """A model has heard of these."""
        self._uploads.get_workspace_uploads(self._workspace).reported.update(arrivals.files)
        self._uploads.warned.update(arrivals.problems)

    async def _stage_new(self, placed: WorkspaceUploads) -> dict[str, tuple[str, str]]:
        """What could not be staged, by key: how it is called, and why."""
        waiting = [upload for upload in self._uploads.all() if upload.key not in placed.files]
        failed: dict[str, tuple[str, str]] = {}
        with span("workspace.stage.uploads", {"workspace.inputs": len(waiting)}) as watched:
            for upload in waiting:
                reason = await self._stage_one(upload, placed)
                if reason is not None:
                    failed[upload.key] = upload.display_name, reason
            arrived = [file.size for upload in waiting if (file := placed.files.get(upload.key)) is not None]
            watched.set({"workspace.files": len(arrived), "workspace.bytes": sum(arrived)})
        count(BYTES, sum(arrived), flow="staged")
        return failed

    async def _stage_one(self, upload: UserUpload, placed: WorkspaceUploads) -> str | None:
        try:
            async with self._open_content(upload) as fetched:
                self._check_limits(fetched.size, placed)
                placed.files[upload.key] = await self._write_upload(fetched, upload, placed)
        except SkillError as error:
            return error.message
        except OSError as error:
            return error.strerror or str(error)
        return None

    @asynccontextmanager
    async def _open_content(self, upload: UserUpload) -> AsyncGenerator[_UploadContent]:
        if upload.data is not None:
            yield _content_from_bytes(upload, upload.data)
        elif upload.file_id.startswith(SCHEME):
            async with self._open_artifact(upload) as fetched:
                yield fetched
        else:
            yield _content_from_bytes(upload, await _download_file(self._uploads.download, upload.file_id))

    @asynccontextmanager
    async def _open_artifact(self, upload: UserUpload) -> AsyncGenerator[_UploadContent]:
        if self._artifacts is None:
            raise SkillError("it is an artifact, and there is no artifact store")
        name, version = parse_ref(upload.file_id, field="file_id")
        async with self._artifacts.open(self._scope, name, version) as reading:
            found = reading.artifact
            own = upload.name or PurePosixPath(name.removeprefix(USER_PREFIX)).name
            known = _get_mime_type(upload) or (
                found.mime_type if found.mime_type != BINARY else detect_mime_type(own, b"")
            )
            yield _UploadContent(own, reading.chunks, found.size, found.sha256, known)

    def _check_limits(self, size: int, placed: WorkspaceUploads) -> None:
        limits = self._uploads.limits
        if size > limits.file_bytes:
            raise LimitExceeded(f"it has {size:,} bytes; {limits.file_bytes:,} is the most")
        total = sum(file.size for file in placed.files.values())
        if total + size > limits.total_bytes:
            raise LimitExceeded(f"with it there would be {total + size:,} bytes; {limits.total_bytes:,} is the most")
        if len(placed.files) >= limits.files:
            raise LimitExceeded(f"{limits.files} files are the most")

    async def _write_upload(
        self, fetched: _UploadContent, upload: UserUpload, placed: WorkspaceUploads
    ) -> WorkspaceUpload:
        taken = {PurePosixPath(file.path).name for file in placed.files.values()}
        while True:
            name = choose_upload_name(fetched.name, taken)
            path = f"{INPUTS}/{name}"
            is_it = await self._compare_file(path, fetched)
            if is_it is None:
                await self._workspace.write(path, fetched.content)
            if is_it is not False:
                original = to_printable(upload.name or fetched.name)[:_MAX_NAME_CHARS]
                return WorkspaceUpload(path, original, fetched.mime_type, fetched.size)
            taken.add(name)

    async def _compare_file(self, path: str, fetched: _UploadContent) -> bool | None:
        """Whether a file lies at a path already; None when nothing does."""
        digest = hashlib.sha256()
        try:
            async with self._workspace.open(path) as reading:
                if reading.info.size != fetched.size:
                    return False
                async for chunk in reading.chunks:
                    digest.update(chunk)
        except (InvalidArgument, ForbiddenPath):
            # No file, or a link that leaves: the one is replaced, and through the other nothing can be written.
            return None
        return digest.hexdigest() == fetched.sha256


def _describe_failures(failed: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    found = UploadProblems()
    for name, reason in failed.values():
        found.add(name, reason)
    return found.describe()


def _get_mime_type(upload: UserUpload) -> str:
    """The MIME type that a file came with, when it is one."""
    kind = upload.mime_type.partition(";")[0].strip()
    return kind if _MIME_TYPE.fullmatch(kind) and kind != BINARY else ""


def _content_from_bytes(upload: UserUpload, data: bytes) -> _UploadContent:
    kind = _get_mime_type(upload) or detect_mime_type(upload.name, data)
    return _UploadContent(upload.name, data, len(data), hashlib.sha256(data).hexdigest(), kind)


async def _download_file(download: DownloadCallback | None, file_id: str) -> bytes:
    """What a caller's own function brings. Whatever goes wrong in it must not cost the run, so it has its own task."""
    shown = to_printable(file_id[:200])
    if download is None:
        raise SkillError(f"{shown} cannot be downloaded here; send the file's content")
    task = asyncio.ensure_future(download(file_id))
    try:
        await asyncio.wait({task}, timeout=DOWNLOAD_TIMEOUT)
    finally:
        task.cancel()
    if not task.done():
        raise SkillError(f"{shown} could not be downloaded within {DOWNLOAD_TIMEOUT:g} seconds")
    failure = "it was cancelled" if task.cancelled() else task.exception()
    if failure is not None:
        said = failure if isinstance(failure, str) else f"{type(failure).__name__}: {failure}"
        raise SkillError(f"{shown} could not be downloaded: {to_printable(said)[:300]}")
    data = task.result()
    if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - it comes from outside
        raise SkillError(f"{shown} came as {type(data).__name__}, not as bytes")
    return data
