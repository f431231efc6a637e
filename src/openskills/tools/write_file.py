"""`write_file`: a text file in the workspace."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from weakref import WeakValueDictionary

from pydantic import AliasChoices, Field

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded
from openskills.executors.files.globs import escaped
from openskills.executors.files.places import WRITABLE, writable_place
from openskills.executors.layout import OUT, SKILLS, WORK
from openskills.executors.protocol import Workspace
from openskills.executors.spec import FileInfo
from openskills.tools.readable import named
from openskills.tools.refs import ArtifactFile, FileRef, SkillFile, WorkspaceFile
from openskills.tools.result import ToolResult
from openskills.tools.tool import Arguments, Tool, ToolContext

MOST_BYTES = 4 * 1024 * 1024

# Two calls of one message may append to one file: each must see what the other has written.
_WRITING: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


class WriteFileArguments(Arguments):
    """What `write_file` takes."""

    file_name: str = Field(
        validation_alias=AliasChoices("file_name", "path"),
        description="Path in work/, out/ or runs/, such as work/notes.md; directories are made",
    )
    content: str = Field(validation_alias=AliasChoices("content", "contents"), description="The text to write")
    append: bool | None = Field(default=None, description="Add to the end of the file instead of replacing it")


async def write_file(context: ToolContext, arguments: WriteFileArguments) -> ToolResult:
    """Write a file in one step, or append to one. What begins with `#!`, or was a program before, is one."""
    path = _target(await named(context, arguments.file_name))
    data = _encoded(arguments.content)
    workspace = (await context.bench()).workspace
    async with _WRITING.setdefault(workspace.id, asyncio.Lock()):
        before = await _there(workspace, path, append=bool(arguments.append))
        if arguments.append and before is not None:
            info = await workspace.write(path, _appended(workspace, path, data), executable=before.executable)
        else:
            executable = data.startswith(b"#!") or (before is not None and before.executable)
            info = await workspace.write(path, data, executable=executable)
    return _told(info, before, len(data), appended=bool(arguments.append) and before is not None)


def _target(file: FileRef) -> str:
    """The path to write to; raises `ForbiddenPath` with one that would do."""
    match file:
        case SkillFile():
            raise ForbiddenPath(f"file_name: {file.ref} is in a skill; skills are read-only, write to work/ or out/")
        case ArtifactFile():
            raise ForbiddenPath(
                f"file_name: {file.ref} is an artifact, which never changes; write to out/ and save it with skill_run"
            )
        case WorkspaceFile(path=path):
            if path.partition("/")[0] not in (*WRITABLE, SKILLS):
                raise ForbiddenPath(
                    f"file_name: nothing can be written to {path!r}; write {OUT}/{path} or {WORK}/{path}"
                )
            return writable_place(path, field="file_name")


def _encoded(content: str) -> bytes:
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument("content", "contains half a character (a lone surrogate)") from None
    if len(data) > MOST_BYTES:
        raise LimitExceeded(
            f"content: {len(data):,} bytes are more than the {MOST_BYTES:,} that can be written at once;"
            " write them in parts with append, or let a command write them",
            limit=MOST_BYTES,
            size=len(data),
        )
    return data


async def _there(workspace: Workspace, path: str, *, append: bool) -> FileInfo | None:
    """What is there now. Raises `InvalidArgument` when it is to be kept and cannot be read."""
    try:
        async with workspace.open(path) as reading:
            return reading.info
    except InvalidArgument:
        listing = await workspace.list([escaped(path)], limit=1)
        if append and (listing.files or listing.skipped):
            raise
        return listing.files[0] if listing.files else None


async def _appended(workspace: Workspace, path: str, data: bytes) -> AsyncIterator[bytes]:
    async with workspace.open(path) as reading:
        async for chunk in reading.chunks:
            yield chunk
    yield data


def _told(info: FileInfo, before: FileInfo | None, written: int, *, appended: bool) -> ToolResult:
    file = WorkspaceFile(info.path)
    data: dict[str, Any] = {
        "file_name": info.path,
        "ref": file.ref,
        "size_bytes": info.size,
        "replaced": before is not None and not appended,
        "appended": appended,
    }
    if appended:
        return ToolResult(f"appended {written:,} bytes to {info.path}; it has {info.size:,} bytes now", data)
    instead = f", replacing {before.size:,} bytes" if before is not None else ""
    return ToolResult(f"wrote {info.size:,} bytes to {info.path}{instead}", data)


WRITE_FILE = Tool(
    "write_file",
    "Write a text file into work/ (for commands to use) or out/ (results) of the workspace; a file there is replaced "
    "unless append is true. Skills are read-only.",
    WriteFileArguments,
    write_file,
)
