"""Files of the user: collected from messages (`Uploads`) and staged into `work/inputs/` (`UploadStager`).

Each file is staged once. From then on it belongs to the workspace: what a command changed, moved or deleted stays so.
In a workspace that is opened again, an unchanged file is kept, and a file with other content under the same name is
left alone: the user's file gets another name.
"""

import asyncio
import base64
import binascii
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
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
    """A file part of a message: its content as bytes or encoded text, or an id to download it by."""

    name: str = ""
    content: bytes | str = field(default=b"", repr=False)
    file_id: str = ""
    mime_type: str = ""

    @property
    def fingerprint(self) -> tuple[str, str, str, int, int]:
        """Equal for equal parts. Strings and bytes cache their hash, so this is cheap when repeated."""
        return self.name, self.mime_type, self.file_id, len(self.content), hash(self.content)


def parse_file_part(part: object) -> FilePart | None:
    """Parse a part of a message without decoding its content; None if it is not a file.

    Accepts `{"type": "file", "file": {"filename", "file_data", "file_id"}}`, `input_file` with the same fields next to
    the type, and `name`, `data`, `base64`, `file_url` and `mime_type` in either.
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
    """Decode content into bytes and the MIME type of a data URL; None if it is neither a data URL nor base64."""
    if isinstance(content, bytes):
        return content, ""
    if content[:5].lower() != "data:":
        data = _decode_base64(content)
        return None if data is None else (data, "")
    head, _, rest = content.partition(",")
    mime_type, *parameters = head[5:].split(";")
    if "base64" in map(str.lower, parameters):
        data = _decode_base64(rest)
    else:
        data = unquote_to_bytes(rest) if rest.isascii() else None
    return None if data is None else (data, mime_type.strip())


def estimate_min_size(content: bytes | str) -> int:
    """A lower bound of the decoded size, without decoding."""
    # In a data URL, one byte takes at most three characters.
    return len(content) if isinstance(content, bytes) else len(content) // 3 - 1024


def _decode_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        # It may have line breaks, the URL-safe alphabet, or no padding.
        mended = _BLANKS.sub("", text).translate(_URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(mended + "=" * (-len(mended) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _find_text(fields: Mapping[str, object], *names: str) -> str:
    return next((one for name in names if isinstance(one := fields.get(name), str) and one), "")


MAX_NAMED_FILES = 3
"""Files named per reason; the others are counted."""
MAX_REASONS = 10
"""Reasons described; files with other reasons are counted."""


class UploadProblems:
    """Unusable files, grouped by reason."""

    def __init__(self, found: Iterable[tuple[str, str]] = ()) -> None:
        self._by_reason: dict[str, list[str]] = {}
        for name, reason in found:
            self.add(name, reason)

    def add(self, name: str, reason: str) -> None:
        """Add a file by its display name."""
        self._by_reason.setdefault(reason, []).append(name)

    def describe(self) -> tuple[str, ...]:
        """One sentence per reason, in order of appearance."""
        described = [_describe_group(names, reason) for reason, names in self._by_reason.items()]
        rest = sum(len(names) for names in list(self._by_reason.values())[MAX_REASONS:])
        return (*described[:MAX_REASONS], *([f"{rest:,} more files are unavailable"] if rest else []))


def _describe_group(names: Sequence[str], reason: str) -> str:
    more = len(names) - MAX_NAMED_FILES
    shown = ", ".join(names[:MAX_NAMED_FILES]) + (f" and {more:,} more" if more > 0 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'} unavailable: {reason}"


DownloadCallback = Callable[[str], Awaitable[bytes]]
"""Downloads a file by the id that the model provider gave it."""


@dataclass(frozen=True, slots=True)
class UserUpload:
    """A file of the user: its original name, and its bytes or an id to download them by. Equal files share a `key`."""

    key: str
    name: str
    data: bytes | None = field(default=None, repr=False)
    file_id: str = ""
    mime_type: str = ""

    @property
    def display_name(self) -> str:
        """The name for messages."""
        return to_printable((self.name or self.file_id or "a file without a name")[:200])


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Maximum number of files in a conversation, and maximum bytes of each and of all."""

    files: int = 100
    file_bytes: int = 64 * MIB
    total_bytes: int = 256 * MIB


@dataclass(frozen=True, slots=True)
class WorkspaceUpload:
    """A staged file: its path in the workspace and its original name."""

    path: str
    original_name: str
    mime_type: str
    size: int


@dataclass(slots=True)
class WorkspaceUploads:
    """The staged files of one workspace by key; `reported` were shown to the model. `lock` serializes staging."""

    workspace: object
    files: dict[str, WorkspaceUpload] = field(default_factory=dict[str, WorkspaceUpload])
    reported: set[str] = field(default_factory=set[str])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Uploads:
    """The user's files in one conversation, in order of appearance, within the limits.

    `download` fetches files that have only an id, unless it begins with `artifact://`. `warned` are the problems that
    were shown to the model: sentences of `describe_problems`, and keys of files that could not be staged.
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
        """Add a file unless it is known. False if it exceeds a limit; then it is among the problems."""
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
        """Add the files of all user messages; broken or excess files become problems.

        Call it with the whole conversation each time: parts that were seen before are skipped.
        """
        for message in messages:
            if message.get("role") == "user":
                for name in ("content", "content_parts"):
                    parts = message.get(name)
                    if isinstance(parts, list | tuple):
                        self._add_parts(cast("Sequence[object]", parts))

    def all(self) -> tuple[UserUpload, ...]:
        """All usable files so far."""
        return tuple(self._files.values())

    def describe_problems(self) -> tuple[str, ...]:
        """One sentence for each reason why files are unavailable."""
        return self._problems.describe()

    def get_workspace_uploads(self, workspace: object) -> WorkspaceUploads:
        """The staged files of this workspace; a conversation has one workspace at a time."""
        if self._placed is None or self._placed.workspace is not workspace:
            self._placed = WorkspaceUploads(workspace)
        return self._placed

    def leave_workspace(self) -> None:
        """Forget what is staged, because the workspace was closed."""
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
            self._problems.add(to_printable(part.name[:200]) or "a file without a name", self._describe_fault(part))

    def _describe_fault(self, part: FilePart) -> str:
        if not part.content:
            return "it has neither content nor an id"
        if estimate_min_size(part.content) > self.limits.file_bytes:
            return self._describe_too_large()
        return "the content is not valid base64"

    def _find_exceeded_limit(self, size: int) -> str | None:
        limits = self.limits
        if size > limits.file_bytes:
            return self._describe_too_large()
        if len(self._files) >= limits.files:
            return f"too many files, at most {limits.files:,}"
        if self._bytes + size > limits.total_bytes:
            return f"all files together are too large, at most {limits.total_bytes:,} bytes"
        return None

    def _describe_too_large(self) -> str:
        return f"too large, at most {self.limits.file_bytes:,} bytes per file"


def upload_from_bytes(name: str, data: bytes, mime_type: str = "") -> UserUpload:
    """Make an upload from bytes."""
    if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - it comes from outside
        raise InvalidArgument("data", f"expected bytes, got {type(data).__name__}")
    return UserUpload(f"sha256/{hashlib.sha256(data).hexdigest()}/name/{name.lower()}", name, data, mime_type=mime_type)


DOWNLOAD_TIMEOUT = 120.0

_MAX_NAME_CHARS = 255
_MIME_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class UploadReport:
    """Newly staged files by key, and why others are unavailable.

    `missing` describes all unavailable files, `warnings` those that were not reported yet; `problems` are their keys
    for `Uploads.warned`.
    """

    files: dict[str, WorkspaceUpload]
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problems: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _UploadContent:
    """The content of a file that is being staged."""

    name: str
    content: Content
    size: int
    sha256: str
    mime_type: str


class UploadStager:
    """Stages the user's files into a workspace. Files that fail are reported as warnings and tried again."""

    def __init__(
        self, uploads: Uploads, workspace: Workspace, *, scope: Scope, artifacts: ArtifactStore | None = None
    ) -> None:
        self._uploads = uploads
        self._workspace = workspace
        self._scope = scope
        self._artifacts = artifacts

    async def stage(self) -> UploadReport:
        """Stage new files; concurrent calls wait for each other."""
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
            warnings=(*(one for one in broken if one not in warned), *UploadProblems(news.values()).describe()),
            missing=(*broken, *UploadProblems(failed.values()).describe()),
            problems=frozenset((*broken, *news)),
        )

    def mark_reported(self, arrivals: UploadReport) -> None:
        """Remember that the model was told about these."""
        self._uploads.get_workspace_uploads(self._workspace).reported.update(arrivals.files)
        self._uploads.warned.update(arrivals.problems)

    async def _stage_new(self, placed: WorkspaceUploads) -> dict[str, tuple[str, str]]:
        """Stage new files; return the name and reason of those that failed, by key."""
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
            if self._artifacts is None:
                raise SkillError("it is an artifact, and this session has no artifact store")
            name, version = parse_ref(upload.file_id, field="file_id")
            async with self._artifacts.open(self._scope, name, version) as reading:
                found = reading.artifact
                own = upload.name or PurePosixPath(name.removeprefix(USER_PREFIX)).name
                known = found.mime_type if found.mime_type != BINARY else detect_mime_type(own, b"")
                kind = _get_mime_type(upload) or known
                yield _UploadContent(own, reading.chunks, found.size, found.sha256, kind)
        else:
            yield _content_from_bytes(upload, await _download_file(self._uploads.download, upload.file_id))

    def _check_limits(self, size: int, placed: WorkspaceUploads) -> None:
        limits = self._uploads.limits
        if size > limits.file_bytes:
            raise LimitExceeded(f"too large: {size:,} bytes, at most {limits.file_bytes:,}")
        total = sum(file.size for file in placed.files.values())
        if total + size > limits.total_bytes:
            raise LimitExceeded(f"all files would have {total + size:,} bytes, at most {limits.total_bytes:,}")
        if len(placed.files) >= limits.files:
            raise LimitExceeded(f"too many files, at most {limits.files}")

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
        """Whether the path has this content already; None if it can be written."""
        digest = hashlib.sha256()
        try:
            async with self._workspace.open(path) as reading:
                if reading.info.size != fetched.size:
                    return False
                async for chunk in reading.chunks:
                    digest.update(chunk)
        except (InvalidArgument, ForbiddenPath):
            # Not a file, which is replaced, or a link that leads out, which cannot be written through.
            return None
        return digest.hexdigest() == fetched.sha256


def _get_mime_type(upload: UserUpload) -> str:
    kind = upload.mime_type.partition(";")[0].strip()
    return kind if _MIME_TYPE.fullmatch(kind) and kind != BINARY else ""


def _content_from_bytes(upload: UserUpload, data: bytes) -> _UploadContent:
    kind = _get_mime_type(upload) or detect_mime_type(upload.name, data)
    return _UploadContent(upload.name, data, len(data), hashlib.sha256(data).hexdigest(), kind)


async def _download_file(download: DownloadCallback | None, file_id: str) -> bytes:
    # In its own task: whatever goes wrong in the application's function must not cancel the run.
    shown = to_printable(file_id[:200])
    if download is None:
        raise SkillError(f"{shown} cannot be downloaded: no download function is set; send the file's content")
    task = asyncio.ensure_future(download(file_id))
    try:
        await asyncio.wait({task}, timeout=DOWNLOAD_TIMEOUT)
    finally:
        task.cancel()
    if not task.done():
        raise SkillError(f"the download of {shown} timed out after {DOWNLOAD_TIMEOUT:g} s")
    failure = "it was cancelled" if task.cancelled() else task.exception()
    if failure is not None:
        said = failure if isinstance(failure, str) else f"{type(failure).__name__}: {failure}"
        raise SkillError(f"{shown} could not be downloaded: {to_printable(said)[:300]}")
    data = task.result()
    if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - it comes from outside
        raise SkillError(f"the download of {shown} returned {type(data).__name__}, expected bytes")
    return data
