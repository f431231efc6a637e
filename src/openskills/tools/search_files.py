"""Search_files, bounded regular expressions.

Which lines match: plain text here, regular expressions in a process that can be ended when they take too long.

Python's `re` can need longer than the universe for a short pattern, and holds the interpreter meanwhile. A thread with
a deadline would not help; a process does, and needs no library that every machine would have to have.

`search_files`: lines of files that have a text, or match a regular expression.
"""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import AliasChoices, Field

from openskills.concurrency import run_in_thread
from openskills.errors import DeadlineExceeded, InvalidArgument, LimitExceeded, SkillError
from openskills.paths import to_printable
from openskills.subprocesses import HelperProcess, start_helper
from openskills.tools.files import FileEntry, FileSearchResult, OpenFile, find_files, open_file
from openskills.tools.lines import MAX_LINE_BYTES, LineMatch, LineSplitter, SearchWindow, is_binary
from openskills.tools.tool import Arguments, Tool, ToolContext, ToolResult

PROGRAM = Path(__file__).with_name("regex_program.py")
MAX_PATTERN = 1000
MAX_MATCHES = 500
"""At most so many lines of one text are told."""
REGEX_TIMEOUT = 10.0
"""How long one search may wait for its regular expression in all."""


class LineMatcher(Protocol):
    """Finds lines."""

    async def find_matches(self, text: str) -> Sequence[tuple[int, int]]:
        """The indices of the lines of a text that match, each with the column of its first match.

        Every line has its newline. After `MOST` lines that match the others are not looked at.
        """
        ...


@asynccontextmanager
async def open_matcher(
    pattern: str, *, regex: bool = False, ignore_case: bool = False, seconds: float = REGEX_TIMEOUT
) -> AsyncGenerator[LineMatcher]:
    """What finds the lines with this pattern. Raises `InvalidArgument` for what is no pattern, and while searching
    `DeadlineExceeded` or `LimitExceeded` for a regular expression that takes too long or too much memory."""
    if not pattern:
        raise InvalidArgument("pattern", "is empty; write what to search for")
    if "\n" in pattern:
        raise InvalidArgument("pattern", "has a newline; files are searched line by line")
    if len(pattern) > MAX_PATTERN:
        raise InvalidArgument("pattern", f"has {len(pattern):,} characters; {MAX_PATTERN:,} is the most")
    try:
        encoded = pattern.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument("pattern", "contains half a character (a lone surrogate)") from None
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
        await run_in_thread(lambda: helper.close(patience=0))


class _PlainTextMatcher:
    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self._pattern = pattern.casefold() if ignore_case else pattern

    async def find_matches(self, text: str) -> Sequence[tuple[int, int]]:
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
    def __init__(self, helper: HelperProcess, seconds: float) -> None:
        self._connection = helper.connection
        self._connection.setblocking(False)
        self._left = seconds
        self._seconds = seconds

    async def find_matches(self, text: str) -> Sequence[tuple[int, int]]:
        if not text:
            return ()
        found = await self.request(text.removesuffix("\n").encode("utf-8"))
        pairs = (pair.split(",") for pair in found.split())
        return [(int(line), int(column)) for line, column in pairs]

    async def request(self, frame: bytes) -> str:
        """What the program answers to a frame."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(self._left):
                await loop.sock_sendall(self._connection, len(frame).to_bytes(4, "big") + frame)
                size = int.from_bytes(await self._read_exactly(4), "big")
                answer = (await self._read_exactly(size)).decode("utf-8")
        except TimeoutError:
            raise DeadlineExceeded(
                f"the regular expression took more than {self._seconds:g} seconds; write a simpler one without a"
                " repetition inside a repetition, a narrower glob, or plain text"
            ) from None
        finally:
            self._left -= loop.time() - begun
        if answer.startswith("-"):
            raise InvalidArgument("pattern", f"is no regular expression that can be used: {answer[1:]}")
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
                raise LimitExceeded("the regular expression needed too much memory; write a simpler one")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


DEFAULT_MATCHES = 50
MAX_CONTEXT_LINES = 10
MAX_SEARCHED_FILES = 10_000
MAX_SEARCHED_BYTES = 256 * 1024 * 1024
MAX_TEXT_CHARS = 32 * 1024

_PIECE_BYTES = 128 * 1024
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
        default=None, description=f"Lines to show around each match, {MAX_CONTEXT_LINES} at most"
    )
    max_matches: int | None = Field(default=None, description=f"{DEFAULT_MATCHES} unless given, {MAX_MATCHES} at most")


@dataclass(slots=True)
class _FileSearch:
    """One search: what it found so far, and what it left out."""

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
        """Whether enough was found, or looked at."""
        return len(self.matches) >= self.max_matches or self.bytes >= MAX_SEARCHED_BYTES

    async def collect_matches(self, entry: FileEntry, window: SearchWindow, text: str, matcher: LineMatcher) -> None:
        """Keep those of these lines that match, as many as there is room for."""
        matches = (await matcher.find_matches(text))[: self.max_matches - len(self.matches)]
        self.matches += [(entry, hit) for hit in window.take(matches)]


async def search_files(context: ToolContext, arguments: SearchFilesArguments) -> ToolResult:
    """Search files line by line, in the order of their paths, until enough was found. Binary files are skipped."""
    around = min(_check_number(arguments.context_lines, "context_lines"), MAX_CONTEXT_LINES)
    most = min(_check_number(arguments.max_matches, "max_matches") or DEFAULT_MATCHES, MAX_MATCHES)
    search = _FileSearch(around, most)
    ignore_case = bool(arguments.ignore_case)
    async with open_matcher(arguments.pattern, regex=bool(arguments.regex), ignore_case=ignore_case) as matcher:
        found = await find_files(context, arguments.glob, limit=MAX_SEARCHED_FILES)
        for entry in found.entries:
            if search.is_full:
                break
            await _search_file(context, entry, matcher, search)
    return _build_result(search, found, arguments)


def _check_number(value: int | None, name: str) -> int:
    if value is not None and value < 0:
        raise InvalidArgument(name, f"{value} is negative")
    return value or 0


async def _search_file(context: ToolContext, entry: FileEntry, matcher: LineMatcher, search: _FileSearch) -> None:
    search.files += 1
    async with AsyncExitStack() as stack:
        try:
            source = await stack.enter_async_context(open_file(context, entry.file, field="glob"))
        except SkillError as error:
            # Gone or locked since it was listed; that must not cost the others.
            search.unread.append(error.message)
            return
        await _search_lines(source, entry, matcher, search)


async def _search_lines(source: OpenFile, entry: FileEntry, matcher: LineMatcher, search: _FileSearch) -> None:
    blocks, window = LineSplitter(), SearchWindow(search.context)
    head = True
    async for piece in _split_chunks(source.chunks):
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


async def _split_chunks(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same in small pieces: where something is found, lines are told apart, and those of newlines are many."""
    async for chunk in chunks:
        for start in range(0, len(chunk), _PIECE_BYTES):
            yield chunk[start : start + _PIECE_BYTES]


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
    """The matches as `path:line: text`, and how many of them are there if that is not all."""
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
        yield f"of lines longer than {MAX_LINE_BYTES:,} bytes only so much was searched"
    if search.unread:
        yield f"could not be read: {len(search.unread):,}"


SEARCH_FILES = Tool(
    "search_files",
    "Find lines in files of the workspace, of a skill (glob skill://name) or in artifacts, as path:line: text. Plain "
    "text unless regex is true.",
    SearchFilesArguments,
    search_files,
)
