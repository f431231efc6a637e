"""File tools: `read_file`, `write_file`, `list_files`, for the workspace, artifacts and files of skills."""

import asyncio
import errno
import hashlib
import json
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from weakref import WeakValueDictionary

from pydantic import AliasChoices, Field

from openskills.artifacts.store import Artifact, parse_ref
from openskills.catalog.skill import SKILL_FILE, Skill, stamp_of
from openskills.concurrency import read_chunks, run_in_thread
from openskills.errors import (
    ExecutorUnavailable,
    ForbiddenPath,
    InvalidArgument,
    InvalidSkill,
    LimitExceeded,
    SkillError,
    UnknownSkill,
)
from openskills.executors.files.globs import compile_globs, escape_glob
from openskills.executors.protocol import Workspace
from openskills.executors.spec import OUT, SKILLS, WORK, WRITABLE, FileInfo, check_writable_path
from openskills.paths import open_inside, to_printable
from openskills.tools.lines import HEAD_BYTES, UTF_16, Page, Pager, PageText, decode_page, detect_text_type, is_binary
from openskills.tools.refs import (
    ArtifactFile,
    FileKind,
    FileRef,
    SkillFile,
    WorkspaceFile,
    build_artifact_error,
    build_skill_file_error,
    build_workspace_file_error,
    parse_file_ref,
    split_file_ref,
    split_skill_ref,
)
from openskills.tools.run_arguments import check_not_negative, encode_text
from openskills.tools.tool import Arguments, Tool, ToolContext, ToolResult, build_result_schema
from openskills.tools.uploads import UploadStager


@dataclass(frozen=True, slots=True)
class OpenFile:
    """An open file: `chunks` yields its bytes once; `sha256` is empty if it is not known yet."""

    file: FileRef
    size: int
    chunks: AsyncIterator[bytes]
    sha256: str = ""


async def resolve_file(context: ToolContext, text: str) -> FileRef:
    """Parse a file reference; the workspace is opened only for absolute paths."""
    return parse_file_ref(text, root=await find_workspace_root(context, text))


async def find_workspace_root(context: ToolContext, text: str) -> str | None:
    """The workspace's root as commands see it, if the path is absolute."""
    return (await context.open_runner()).workspace.root if text.startswith("/") else None


async def prepare_workspace(context: ToolContext) -> tuple[Workspace, tuple[str, ...]]:
    """Stage the user's files; return the workspace, and which files are missing and why."""
    workspace = (await context.open_runner()).workspace
    staging = UploadStager(context.uploads, workspace, scope=context.scope, artifacts=context.artifacts)
    return workspace, (await staging.stage()).missing


@asynccontextmanager
async def open_file(context: ToolContext, file: FileRef, *, field: str = "file_name") -> AsyncGenerator[OpenFile]:
    """Open a file. Files in `skills/` that are not staged are read from the catalog.

    Raises `InvalidArgument` with the nearest names if it does not exist, `ForbiddenPath` for a link that leads out,
    `UnknownSkill` for a skill that is not visible, and `ExecutorUnavailable` without a workspace.
    """
    async with AsyncExitStack() as stack:
        match file:
            case SkillFile():
                yield await _read_from_skill(context, file, stack, field)
            case ArtifactFile():
                yield await _read_from_store(context, file, stack, field)
            case WorkspaceFile():
                yield await _read_from_workspace(context, file, stack, field)


async def _read_from_workspace(
    context: ToolContext, file: WorkspaceFile, stack: AsyncExitStack, field: str
) -> OpenFile:
    try:
        workspace, missing = await prepare_workspace(context)
    except ExecutorUnavailable:
        found = await _read_unstaged(context, file, stack, field)
        if found is None:
            raise
        return found
    try:
        reading = await stack.enter_async_context(workspace.open(file.path))
    except InvalidArgument as error:
        found = await _read_unstaged(context, file, stack, field)
        if found is None:
            raise await build_workspace_file_error(context, workspace, file.path, error, field, missing) from None
        return found
    return OpenFile(WorkspaceFile(reading.info.path), reading.info.size, reading.chunks)


async def _read_unstaged(
    context: ToolContext, file: WorkspaceFile, stack: AsyncExitStack, field: str
) -> OpenFile | None:
    """Open a file of a skill that is not staged; None if the catalog does not have it either."""
    top, *rest = PurePosixPath(file.path).parts
    if top != SKILLS or len(rest) < 2:
        return None
    try:
        return await _read_from_skill(context, SkillFile(rest[0], "/".join(rest[1:])), stack, field)
    except SkillError:
        return None


async def _read_from_store(context: ToolContext, file: ArtifactFile, stack: AsyncExitStack, field: str) -> OpenFile:
    if context.artifacts is None:
        raise InvalidArgument(field, "this session has no artifact store; read the file in the workspace")
    try:
        reading = await stack.enter_async_context(context.artifacts.open(context.scope, file.name, file.version))
    except InvalidArgument as error:
        known = [artifact.name for artifact in await context.artifacts.list(context.scope)]
        raise build_artifact_error(file.name, known, error, field) from None
    artifact = reading.artifact
    return OpenFile(ArtifactFile(artifact.name, artifact.version), artifact.size, reading.chunks, artifact.sha256)


async def _read_from_skill(context: ToolContext, file: SkillFile, stack: AsyncExitStack, field: str) -> OpenFile:
    skill = context.skills.get(file.skill)
    if skill.remote is not None:
        if file.path != SKILL_FILE and all(file.path != one.path for one in skill.resources()):
            missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            raise await build_skill_file_error(skill, file.path, missing, field)
        data = await asyncio.to_thread(skill.read, file.path)
        return OpenFile(SkillFile(skill.name, file.path), len(data), _iterate_once(data))
    try:
        # Not in a thread: a cancellation would leak the descriptor.
        descriptor, size = _open_skill_file(skill, file.path, field)
    except OSError as error:
        raise await build_skill_file_error(skill, file.path, error, field) from None
    stack.callback(os.close, descriptor)
    chunks = await stack.enter_async_context(aclosing(read_chunks(descriptor, size)))
    return OpenFile(SkillFile(skill.name, file.path), size, chunks)


async def _iterate_once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _open_skill_file(skill: Skill, path: str, field: str) -> tuple[int, int]:
    """Open a regular file in the skill's folder; return its descriptor and size."""
    # The folder may have been replaced by a link to another directory, which has no SKILL.md.
    if not os.path.lexists(skill.location):
        raise InvalidSkill(f"{skill.name}: its folder has no SKILL.md any more")
    descriptor = open_inside(skill.directory, path, field=field)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        kind = "is a directory" if stat.S_ISDIR(status.st_mode) else "is not a regular file"
        raise InvalidArgument(field, f"{path!r} of the skill {skill.name!r} {kind}; see list_files")
    try:
        skill.check_stamp(path, stamp_of(status))
    except InvalidSkill:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


MAX_COUNTED_BYTES = 64 * 1024 * 1024
"""For larger files, lines are not counted and no digest is computed."""


class ReadFileArguments(Arguments):
    file_name: str = Field(
        validation_alias=AliasChoices("file_name", "path"),
        description="Path in the workspace, or workspace://, artifact://name[@version], skill://name/path",
    )
    start_line: int | None = None
    num_lines: int | None = None
    start_byte: int | None = Field(default=None, description="Skip bytes of start_line")


_FROM_THE_BEGINNING = "; count from the beginning of the file"


async def read_file(context: ToolContext, arguments: ReadFileArguments) -> ToolResult:
    """Read some lines of a text file; a binary file is described instead."""
    file = await resolve_file(context, arguments.file_name)
    pager = Pager(
        check_not_negative("start_line", arguments.start_line, _FROM_THE_BEGINNING) or 1,
        check_not_negative("start_byte", arguments.start_byte, _FROM_THE_BEGINNING),
        check_not_negative("num_lines", arguments.num_lines, _FROM_THE_BEGINNING) or None,
    )
    async with open_file(context, file) as source:
        head = await _read_head(source.chunks)
        if is_binary(head):
            return _describe_binary(source, head, await _compute_digest(source, head))
        page, total_lines = await _read_page(source, head, pager)
        return _format_page(source, head, page, total_lines)


async def _read_head(chunks: AsyncIterator[bytes]) -> bytes:
    head = b""
    while len(head) < HEAD_BYTES:
        chunk = await anext(chunks, b"")
        if not chunk:
            break
        head += chunk
    return head


async def _read_page(source: OpenFile, head: bytes, pager: Pager) -> tuple[Page, int | None]:
    """The page, and the number of lines if all were counted."""
    pager.feed(head)
    seen = len(head)
    while not (pager.is_full and source.size > MAX_COUNTED_BYTES):
        chunk = await anext(source.chunks, b"")
        if not chunk:
            return pager.build_page(), pager.lines
        pager.feed(chunk)
        seen += len(chunk)
    return pager.build_page(complete=seen >= source.size), None


async def _compute_digest(source: OpenFile, head: bytes) -> str:
    if source.sha256 or source.size > MAX_COUNTED_BYTES:
        return source.sha256
    digest = hashlib.sha256(head)
    async for chunk in source.chunks:
        digest.update(chunk)
    return digest.hexdigest()


def _describe_binary(source: OpenFile, head: bytes, digest: str) -> ToolResult:
    kind = detect_text_type(_get_name(source), head)
    facts = [kind, f"{source.size:,} bytes", *([f"sha256 {digest}"] if digest else [])]
    if isinstance(source.file, ArtifactFile):
        hint = f'a command gets it with {{"from": "{source.file.ref}"}} in its inputs'
    elif kind == UTF_16:
        hint = "convert it with a command: iconv -f UTF-16 -t UTF-8"
    else:
        hint = f"a command can use it as {source.file.path}"
    message = f"{source.file.ref} is not UTF-8 text ({', '.join(facts)}) and is not shown; {hint}"
    data = {**_describe_file(source, kind), "contents": "", "binary": True, "truncated": False, "message": message}
    return ToolResult(f"[{message}]", {**data, "sha256": digest} if digest else data)


def _format_page(source: OpenFile, head: bytes, page: Page, total_lines: int | None) -> ToolResult:
    text = decode_page(page, is_beginning=page.start_line == 1)
    notes = [*text.notes, *_describe_next_page(source, page)]
    data: dict[str, Any] = {
        **_describe_file(source, detect_text_type(_get_name(source), head)),
        "contents": text.text,
        "start_line": page.start_line,
        "end_line": page.end_line,
        "total_lines": total_lines,
        "truncated": page.cut,
    }
    if page.next_line is not None:
        data["next"] = {"start_line": page.next_line, "start_byte": page.next_byte}
    if notes:
        data["message"] = "; ".join(notes)
    return ToolResult(_describe_text(source, page, total_lines, text, notes), data)


def _describe_file(source: OpenFile, kind: str) -> dict[str, Any]:
    return {"file_name": source.file.display_name, "ref": source.file.ref, "size_bytes": source.size, "mime_type": kind}


def _get_name(source: OpenFile) -> str:
    return source.file.name if isinstance(source.file, ArtifactFile) else source.file.path


def _describe_next_page(source: OpenFile, page: Page) -> list[str]:
    if page.next_line is None:
        return []
    again: dict[str, Any] = {"file_name": source.file.display_name, "start_line": page.next_line}
    if page.next_byte:
        again["start_byte"] = page.next_byte
    where = f" within line {page.next_line:,}" if page.next_byte else ""
    return [f"there is more{where}; read on with {json.dumps(again, ensure_ascii=False)}"]


def _describe_text(source: OpenFile, page: Page, total_lines: int | None, text: PageText, notes: list[str]) -> str:
    lines = f"lines {page.start_line:,}-{page.end_line:,}" if page.end_line >= page.start_line else "no lines"
    total = f" of {total_lines:,}" if total_lines is not None else ""
    newline = "" if not text.text or text.text.endswith("\n") else "\n"
    footer = f"[{'; '.join(notes)}]" if notes else ""
    header = f"[{source.file.display_name}: {lines}{total}, {source.size:,} bytes]"
    return f"{header}\n{text.text}{newline}{footer}".rstrip("\n")


READ_FILE = Tool(
    "read_file",
    "Read a text file of the workspace, an artifact or a file of a skill; also a `ref` of a result, in later turns.",
    ReadFileArguments,
    read_file,
    build_result_schema(
        {
            "file_name": "string",
            "ref": "string",
            "size_bytes": "integer",
            "mime_type": "string",
            "contents": "string",
            "truncated": "boolean",
        },
        {
            "start_line": "integer",
            "end_line": "integer",
            "total_lines": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "next": "object",
            "binary": "boolean",
            "sha256": "string",
            "message": "string",
        },
    ),
    read_only=True,
)


MAX_WRITE_BYTES = 4 * 1024 * 1024

# Two calls of one message may append to one file: each must see what the other has written.
_WRITE_LOCKS: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


class WriteFileArguments(Arguments):
    file_name: str = Field(
        validation_alias=AliasChoices("file_name", "path"),
        description="In work/, out/ or runs/",
    )
    content: str = Field(validation_alias=AliasChoices("content", "contents"))
    append: bool | None = None


async def write_file(context: ToolContext, arguments: WriteFileArguments) -> ToolResult:
    """Write a file atomically, or append to one. It is executable if it begins with `#!` or was executable before."""
    path = _check_writable(await resolve_file(context, arguments.file_name))
    data = _encode_content(arguments.content)
    workspace = (await context.open_runner()).workspace
    async with _WRITE_LOCKS.setdefault(workspace.id, asyncio.Lock()):
        before = await _find_existing(workspace, path, append=bool(arguments.append))
        if arguments.append and before is not None:
            info = await workspace.write(path, _append_chunks(workspace, path, data), executable=before.executable)
        else:
            executable = data.startswith(b"#!") or (before is not None and before.executable)
            info = await workspace.write(path, data, executable=executable)
    return _describe_written(info, before, len(data), appended=bool(arguments.append) and before is not None)


def _check_writable(file: FileRef) -> str:
    match file:
        case SkillFile():
            raise ForbiddenPath(f"file_name: {file.ref} is in a skill; skills are read-only, write to work/ or out/")
        case ArtifactFile():
            raise ForbiddenPath(
                f"file_name: {file.ref} is an artifact, which never changes; write to out/ and use skill_run to save it"
            )
        case WorkspaceFile(path=path):
            if path.partition("/")[0] not in (*WRITABLE, SKILLS):
                raise ForbiddenPath(f"file_name: {path!r} is not writable; write to {OUT}/{path} or {WORK}/{path}")
            return check_writable_path(path, field="file_name")


def _encode_content(content: str) -> bytes:
    data = encode_text("content", content)
    if len(data) > MAX_WRITE_BYTES:
        raise LimitExceeded(
            f"content: {len(data):,} bytes is too large, at most {MAX_WRITE_BYTES:,};"
            " write it in parts with append, or with a command",
            limit=MAX_WRITE_BYTES,
            size=len(data),
        )
    return data


async def _find_existing(workspace: Workspace, path: str, *, append: bool) -> FileInfo | None:
    """The existing file. Raises `InvalidArgument` if it should be appended to and cannot be read."""
    try:
        async with workspace.open(path) as reading:
            return reading.info
    except InvalidArgument:
        listing = await workspace.list([escape_glob(path)], limit=1)
        if append and (listing.files or listing.skipped):
            raise
        return listing.files[0] if listing.files else None


async def _append_chunks(workspace: Workspace, path: str, data: bytes) -> AsyncIterator[bytes]:
    async with workspace.open(path) as reading:
        async for chunk in reading.chunks:
            yield chunk
    yield data


def _describe_written(info: FileInfo, before: FileInfo | None, written: int, *, appended: bool) -> ToolResult:
    file = WorkspaceFile(info.path)
    data: dict[str, Any] = {
        "file_name": info.path,
        "ref": file.ref,
        "size_bytes": info.size,
        "replaced": before is not None and not appended,
        "appended": appended,
    }
    if appended:
        return ToolResult(f"appended {written:,} bytes to {info.path}; it now has {info.size:,} bytes", data)
    instead = f", replacing {before.size:,} bytes" if before is not None else ""
    return ToolResult(f"wrote {info.size:,} bytes to {info.path}{instead}", data)


WRITE_FILE = Tool(
    "write_file",
    "Write a text file into work/ (for commands) or out/ (results); it is replaced unless append is true.",
    WriteFileArguments,
    write_file,
    build_result_schema(
        {
            "file_name": "string",
            "ref": "string",
            "size_bytes": "integer",
            "replaced": "boolean",
            "appended": "boolean",
        }
    ),
)


ALL_FILES = "**"
_GLOB = "glob"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file and its size in bytes."""

    file: FileRef
    size: int


@dataclass(frozen=True, slots=True)
class FileSearchResult:
    """Sorted files; not `complete` if there are more. `skipped` describes matches that are not files."""

    entries: tuple[FileEntry, ...]
    complete: bool = True
    skipped: tuple[str, ...] = ()


def patterns_except(name: str) -> tuple[str, ...]:
    """Glob patterns for every name but this one."""
    found = [f"{escape_glob(name)}?*"]
    for place, char in enumerate(name):
        head = escape_glob(name[:place])
        found += [f"{head}[!{char}]*", *([head] if head else [])]
    return tuple(found)


_TOPS = patterns_except(SKILLS)


async def find_files(context: ToolContext, glob: str | None, *, limit: int) -> FileSearchResult:
    """Find at most `limit` files. A directory means everything in it, None the whole workspace without its skills.

    `skill://name[/pattern]` are files of a skill, `artifact://[pattern]` the latest artifacts of the session, and
    `artifact://name` all versions of one.
    """
    kind, rest = split_file_ref(glob or ALL_FILES, root=await find_workspace_root(context, glob or ""), field=_GLOB)
    match kind:
        case FileKind.SKILL:
            return await _find_in_skill(context, rest, limit)
        case FileKind.ARTIFACT:
            return await _find_in_store(context, rest, limit)
        case FileKind.WORKSPACE:
            return await _find_in_workspace(context, rest, limit)


async def _find_in_workspace(context: ToolContext, rest: str, limit: int) -> FileSearchResult:
    globs = _exclude_skills(rest)
    compile_globs(globs, field=_GLOB)
    workspace, missing = await prepare_workspace(context)
    listing = await workspace.list(globs, limit=limit)
    if not listing.files and rest.startswith(f"{SKILLS}/"):
        # The skill may not be staged yet.
        try:
            return await _find_in_skill(context, rest.removeprefix(f"{SKILLS}/"), limit)
        except (UnknownSkill, InvalidArgument):
            return FileSearchResult(())
    entries = tuple(FileEntry(WorkspaceFile(info.path), info.size) for info in listing.files)
    return FileSearchResult(entries, listing.complete, (*missing, *listing.skipped))


def _exclude_skills(pattern: str) -> tuple[str, ...]:
    """Expand a pattern; one for files anywhere does not include staged skills, which have their own references."""
    if not pattern.replace(ALL_FILES, "").strip("/."):
        return ("*", *(f"{top}/**" for top in _TOPS))
    if pattern.startswith("**/"):
        tail = pattern.removeprefix("**/")
        return (tail, *(f"{top}/**/{tail}" for top in _TOPS))
    return _add_directories(pattern)


async def _find_in_skill(context: ToolContext, rest: str, limit: int) -> FileSearchResult:
    name, pattern = split_skill_ref(rest, field=_GLOB)
    skill = context.skills.get(name)
    matches = _compile_pattern(pattern or ALL_FILES)
    files = [(path, size) for path, size in await run_in_thread(lambda: _list_skill_files(skill)) if matches(path)]
    found = [FileEntry(SkillFile(skill.name, path), size) for path, size in files if _is_text(path)]
    # As in the workspace: no tool accepts such a name.
    odd = tuple(f"{to_printable(path)} has a name that is not UTF-8" for path, _ in files if not _is_text(path))
    return FileSearchResult(tuple(found[:limit]), len(found) <= limit, odd)


def _list_skill_files(skill: Skill) -> list[tuple[str, int]]:
    size = len(skill.read(SKILL_FILE))
    return [(SKILL_FILE, size), *((resource.path, resource.size) for resource in skill.resources())]


def _is_text(name: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in name)


async def _find_in_store(context: ToolContext, rest: str, limit: int) -> FileSearchResult:
    if context.artifacts is None:
        raise InvalidArgument(_GLOB, "this session has no artifact store")
    kept = await context.artifacts.list(context.scope)
    pattern = rest or ALL_FILES
    name, version = parse_ref(f"artifact://{pattern}", field=_GLOB)
    if any(artifact.name == name for artifact in kept):
        versions = await context.artifacts.versions(context.scope, name)
        return _list_artifacts([one for one in versions if version in (None, one.version)], limit)
    matches = _compile_pattern(pattern)
    return _list_artifacts([artifact for artifact in kept if matches(artifact.name)], limit)


def _list_artifacts(artifacts: Sequence[Artifact], limit: int) -> FileSearchResult:
    entries = [FileEntry(ArtifactFile(artifact.name, artifact.version), artifact.size) for artifact in artifacts]
    return FileSearchResult(tuple(entries[:limit]), len(entries) <= limit)


def _compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A matcher for names outside the workspace."""
    # Below another directory, `inputs/` and the like have no special meaning.
    globs = compile_globs([f"x/{one}" for one in _add_directories(pattern)], field=_GLOB)
    return lambda name: globs.matches(f"x/{name}")


def _add_directories(pattern: str) -> tuple[str, ...]:
    return (pattern, f"{pattern.rstrip('/')}/**") if pattern.rstrip("/") else (pattern,)


DEFAULT_FILES, MAX_FILES = 200, 1_000
_MAX_SKIPPED = 10


class ListFilesArguments(Arguments):
    glob: str | None = Field(
        default=None,
        validation_alias=AliasChoices("glob", "pattern", "path"),
        description="out/**/*.csv, a directory, skill://name or artifact://; left out: the workspace",
    )
    limit: int | None = Field(default=None, description=f"{DEFAULT_FILES}, up to {MAX_FILES:,}")


async def list_files(context: ToolContext, arguments: ListFilesArguments) -> ToolResult:
    """List files, sorted by path, one per line with its size in bytes."""
    limit = check_not_negative("limit", arguments.limit) or DEFAULT_FILES
    found = await find_files(context, arguments.glob, limit=min(limit, MAX_FILES))
    files = [
        {"path": entry.file.display_name, "ref": entry.file.ref, "size_bytes": entry.size} for entry in found.entries
    ]
    data: dict[str, Any] = {"files": files, "truncated": not found.complete}
    if found.skipped:
        data["skipped"] = list(found.skipped)
    return ToolResult(_describe_listing(found, arguments.glob), data)


def _describe_listing(found: FileSearchResult, glob: str | None) -> str:
    lines = [f"{to_printable(entry.file.display_name)}\t{entry.size}" for entry in found.entries]
    if not lines:
        lines.append(f"[no files match {glob[:200]!r}]" if glob else "[the workspace has no files yet]")
    if not found.complete:
        lines.append(f"[only the first {len(found.entries):,} files; narrow the pattern to see others]")
    lines += [f"[{skipped}; left out]" for skipped in found.skipped[:_MAX_SKIPPED]]
    if len(found.skipped) > _MAX_SKIPPED:
        lines.append(f"[{len(found.skipped) - _MAX_SKIPPED} more are left out]")
    return "\n".join(lines)


LIST_FILES = Tool(
    "list_files",
    "List files of the workspace, of a skill, or artifacts, with their sizes.",
    ListFilesArguments,
    list_files,
    build_result_schema({"files": "object[]", "truncated": "boolean"}, {"skipped": "string[]"}),
    read_only=True,
)
