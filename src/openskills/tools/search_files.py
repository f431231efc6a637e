"""`search_files`: lines of files that have a text, or match a regular expression."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from pydantic import AliasChoices, Field

from openskills.errors import InvalidArgument, SkillError
from openskills.paths import printable
from openskills.tools.contents import is_binary
from openskills.tools.finding import Entry, Found, find
from openskills.tools.lines import LONGEST, Blocks
from openskills.tools.matching import MOST, Matcher, matching
from openskills.tools.readable import Readable, readable
from openskills.tools.result import ToolResult
from openskills.tools.tool import Arguments, Tool, ToolContext
from openskills.tools.window import Hit, Window

FEW = 50
MOST_CONTEXT = 10
MOST_FILES = 10_000
MOST_BYTES = 256 * 1024 * 1024
MOST_TEXT = 32 * 1024

_PIECE = 128 * 1024
_BOM = b"\xef\xbb\xbf"


class SearchFilesArguments(Arguments):
    """What `search_files` takes."""

    pattern: str = Field(description="Text to find in a line")
    regex: bool | None = Field(default=None, description="The pattern is a Python regular expression")
    glob: str | None = Field(
        default=None,
        validation_alias=AliasChoices("glob", "path", "file_name"),
        description="Where: a pattern, directory or file as for list_files; left out: the workspace without its skills",
    )
    ignore_case: bool | None = Field(default=None, description="Capital and small letters are the same")
    context_lines: int | None = Field(
        default=None, description=f"Lines to show around each match, {MOST_CONTEXT} at most"
    )
    max_matches: int | None = Field(default=None, description=f"{FEW} unless given, {MOST} at most")


@dataclass(slots=True)
class _Search:
    """One search: what it found so far, and what it left out."""

    context: int
    most: int
    hits: list[tuple[Entry, Hit]] = field(default_factory=list[tuple[Entry, Hit]])
    files: int = 0
    bytes: int = 0
    binary: int = 0
    shortened: int = 0
    unread: list[str] = field(default_factory=list[str])

    @property
    def full(self) -> bool:
        """Whether enough was found, or looked at."""
        return len(self.hits) >= self.most or self.bytes >= MOST_BYTES

    async def look(self, entry: Entry, window: Window, text: str, matcher: Matcher) -> None:
        """Keep those of these lines that match, as many as there is room for."""
        matches = (await matcher.hits(text))[: self.most - len(self.hits)]
        self.hits += [(entry, hit) for hit in window.take(matches)]


async def search_files(context: ToolContext, arguments: SearchFilesArguments) -> ToolResult:
    """Search files line by line, in the order of their paths, until enough was found. Binary files are skipped."""
    around = min(_number(arguments.context_lines, "context_lines"), MOST_CONTEXT)
    most = min(_number(arguments.max_matches, "max_matches") or FEW, MOST)
    search = _Search(around, most)
    ignore_case = bool(arguments.ignore_case)
    async with matching(arguments.pattern, regex=bool(arguments.regex), ignore_case=ignore_case) as matcher:
        found = await find(context, arguments.glob, limit=MOST_FILES)
        for entry in found.entries:
            if search.full:
                break
            await _search_file(context, entry, matcher, search)
    return _answer(search, found, arguments)


def _number(value: int | None, name: str) -> int:
    if value is not None and value < 0:
        raise InvalidArgument(name, f"{value} is negative")
    return value or 0


async def _search_file(context: ToolContext, entry: Entry, matcher: Matcher, search: _Search) -> None:
    search.files += 1
    async with AsyncExitStack() as stack:
        try:
            source = await stack.enter_async_context(readable(context, entry.file, field="glob"))
        except SkillError as error:
            # Gone or locked since it was listed; that must not cost the others.
            search.unread.append(error.message)
            return
        await _search_lines(source, entry, matcher, search)


async def _search_lines(source: Readable, entry: Entry, matcher: Matcher, search: _Search) -> None:
    blocks, window = Blocks(), Window(search.context)
    head = True
    async for piece in _pieces(source.chunks):
        if head and is_binary(piece):
            search.binary += 1
            return
        search.bytes += len(piece)
        block = blocks.feed(piece.removeprefix(_BOM) if head else piece)
        head = False
        if block:
            await search.look(entry, window, window.add(_text(block)), matcher)
        if search.full:
            break
    else:
        await search.look(entry, window, window.add(_text(blocks.end()), last=True), matcher)
    search.shortened += blocks.shortened


async def _pieces(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same in small pieces: where something is found, lines are told apart, and those of newlines are many."""
    async for chunk in chunks:
        for start in range(0, len(chunk), _PIECE):
            yield chunk[start : start + _PIECE]


def _text(block: bytes) -> str:
    return block.replace(b"\r\n", b"\n").decode("utf-8", "replace")


def _answer(search: _Search, found: Found, arguments: SearchFilesArguments) -> ToolResult:
    complete = found.complete and search.files == len(found.entries) and not search.full
    shown, cut = _lines(search)
    notes = list(_notes(search, found, arguments, complete=complete))
    if cut:
        notes.insert(0, f"only the first {cut:,} matches are shown here")
    data: dict[str, Any] = {
        "matches": [_about(entry, hit) for entry, hit in search.hits],
        "files_searched": search.files - search.binary - len(search.unread),
        "binary_files": search.binary,
        "truncated": not complete,
        "message": "; ".join(notes),
    }
    if search.unread:
        data["unread"] = search.unread[:FEW]
    return ToolResult("\n".join([*shown, f"[{'; '.join(notes)}]"]), data)


def _about(entry: Entry, hit: Hit) -> dict[str, Any]:
    found: dict[str, Any] = {"path": entry.file.shown, "line": hit.number, "text": hit.text}
    if hit.before or hit.after:
        found |= {"before": list(hit.before), "after": list(hit.after)}
    return found


def _lines(search: _Search) -> tuple[list[str], int]:
    """The matches as `path:line: text`, and how many of them are there if that is not all."""
    shown: list[str] = []
    room = MOST_TEXT
    for number, (entry, hit) in enumerate(search.hits):
        name = printable(entry.file.shown)
        first = hit.number - len(hit.before)
        group = [f"{name}-{first + place}- {line}" for place, line in enumerate(hit.before)]
        group.append(f"{name}:{hit.number}: {hit.text}")
        group += [f"{name}-{hit.number + place}- {line}" for place, line in enumerate(hit.after, 1)]
        room -= sum(map(len, group))
        if room < 0:
            return shown, number
        shown += ["--", *group] if search.context and shown else group
    return shown, 0


def _notes(search: _Search, found: Found, arguments: SearchFilesArguments, *, complete: bool) -> Iterator[str]:
    if not found.entries:
        yield f"no files match {arguments.glob[:200]!r}" if arguments.glob else "the workspace has no files yet"
        return
    searched = search.files - search.binary - len(search.unread)
    matches = "1 match" if len(search.hits) == 1 else f"{len(search.hits):,} matches"
    files = "1 file" if searched == 1 else f"{searched:,} files"
    yield f"{matches} in {files}" + ("" if complete else ", and not everything was searched")
    if len(search.hits) >= search.most:
        yield "there may be more; narrow the glob or the pattern, or raise max_matches"
    elif not complete:
        yield "narrow the glob"
    if search.binary:
        yield f"skipped as binary: {search.binary:,}"
    if search.shortened:
        yield f"of lines longer than {LONGEST:,} bytes only so much was searched"
    if search.unread:
        yield f"could not be read: {len(search.unread):,}"


SEARCH_FILES = Tool(
    "search_files",
    "Find lines in files of the workspace, of a skill (glob skill://name) or in artifacts, as path:line: text. Plain "
    "text unless regex is true.",
    SearchFilesArguments,
    search_files,
)
