"""`read_file`: some lines of a file, or what kind of file it is."""

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from pydantic import AliasChoices, Field

from openskills.errors import InvalidArgument
from openskills.tools.contents import HEAD, UTF_16, Text, is_binary, kind_of, text_of
from openskills.tools.lines import Page, Pager
from openskills.tools.readable import Readable, named, readable
from openskills.tools.refs import ArtifactFile
from openskills.tools.result import ToolResult
from openskills.tools.tool import Arguments, Tool, ToolContext

COUNTED = 64 * 1024 * 1024
"""The lines of a larger file are not counted, and its digest is not made."""


class ReadFileArguments(Arguments):
    """What `read_file` takes."""

    file_name: str = Field(
        validation_alias=AliasChoices("file_name", "path"),
        description="Path in the workspace such as out/report.md, or workspace://, artifact://name[@version], "
        "skill://name/path",
    )
    start_line: int | None = Field(default=None, description="First line to read, counted from 1")
    num_lines: int | None = Field(default=None, description="How many lines; as many as fit when left out")
    start_byte: int | None = Field(default=None, description="Bytes of start_line to skip: to read on in a long line")


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read: the page, and how many lines there are when they were all counted."""

    page: Page
    total_lines: int | None


async def read_file(context: ToolContext, arguments: ReadFileArguments) -> ToolResult:
    """Read some lines. A file that is no text is described, whatever lines were asked for."""
    file = await named(context, arguments.file_name)
    start = Pager(
        _number(arguments.start_line, "start_line") or 1,
        _number(arguments.start_byte, "start_byte"),
        _number(arguments.num_lines, "num_lines") or None,
    )
    async with readable(context, file) as source:
        head = await _head(source.chunks)
        if is_binary(head):
            return _described(source, head, await _digest(source, head))
        return _shown(source, head, await _read(source, head, start))


def _number(value: int | None, field: str) -> int:
    """Nothing and 0 both mean that it was not asked for."""
    if value is not None and value < 0:
        raise InvalidArgument(field, f"{value} is negative; count from the beginning of the file")
    return value or 0


async def _head(chunks: AsyncIterator[bytes]) -> bytes:
    """At least the first `HEAD` bytes, if there are so many."""
    head = b""
    while len(head) < HEAD:
        chunk = await anext(chunks, b"")
        if not chunk:
            break
        head += chunk
    return head


async def _read(source: Readable, head: bytes, pager: Pager) -> _Read:
    pager.feed(head)
    seen = len(head)
    while not (pager.full and source.size > COUNTED):
        chunk = await anext(source.chunks, b"")
        if not chunk:
            return _Read(pager.page(), pager.lines)
        pager.feed(chunk)
        seen += len(chunk)
    return _Read(pager.page(complete=seen >= source.size), None)


async def _digest(source: Readable, head: bytes) -> str:
    if source.sha256 or source.size > COUNTED:
        return source.sha256
    digest = hashlib.sha256(head)
    async for chunk in source.chunks:
        digest.update(chunk)
    return digest.hexdigest()


def _described(source: Readable, head: bytes, digest: str) -> ToolResult:
    kind = kind_of(_name(source), head)
    facts = [kind, f"{source.size:,} bytes", *([f"sha256 {digest}"] if digest else [])]
    said = f"{source.file.ref} is not UTF-8 text ({', '.join(facts)}) and is not shown; {_use(source, kind)}"
    data = {**_facts(source, kind), "contents": "", "binary": True, "truncated": False, "message": said}
    return ToolResult(f"[{said}]", {**data, "sha256": digest} if digest else data)


def _use(source: Readable, kind: str) -> str:
    if isinstance(source.file, ArtifactFile):
        return f'a command gets it with {{"from": "{source.file.ref}"}} in its inputs'
    if kind == UTF_16:
        return "convert it with a command: iconv -f UTF-16 -t UTF-8"
    return f"a command can use it as {source.file.path}"


def _shown(source: Readable, head: bytes, read: _Read) -> ToolResult:
    page = read.page
    text = text_of(page, is_beginning=page.start_line == 1)
    notes = [*text.notes, *_rest(source, page)]
    data: dict[str, Any] = {
        **_facts(source, kind_of(_name(source), head)),
        "contents": text.text,
        "start_line": page.start_line,
        "end_line": page.end_line,
        "total_lines": read.total_lines,
        "truncated": page.cut,
    }
    if page.next_line is not None:
        data["next"] = {"start_line": page.next_line, "start_byte": page.next_byte}
    if notes:
        data["message"] = "; ".join(notes)
    return ToolResult(_told(source, read, text, notes), data)


def _facts(source: Readable, kind: str) -> dict[str, Any]:
    return {"file_name": source.file.shown, "ref": source.file.ref, "size_bytes": source.size, "mime_type": kind}


def _name(source: Readable) -> str:
    return source.file.name if isinstance(source.file, ArtifactFile) else source.file.path


def _rest(source: Readable, page: Page) -> list[str]:
    """How to read on."""
    if page.next_line is None:
        return []
    again: dict[str, Any] = {"file_name": source.file.shown, "start_line": page.next_line}
    if page.next_byte:
        again["start_byte"] = page.next_byte
    where = f" within line {page.next_line:,}" if page.next_byte else ""
    return [f"there is more{where}; read on with {json.dumps(again, ensure_ascii=False)}"]


def _told(source: Readable, read: _Read, text: Text, notes: list[str]) -> str:
    page = read.page
    lines = f"lines {page.start_line:,}-{page.end_line:,}" if page.end_line >= page.start_line else "no lines"
    total = f" of {read.total_lines:,}" if read.total_lines is not None else ""
    newline = "" if not text.text or text.text.endswith("\n") else "\n"
    footer = f"[{'; '.join(notes)}]" if notes else ""
    return f"[{source.file.shown}: {lines}{total}, {source.size:,} bytes]\n{text.text}{newline}{footer}".rstrip("\n")


READ_FILE = Tool(
    "read_file",
    "Read a text file of the workspace, an artifact or a file of a skill, all of it or some lines. What a result calls "
    "`ref` can be given as file_name, in later turns, too. Long files come in pages, and the result says how to read "
    "on. Files that are no text are described.",
    ReadFileArguments,
    read_file,
)
