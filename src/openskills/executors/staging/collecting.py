"""Bringing files back from a workspace: written once, for all executors. Bytes all the way."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from openskills.artifacts.store import Artifact, ArtifactStore, Scope
from openskills.errors import SkillError
from openskills.executors.files.mime import SNIFFED, mime_type
from openskills.executors.layout import expanded
from openskills.executors.protocol import Workspace
from openskills.executors.spec import FileInfo
from openskills.executors.staging.outputs import OutputFile, OutputSpec
from openskills.executors.watching import BYTES
from openskills.paths import printable
from openskills.trace import count, span

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Collected:
    """The files, sorted by path, and what the caller should know about those that are missing or cut."""

    files: tuple[OutputFile, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Saved:
    """The artifacts, in the order of the files, and what became of files that are none."""

    artifacts: tuple[Artifact, ...]
    warnings: tuple[str, ...] = ()


async def collect(
    workspace: Workspace, spec: OutputSpec, *, since: int | None = None, run_dir: str | None = None
) -> Collected:
    """The files that match and were changed since a mark, with as much content as the limits allow.

    What is neither file nor readable is a warning and loses nothing else. Raises what `Workspace.list` raises.
    """
    with span("workspace.collect", {"workspace.patterns": len(spec.globs)}) as watched:
        watched.show({"workspace.globs": spec.globs})
        collected = await _collected(workspace, spec, since, run_dir)
        size = sum(len(file.data) for file in collected.files)
        watched.set({"workspace.files": len(collected.files), "workspace.bytes": size})
        watched.set({"workspace.warnings": len(collected.warnings)})
    count(BYTES, size, flow="collected")
    return collected


def without_empty(collected: Collected) -> Collected:
    """A failed command leaves empty files where its output was redirected to: those mean nothing."""
    files = tuple(file for file in collected.files if file.size)
    left_out = len(collected.files) - len(files)
    if not left_out:
        return collected
    note = f"{left_out} empty output files of a failed command were left out"
    return replace(collected, files=files, warnings=(*collected.warnings, note))


async def _collected(workspace: Workspace, spec: OutputSpec, since: int | None, run_dir: str | None) -> Collected:
    globs = [expanded(pattern, run_dir=run_dir, field="outputs.globs") for pattern in spec.globs]
    listing = await workspace.list(globs, since=since, limit=spec.max_files)
    warnings = [f"{skipped}; it is left out" for skipped in listing.skipped]
    if not listing.complete:
        warnings.append(f"there are more files than the first {len(listing.files)}; the others are left out")
    plan = _plan(spec, listing.files)
    without = sum(not share and bool(info.size) for info, share in plan) if spec.inline else 0
    if without:
        limit = f"{spec.max_total_bytes:,} bytes in all"
        warnings.append(f"{without} files come without content: the limit is {limit}; read or save them by their ref")
    files: list[OutputFile] = []
    for read in await _inlined(workspace, plan):
        if isinstance(read, OutputFile):
            files.append(read if spec.inline else replace(read, truncated=False))
        else:
            warnings.append(read)
    return Collected(tuple(files), tuple(warnings))


async def keep(
    workspace: Workspace, files: Sequence[OutputFile], store: ArtifactStore, scope: Scope, *, prefix: str = ""
) -> Saved:
    """Make each file an artifact named `prefix` + path: the whole file, streamed when its content is not here.

    A file that is gone, or that the store refuses, is a warning and loses nothing else.
    """
    artifacts: list[Artifact] = []
    warnings: list[str] = []
    with span("workspace.save", {"workspace.files": len(files)}) as watched:
        for file in files:
            try:
                artifacts.append(await _kept(workspace, file, store, scope, prefix))
            except (SkillError, OSError) as error:
                warnings.append(f"{printable(file.path)} was not saved: {_said(error)}")
        size = sum(artifact.size for artifact in artifacts)
        watched.set({"workspace.artifacts": len(artifacts), "workspace.bytes": size})
    count(BYTES, size, flow="saved")
    return Saved(tuple(artifacts), tuple(warnings))


def _plan(spec: OutputSpec, files: Sequence[FileInfo]) -> list[tuple[FileInfo, int]]:
    """How many bytes to bring back of each file."""
    left = spec.max_total_bytes if spec.inline else 0
    plan: list[tuple[FileInfo, int]] = []
    for info in files:
        share = min(info.size, spec.max_file_bytes, left)
        left -= share
        plan.append((info, share))
    return plan


async def _inlined(workspace: Workspace, plan: Sequence[tuple[FileInfo, int]]) -> list[OutputFile | str]:
    """The content of files, a few at a time; of each, what went wrong instead."""
    found: list[OutputFile | str] = []
    with span("workspace.inline", {"workspace.files": len(plan), "workspace.bytes": sum(share for _, share in plan)}):
        for start in range(0, len(plan), _AT_ONCE):
            found += await asyncio.gather(*(_read(workspace, *one) for one in plan[start : start + _AT_ONCE]))
    return found


async def _read(workspace: Workspace, info: FileInfo, share: int) -> OutputFile | str:
    """A file with its first `share` bytes, or what went wrong."""
    needed = max(share, SNIFFED)
    pieces: list[bytes] = []
    try:
        async with workspace.open(info.path) as reading:
            size = reading.info.size
            async for chunk in reading.chunks:
                pieces.append(chunk)
                needed -= len(chunk)
                if needed <= 0:
                    break
    except (SkillError, OSError) as error:
        return f"{printable(info.path)} could not be read: {_said(error)}"
    # One piece is handed on as it is; large files mostly are one.
    data = b"".join(pieces)
    head = data[:SNIFFED]
    data = data if len(data) == share else data[:share]
    return OutputFile(info.path, data, size, mime_type(info.path, head), truncated=len(data) < size)


async def _kept(workspace: Workspace, file: OutputFile, store: ArtifactStore, scope: Scope, prefix: str) -> Artifact:
    name = printable(prefix + file.path)
    if len(file.data) == file.size:
        return await store.put(scope, name, file.data, mime_type=file.mime_type)
    async with workspace.open(file.path) as reading:
        return await store.put(scope, name, reading.chunks, mime_type=file.mime_type)


def _said(error: SkillError | OSError) -> str:
    return error.message if isinstance(error, SkillError) else error.strerror or str(error)
