"""Pages, blocks of lines and search windows over files that are read in chunks, in bounded memory. No I/O.

A line ends with a newline, as for `sed`, `grep` and editors; other Unicode separators are ordinary characters.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from openskills.errors import InvalidArgument
from openskills.executors.files.mime import BINARY, TEXT, detect_mime_type

PAGE_BYTES = 32 * 1024
MAX_LINE_BYTES = 1024 * 1024
"""Only this many bytes of a line are searched."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines of a file, as bytes.

    `end_line` is the last line, complete or not. `next_line` and `next_byte` are where to read on, `next_line` is None
    at the end. `cut`: the page limit left out requested lines.
    """

    data: bytes
    start_line: int
    end_line: int
    next_line: int | None = None
    next_byte: int = 0
    cut: bool = False


class Pager:
    """Reads a file in chunks and keeps one page: from `start_byte` of `start_line`, up to `lines` and `limit` bytes.

    All lines are counted. `is_full`: the page is complete, and further chunks are only counted.
    """

    def __init__(
        self, start_line: int = 1, start_byte: int = 0, lines: int | None = None, limit: int = PAGE_BYTES
    ) -> None:
        self._start_line = start_line
        self._start_byte = start_byte
        self._wanted = lines
        self._limit = limit
        self._lines_left = start_line - 1
        self._bytes_left = start_byte
        self._kept = bytearray()
        self._end = 0
        self._newlines = 0
        self._open_line = False
        self.is_full = False

    @property
    def lines(self) -> int:
        """How many lines were fed so far, including an unfinished one."""
        return self._newlines + self._open_line

    def feed(self, chunk: bytes) -> None:
        """Take the next chunk. Raises `InvalidArgument` if `start_byte` is beyond the end of its line."""
        if not chunk:
            return
        self._newlines += chunk.count(b"\n")
        self._open_line = not chunk.endswith(b"\n")
        if not self.is_full:
            self._keep(self._skip_bytes(self._skip_lines(chunk)))

    def build_page(self, *, complete: bool = True) -> Page:
        """Build the page, after the last chunk or when it is full; `complete` says whether all chunks were fed.

        Raises `InvalidArgument` if the file has fewer lines.
        """
        if self._start_line > max(self.lines, 1):
            lines = f"{self.lines:,} lines" if self.lines != 1 else "1 line"
            raise InvalidArgument("start_line", f"the file has {lines}; line {self._start_line:,} does not exist")
        if self._bytes_left:
            raise self._build_offset_error(self._start_byte - self._bytes_left)
        if not self.is_full:
            self._end = len(self._kept)
        data = bytes(self._kept[: self._end])
        ended = data.count(b"\n")
        partial = bool(data) and not data.endswith(b"\n")
        end_line = self._start_line + ended - (0 if partial else 1)
        if not self.is_full or (complete and not partial and end_line == self.lines):
            return Page(data, self._start_line, end_line)
        cut = self._wanted is None or ended < self._wanted
        if not partial:
            return Page(data, self._start_line, end_line, end_line + 1, cut=cut)
        offset = len(data) + (0 if ended else self._start_byte) - (data.rfind(b"\n") + 1)
        return Page(data, self._start_line, end_line, end_line, offset, cut=True)

    def _skip_lines(self, chunk: bytes) -> bytes:
        if not self._lines_left:
            return chunk
        ended = chunk.count(b"\n")
        if ended < self._lines_left:
            self._lines_left -= ended
            return b""
        rest = chunk.split(b"\n", self._lines_left)[-1]
        self._lines_left = 0
        return rest

    def _skip_bytes(self, data: bytes) -> bytes:
        if not self._bytes_left or not data:
            return data
        end = data.find(b"\n", 0, self._bytes_left)
        if end >= 0:
            raise self._build_offset_error(self._start_byte - self._bytes_left + end)
        skipped = min(len(data), self._bytes_left)
        self._bytes_left -= skipped
        return data[skipped:]

    def _build_offset_error(self, length: int) -> InvalidArgument:
        return InvalidArgument("start_byte", f"line {self._start_line:,} has {length:,} bytes; use a smaller number")

    def _keep(self, data: bytes) -> None:
        # One byte more than a page: it may be the newline that completes its last line.
        self._kept += data[: self._limit + 1 - len(self._kept)]
        end = _find_line_end(self._kept, self._wanted) if self._wanted else 0
        if end:
            self._end, self.is_full = end, True
        elif len(self._kept) > self._limit:
            self._end, self.is_full = self._kept.rfind(b"\n") + 1 or find_utf8_boundary(self._kept[: self._limit]), True


class LineSplitter:
    """Splits chunks into blocks of whole lines of at most `max_bytes`; `shortened` counts the lines that were cut."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._open = bytearray()
        self._is_short = False
        self.shortened = 0

    def feed(self, chunk: bytes) -> bytes:
        """Return the lines that end in this chunk, which must not be longer than `max_bytes`."""
        first, last = chunk.find(b"\n"), chunk.rfind(b"\n") + 1
        if not last:
            self._add(chunk)
            return b""
        self._add(chunk[:first])
        block = self._take_line() + chunk[first:last]
        self._add(chunk[last:])
        return block

    def flush(self) -> bytes:
        """Return the last line with a newline, if it had none."""
        return self._take_line() + b"\n" if self._open else b""

    def _add(self, piece: bytes) -> None:
        room = self._max_bytes - len(self._open)
        self._open += piece[:room]
        self._is_short = self._is_short or len(piece) > room

    def _take_line(self) -> bytes:
        line = bytes(self._open)
        self._open.clear()
        self.shortened += self._is_short
        self._is_short = False
        return line


def find_utf8_boundary(data: bytes | bytearray) -> int:
    """The length of the data without an incomplete UTF-8 character at its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(bytes(data[-4:]))
    return len(data) - len(decoder.getstate()[0])


def _find_line_end(data: bytearray, number: int) -> int:
    """The offset after the newline of this line; 0 if there are fewer lines."""
    place = 0
    for _ in range(number):
        place = data.find(b"\n", place) + 1
        if not place:
            return 0
    return place


HEAD_BYTES = 8192
"""The first bytes of a file decide whether it is text."""

UTF_16 = "text/plain; charset=utf-16"

_BOM = b"\xef\xbb\xbf"
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"
_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page; `notes` say how it differs from the file."""

    text: str
    notes: tuple[str, ...] = ()


def is_binary(head: bytes) -> bool:
    """Whether a file that begins like this is binary. Text in an 8-bit encoding is not."""
    head = head[:HEAD_BYTES]
    if b"\0" in head:
        return True
    kind = detect_mime_type("", head)
    if kind != BINARY:
        return kind != TEXT
    # A few Latin-1 characters are text; a file full of them is binary.
    odd = head.decode("utf-8", "replace").count("\ufffd") + len(head) - len(head.translate(None, _CONTROLS))
    return odd > len(head) * _SHARE


def detect_text_type(name: str, head: bytes) -> str:
    """The MIME type of a file; text in another encoding is text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and not head.startswith(b"\xff\xfe\0\0"):
        return UTF_16
    kind = detect_mime_type(name, head)
    return TEXT if kind == BINARY and not is_binary(head) else kind


def decode_page(page: Page, *, is_beginning: bool) -> PageText:
    """Decode a page, with LF line ends."""
    data = page.data
    notes: list[str] = []
    if is_beginning and data.startswith(_BOM):
        data = data.removeprefix(_BOM)
        notes.append("byte order mark not shown")
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
        notes.append("lines end with CRLF")
    # Databases that store transcripts reject NUL.
    text = data.decode("utf-8", "replace").replace("\0", "\ufffd")
    if text.encode() != data:
        notes.append("bytes that are not UTF-8 are shown as \ufffd")
    return PageText(text, tuple(notes))


MAX_LINE_CHARS = 240
"""Characters of a line that are shown."""


@dataclass(frozen=True, slots=True)
class LineMatch:
    """A matching line and its number, counted from 1; long lines are cut around the match."""

    number: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class SearchWindow:
    """Holds the lines that are being searched and `context` lines on each side.

    Text is split into lines only where something was found, so that most of a file is searched at the speed of `find`.
    """

    def __init__(self, context: int = 0) -> None:
        self._context = context
        self._text = ""
        self._begin = self._end = 0
        self._before = 0
        self._number = 1

    def add(self, block: str, *, last: bool = False) -> str:
        """Take the next lines and return those that can be searched now.

        Lines wait until their context after them has arrived, unless these were the `last` ones.
        """
        self._text += block
        held = len(self._text) if last else _find_start(self._text, len(self._text), self._context)
        self._end = max(self._begin, held)
        return self._text[self._begin : self._end]

    def take(self, matches: Sequence[tuple[int, int]]) -> list[LineMatch]:
        """Return the matching lines of the text that `add` returned, given as (index, column)."""
        lines = self._text.split("\n")[:-1] if matches else []
        hits = [self._build_match(lines, self._before + index, column) for index, column in matches]
        begun = _find_start(self._text, self._end, self._context)
        self._number += self._text.count("\n", 0, begun)
        self._before = self._text.count("\n", begun, self._end)
        self._text = self._text[begun:]
        self._begin = self._end - begun
        return hits

    def _build_match(self, lines: Sequence[str], index: int, column: int) -> LineMatch:
        before = lines[max(0, index - self._context) : index]
        after = lines[index + 1 : index + 1 + self._context]
        text = excerpt(lines[index], column)
        return LineMatch(self._number + index, text, tuple(map(excerpt, before)), tuple(map(excerpt, after)))


def excerpt(line: str, column: int = 0) -> str:
    """A line, cut around a column if it is long."""
    if len(line) <= MAX_LINE_CHARS:
        return line
    start = max(0, min(column - MAX_LINE_CHARS // 4, len(line) - MAX_LINE_CHARS))
    end = start + MAX_LINE_CHARS
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


def _find_start(text: str, end: int, lines: int) -> int:
    """The start of the last `lines` lines before `end`, which is the end of a line."""
    for _ in range(lines):
        if not end:
            break
        end = text.rfind("\n", 0, end - 1) + 1
    return end
