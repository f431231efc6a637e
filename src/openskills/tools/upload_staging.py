"""Files of the conversation into a workspace, where commands find them: `work/inputs/`.

Each comes once. From then on it belongs to the workspace: what a command changed, moved or deleted there stays so.
A workspace that was opened again has its files from before; one that is still as the user gave it is taken as it is,
and what lies under its name otherwise is left alone: the user's file gets another name then.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from openskills.artifacts.ref import SCHEME, USER_PREFIX, parse_ref
from openskills.artifacts.store import BINARY, ArtifactStore, Content, Scope
from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SkillError
from openskills.executors.files.mime import mime_type
from openskills.executors.files.uploads import upload_name
from openskills.executors.layout import INPUTS
from openskills.executors.protocol import Workspace
from openskills.executors.watching import BYTES
from openskills.paths import printable
from openskills.tools.upload_problems import Problems
from openskills.tools.uploads import Download, Placed, StagedUpload, Upload, Uploads
from openskills.trace import count, span

DOWNLOAD_SECONDS = 120.0

_LONGEST_NAME = 255
_MIME_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Files of the conversation that a model has not heard of yet, by key, and what is wrong with others.

    `missing` is what is not there and why, `warnings` that of it which a model has not heard of; `problems` are its
    keys in `Uploads.warned`.
    """

    files: dict[str, StagedUpload]
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problems: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A file whose bytes can be had now."""

    name: str
    content: Content
    size: int
    sha256: str
    mime_type: str


class UploadStaging:
    """Puts the files of a conversation into a workspace. What cannot be had is a warning, and is tried again."""

    def __init__(
        self, uploads: Uploads, workspace: Workspace, *, scope: Scope, artifacts: ArtifactStore | None = None
    ) -> None:
        self._uploads = uploads
        self._workspace = workspace
        self._scope = scope
        self._artifacts = artifacts

    async def arrive(self) -> Arrivals:
        """Stage what is not there yet. Whoever asks at the same time waits."""
        placed, broken = self._uploads.placed(self._workspace), self._uploads.problems()
        failed: dict[str, tuple[str, str]] = {}
        if any(upload.key not in placed.files for upload in self._uploads.all()):
            async with placed.turn:
                failed = await self._staged(placed)
        files = {key: file for key, file in placed.files.items() if key not in placed.told}
        warned = self._uploads.warned
        news = {key: about for key, about in failed.items() if key not in warned}
        return Arrivals(
            files,
            warnings=(*(one for one in broken if one not in warned), *_sentences(news)),
            missing=(*broken, *_sentences(failed)),
            problems=frozenset((*broken, *news)),
        )

    def told(self, arrivals: Arrivals) -> None:
        """A model has heard of these."""
        self._uploads.placed(self._workspace).told.update(arrivals.files)
        self._uploads.warned.update(arrivals.problems)

    async def _staged(self, placed: Placed) -> dict[str, tuple[str, str]]:
        """What could not be staged, by key: how it is called, and why."""
        waiting = [upload for upload in self._uploads.all() if upload.key not in placed.files]
        failed: dict[str, tuple[str, str]] = {}
        with span("workspace.stage.uploads", {"workspace.inputs": len(waiting)}) as watched:
            for upload in waiting:
                reason = await self._one(upload, placed)
                if reason is not None:
                    failed[upload.key] = upload.shown, reason
            arrived = [file.size for upload in waiting if (file := placed.files.get(upload.key)) is not None]
            watched.set({"workspace.files": len(arrived), "workspace.bytes": sum(arrived)})
        count(BYTES, sum(arrived), flow="staged")
        return failed

    async def _one(self, upload: Upload, placed: Placed) -> str | None:
        try:
            async with self._fetched(upload) as fetched:
                self._check(fetched.size, placed)
                placed.files[upload.key] = await self._put(fetched, upload, placed)
        except SkillError as error:
            return error.message
        except OSError as error:
            return error.strerror or str(error)
        return None

    @asynccontextmanager
    async def _fetched(self, upload: Upload) -> AsyncGenerator[_Fetched]:
        if upload.data is not None:
            yield _of_bytes(upload, upload.data)
        elif upload.file_id.startswith(SCHEME):
            async with self._from_store(upload) as fetched:
                yield fetched
        else:
            yield _of_bytes(upload, await _downloaded(self._uploads.download, upload.file_id))

    @asynccontextmanager
    async def _from_store(self, upload: Upload) -> AsyncGenerator[_Fetched]:
        if self._artifacts is None:
            raise SkillError("it is an artifact, and there is no artifact store")
        name, version = parse_ref(upload.file_id, field="file_id")
        async with self._artifacts.open(self._scope, name, version) as reading:
            found = reading.artifact
            own = upload.name or PurePosixPath(name.removeprefix(USER_PREFIX)).name
            known = _given(upload) or (found.mime_type if found.mime_type != BINARY else mime_type(own, b""))
            yield _Fetched(own, reading.chunks, found.size, found.sha256, known)

    def _check(self, size: int, placed: Placed) -> None:
        limits = self._uploads.limits
        if size > limits.file_bytes:
            raise LimitExceeded(f"it has {size:,} bytes; {limits.file_bytes:,} is the most")
        total = sum(file.size for file in placed.files.values())
        if total + size > limits.total_bytes:
            raise LimitExceeded(f"with it there would be {total + size:,} bytes; {limits.total_bytes:,} is the most")
        if len(placed.files) >= limits.files:
            raise LimitExceeded(f"{limits.files} files are the most")

    async def _put(self, fetched: _Fetched, upload: Upload, placed: Placed) -> StagedUpload:
        taken = {PurePosixPath(file.path).name for file in placed.files.values()}
        while True:
            name = upload_name(fetched.name, taken)
            path = f"{INPUTS}/{name}"
            is_it = await self._is_at(path, fetched)
            if is_it is None:
                await self._workspace.write(path, fetched.content)
            if is_it is not False:
                original = printable(upload.name or fetched.name)[:_LONGEST_NAME]
                return StagedUpload(path, original, fetched.mime_type, fetched.size)
            taken.add(name)

    async def _is_at(self, path: str, fetched: _Fetched) -> bool | None:
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


def _sentences(failed: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    found = Problems()
    for name, reason in failed.values():
        found.add(name, reason)
    return found.sentences()


def _given(upload: Upload) -> str:
    """The MIME type that a file came with, when it is one."""
    kind = upload.mime_type.partition(";")[0].strip()
    return kind if _MIME_TYPE.fullmatch(kind) and kind != BINARY else ""


def _of_bytes(upload: Upload, data: bytes) -> _Fetched:
    kind = _given(upload) or mime_type(upload.name, data)
    return _Fetched(upload.name, data, len(data), hashlib.sha256(data).hexdigest(), kind)


async def _downloaded(download: Download | None, file_id: str) -> bytes:
    """What a caller's own function brings. Whatever goes wrong in it must not cost the run, so it has its own task."""
    shown = printable(file_id[:200])
    if download is None:
        raise SkillError(f"{shown} cannot be downloaded here; send the file's content")
    task = asyncio.ensure_future(download(file_id))
    try:
        await asyncio.wait({task}, timeout=DOWNLOAD_SECONDS)
    finally:
        task.cancel()
    if not task.done():
        raise SkillError(f"{shown} could not be downloaded within {DOWNLOAD_SECONDS:g} seconds")
    failure = "it was cancelled" if task.cancelled() else task.exception()
    if failure is not None:
        said = failure if isinstance(failure, str) else f"{type(failure).__name__}: {failure}"
        raise SkillError(f"{shown} could not be downloaded: {printable(said)[:300]}")
    data = task.result()
    if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - it comes from outside
        raise SkillError(f"{shown} came as {type(data).__name__}, not as bytes")
    return data
