"""`search_files`: find lines by text or regular expression.

Regular expressions run in a separate process: Python's `re` can take forever on a short pattern and holds the GIL
meanwhile, so a thread with a deadline would not help.
"""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import AliasChoices, Field

from openskills.concurrency import run_in_thread
from openskills.errors import DeadlineExceeded, InvalidArgument, LimitExceeded, SkillError
from openskills.paths import to_printable
from openskills.subprocesses import HelperProcess, start_helper
from openskills.tools.files import FileEntry, FileSearchResult, OpenFile, find_files, open_file
from openskills.tools.lines import MAX_LINE_BYTES, LineMatch, LineSplitter, SearchWindow, is_binary
from openskills.tools.run_arguments import check_not_negative, encode_text
from openskills.tools.tool import Arguments, Tool, ToolContext, ToolResult, build_result_schema

PROGRAM = Path(__file__).with_name("regex_program.py")
MAX_PATTERN = 1000
MAX_MATCHES = 500
"""Maximum number of matching lines per text."""
REGEX_TIMEOUT = 10.0
"""Seconds that one search may spend on its regular expression in total."""


@asynccontextmanager
async def open_matcher(
    pattern: str, *, regex: bool = False, ignore_case: bool = False, seconds: float = REGEX_TIMEOUT
) -> AsyncGenerator["LineMatcher"]:
    """Open a matcher for a pattern. Raises `InvalidArgument` for an invalid pattern.

    While searching, a regular expression that takes too long or too much memory raises `DeadlineExceeded` or
    `LimitExceeded`.
    """
    if not pattern:
        raise InvalidArgument("pattern", "is empty; write what to search for")
    if "\n" in pattern:
        raise InvalidArgument("pattern", "contains a newline; files are searched line by line")
    if len(pattern) > MAX_PATTERN:
        raise InvalidArgument("pattern", f"too long: {len(pattern):,} characters, at most {MAX_PATTERN:,}")
    encoded = encode_text("pattern", pattern)
    if not regex:
        yield _PlainTextMatcher(pattern, ignore_case=ignore_case)
        return
    flags = int(re.IGNORECASE if ignore_case else 0)
    helper = start_helper([sys.executable, "-I", "-S", str(PROGRAM), str(flags), str(MAX_MATCHES)], {})
    try:
        found = _RegexMatcher(helper, seconds)
        await found.request(encoded)
        yield found
    finally:
        await run_in_thread(lambda: helper.close(timeout=0))


class _PlainTextMatcher:
    """Finds matching lines."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self._pattern = pattern.casefold() if ignore_case else pattern

    async def find_matches(self, text: str) -> Sequence[tuple[int, int]]:
        """Line indices and columns of the first `MAX_MATCHES` matches in a text whose lines all end with a newline."""
        folded = text.casefold() if self._ignore_case else text
        found: list[tuple[int, int]] = []
        line = start = 0
        while len(found) < MAX_MATCHES and (place := folded.find(self._pattern, start)) >= 0:
            line += folded.count("\n", start, place)
            found.append((line, place - max(start, folded.rfind("\n", start, place) + 1)))
            start = folded.find("\n", place) + 1
            line += 1
        return found


class _RegexMatcher:
    """Finds matching lines with the program of `regex_program`."""

    def __init__(self, helper: HelperProcess, seconds: float) -> None:
        self._connection = helper.connection
        self._connection.setblocking(False)
        self._left = seconds
        self._seconds = seconds

    async def find_matches(self, text: str) -> Sequence[tuple[int, int]]:
        """See `_PlainTextMatcher.find_matches`."""
        if not text:
            return ()
        found = await self.request(text.removesuffix("\n").encode("utf-8"))
        pairs = (pair.split(",") for pair in found.split())
        return [(int(line), int(column)) for line, column in pairs]

    async def request(self, frame: bytes) -> str:
        """Send a frame to the program and return its answer."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(self._left):
                await loop.sock_sendall(self._connection, len(frame).to_bytes(4, "big") + frame)
                size = int.from_bytes(await self._read_exactly(4), "big")
                answer = (await self._read_exactly(size)).decode("utf-8")
        except TimeoutError:
            raise DeadlineExceeded(
                f"the regular expression timed out after {self._seconds:g} s; write a simpler one without nested"
                " repetitions, a narrower glob, or plain text"
            ) from None
        finally:
            self._left -= loop.time() - begun
        if answer.startswith("-"):
            raise InvalidArgument("pattern", f"invalid regular expression: {answer[1:]}")
        return answer[1:]

    async def _read_exactly(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        pieces: list[bytes] = []
        while size:
            try:
                piece = await loop.sock_recv(self._connection, min(size, 65536))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise LimitExceeded("the regular expression used too much memory; write a simpler one")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


LineMatcher: TypeAlias = _PlainTextMatcher | _RegexMatcher

DEFAULT_MATCHES = 50
MAX_CONTEXT_LINES = 10
MAX_SEARCHED_FILES = 10_000
MAX_SEARCHED_BYTES = 256 * 1024 * 1024
MAX_TEXT_CHARS = 32 * 1024

_PIECE_BYTES = 128 * 1024
_BOM = b"\xef\xbb\xbf"


class SearchFilesArguments(Arguments):
    pattern: str
    regex: bool | None = None
    glob: str | None = Field(
        default=None,
        validation_alias=AliasChoices("glob", "path", "file_name"),
        description="As for list_files",
    )
    ignore_case: bool | None = None
    context_lines: int | None = Field(default=None, description=f"At most {MAX_CONTEXT_LINES}")
    max_matches: int | None = Field(default=None, description=f"{DEFAULT_MATCHES}, up to {MAX_MATCHES}")


@dataclass(slots=True)
class _FileSearch:
    """The state of one search."""

    context: int
    max_matches: int
    matches: list[tuple[FileEntry, LineMatch]] = field(default_factory=list[tuple[FileEntry, LineMatch]])
    files: int = 0
    bytes: int = 0
    binary: int = 0
    shortened: int = 0
    unread: list[str] = field(default_factory=list[str])

    @property
    def is_full(self) -> bool:
        """Whether enough was found or searched."""
        return len(self.matches) >= self.max_matches or self.bytes >= MAX_SEARCHED_BYTES

    async def collect_matches(self, entry: FileEntry, window: SearchWindow, text: str, matcher: LineMatcher) -> None:
        """Keep the matching lines, up to the maximum."""
        matches = (await matcher.find_matches(text))[: self.max_matches - len(self.matches)]
        self.matches += [(entry, hit) for hit in window.take(matches)]


async def search_files(context: ToolContext, arguments: SearchFilesArguments) -> ToolResult:
    """Search files line by line, sorted by path, until enough was found. Binary files are skipped."""
    around = min(check_not_negative("context_lines", arguments.context_lines), MAX_CONTEXT_LINES)
    max_matches = min(check_not_negative("max_matches", arguments.max_matches) or DEFAULT_MATCHES, MAX_MATCHES)
    search = _FileSearch(around, max_matches)
    ignore_case = bool(arguments.ignore_case)
    async with open_matcher(arguments.pattern, regex=bool(arguments.regex), ignore_case=ignore_case) as matcher:
        found = await find_files(context, arguments.glob, limit=MAX_SEARCHED_FILES)
        for entry in found.entries:
            if search.is_full:
                break
            await _search_file(context, entry, matcher, search)
    return _build_result(search, found, arguments)


async def _search_file(context: ToolContext, entry: FileEntry, matcher: LineMatcher, search: _FileSearch) -> None:
    search.files += 1
    async with AsyncExitStack() as stack:
        try:
            source = await stack.enter_async_context(open_file(context, entry.file, field="glob"))
        except SkillError as error:
            # Gone or locked since it was listed; search the others.
            search.unread.append(error.message)
            return
        await _search_lines(source, entry, matcher, search)


async def _search_lines(source: OpenFile, entry: FileEntry, matcher: LineMatcher, search: _FileSearch) -> None:
    blocks, window = LineSplitter(), SearchWindow(search.context)
    head = True
    # Small pieces, because the text around a match is split into lines.
    pieces = (
        chunk[start : start + _PIECE_BYTES]
        async for chunk in source.chunks
        for start in range(0, len(chunk), _PIECE_BYTES)
    )
    async for piece in pieces:
        if head and is_binary(piece):
            search.binary += 1
            return
        search.bytes += len(piece)
        block = blocks.feed(piece.removeprefix(_BOM) if head else piece)
        head = False
        if block:
            await search.collect_matches(entry, window, window.add(_decode_block(block)), matcher)
        if search.is_full:
            break
    else:
        await search.collect_matches(entry, window, window.add(_decode_block(blocks.flush()), last=True), matcher)
    search.shortened += blocks.shortened


def _decode_block(block: bytes) -> str:
    return block.replace(b"\r\n", b"\n").decode("utf-8", "replace")


def _build_result(search: _FileSearch, found: FileSearchResult, arguments: SearchFilesArguments) -> ToolResult:
    complete = found.complete and search.files == len(found.entries) and not search.is_full
    shown, cut = _format_matches(search)
    notes = list(_describe_search(search, found, arguments, complete=complete))
    if cut:
        notes.insert(0, f"only the first {cut:,} matches are shown here")
    data: dict[str, Any] = {
        "matches": [_match_to_json(entry, hit) for entry, hit in search.matches],
        "files_searched": search.files - search.binary - len(search.unread),
        "binary_files": search.binary,
        "truncated": not complete,
        "message": "; ".join(notes),
    }
    if search.unread:
        data["unread"] = search.unread[:DEFAULT_MATCHES]
    return ToolResult("\n".join([*shown, f"[{'; '.join(notes)}]"]), data)


def _match_to_json(entry: FileEntry, hit: LineMatch) -> dict[str, Any]:
    found: dict[str, Any] = {"path": entry.file.display_name, "line": hit.number, "text": hit.text}
    if hit.before or hit.after:
        found |= {"before": list(hit.before), "after": list(hit.after)}
    return found


def _format_matches(search: _FileSearch) -> tuple[list[str], int]:
    """The matches as `path:line: text`; and how many are shown, 0 if all of them are."""
    shown: list[str] = []
    room = MAX_TEXT_CHARS
    for number, (entry, hit) in enumerate(search.matches):
        name = to_printable(entry.file.display_name)
        first = hit.number - len(hit.before)
        group = [f"{name}-{first + place}- {line}" for place, line in enumerate(hit.before)]
        group.append(f"{name}:{hit.number}: {hit.text}")
        group += [f"{name}-{hit.number + place}- {line}" for place, line in enumerate(hit.after, 1)]
        room -= sum(map(len, group))
        if room < 0:
            return shown, number
        shown += ["--", *group] if search.context and shown else group
    return shown, 0


def _describe_search(
    search: _FileSearch, found: FileSearchResult, arguments: SearchFilesArguments, *, complete: bool
) -> Iterator[str]:
    if not found.entries:
        yield f"no files match {arguments.glob[:200]!r}" if arguments.glob else "the workspace has no files yet"
        return
    searched = search.files - search.binary - len(search.unread)
    matches = "1 match" if len(search.matches) == 1 else f"{len(search.matches):,} matches"
    files = "1 file" if searched == 1 else f"{searched:,} files"
    yield f"{matches} in {files}" + ("" if complete else ", and not everything was searched")
    if len(search.matches) >= search.max_matches:
        yield "there may be more; narrow the glob or the pattern, or raise max_matches"
    elif not complete:
        yield "narrow the glob"
    if search.binary:
        yield f"skipped as binary: {search.binary:,}"
    if search.shortened:
        yield f"only the first {MAX_LINE_BYTES:,} bytes of longer lines were searched"
    if search.unread:
        yield f"could not be read: {len(search.unread):,}"


SEARCH_FILES = Tool(
    "search_files",
    "Find lines with a text, or with a Python regular expression if regex is true, as path:line: text.",
    SearchFilesArguments,
    search_files,
    build_result_schema(
        {
            "matches": "object[]",
            "files_searched": "integer",
            "binary_files": "integer",
            "truncated": "boolean",
            "message": "string",
        },
        {"unread": "string[]"},
    ),
    read_only=True,
)
