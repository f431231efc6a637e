"""Lines, windows, text or binary.

Lines of files that come in pieces, in little memory however large the file or its lines are. Pure.

A line ends with a newline, as for `sed`, `grep` and editors; other separators of Unicode are characters like any other.

Bytes of a file as a model may see them: whether they are text at all, and what had to be changed. Pure.

Lines that match, with the lines around them, of a text that comes in blocks of whole lines. Pure.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from openskills.errors import InvalidArgument
from openskills.executors.files.mime import BINARY, TEXT, detect_mime_type

PAGE_BYTES = 32 * 1024
MAX_LINE_BYTES = 1024 * 1024
"""Of a longer line only so many bytes are searched."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines of a file, as bytes.

    `end_line` is the last line that is here, at least in part. `next_line` and `next_byte` are where to read on, None
    when there is no more. `cut` says that the limit of a page kept something away that was asked for.
    """

    data: bytes
    start_line: int
    end_line: int
    next_line: int | None = None
    next_byte: int = 0
    cut: bool = False


class Pager:
    """Takes a file piece by piece and keeps one page of it: from `start_byte` of `start_line` on, at most `lines` lines
    and `limit` bytes. It counts all lines that it sees."""

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
        """Whether the page is complete: what comes now is only counted."""

    @property
    def lines(self) -> int:
        """How many lines have come so far, the one that has not ended among them."""
        return self._newlines + self._open_line

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of the file. Raises `InvalidArgument` when `start_byte` is behind the end of its line."""
        if not chunk:
            return
        self._newlines += chunk.count(b"\n")
        self._open_line = not chunk.endswith(b"\n")
        if not self.is_full:
            self._keep(self._skip_bytes(self._skip_lines(chunk)))

    def build_page(self, *, complete: bool = True) -> Page:
        """The page, after the last piece, or when it is full: then `complete` says whether the last piece has come.

        Raises `InvalidArgument` when there is no such line.
        """
        if self._start_line > max(self.lines, 1):
            said = f"{self.lines:,} lines" if self.lines != 1 else "1 line"
            raise InvalidArgument("start_line", f"there is no line {self._start_line:,}; the file has {said}")
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
        return InvalidArgument("start_byte", f"line {self._start_line:,} has {length:,} bytes; write a smaller number")

    def _keep(self, data: bytes) -> None:
        # One byte more than a page: it may be the newline that makes its last line whole.
        self._kept += data[: self._limit + 1 - len(self._kept)]
        end = _find_line_end(self._kept, self._wanted) if self._wanted else 0
        if end:
            self._end, self.is_full = end, True
        elif len(self._kept) > self._limit:
            self._end, self.is_full = self._kept.rfind(b"\n") + 1 or find_utf8_boundary(self._kept[: self._limit]), True


class LineSplitter:
    """Takes a file piece by piece and gives blocks of whole lines, at most `longest` bytes of each line."""

    def __init__(self, longest: int = MAX_LINE_BYTES) -> None:
        self._longest = longest
        self._open = bytearray()
        self._is_short = False
        self.shortened = 0
        """Of how many lines the end was not kept."""

    def feed(self, chunk: bytes) -> bytes:
        """The lines that end in this piece, which is not longer than the longest line may be."""
        first, last = chunk.find(b"\n"), chunk.rfind(b"\n") + 1
        if not last:
            self._add(chunk)
            return b""
        self._add(chunk[:first])
        block = self._take_line() + chunk[first:last]
        self._add(chunk[last:])
        return block

    def flush(self) -> bytes:
        """The last line, if it has no newline, with one."""
        return self._take_line() + b"\n" if self._open else b""

    def _add(self, piece: bytes) -> None:
        room = self._longest - len(self._open)
        self._open += piece[:room]
        self._is_short = self._is_short or len(piece) > room

    def _take_line(self) -> bytes:
        line = bytes(self._open)
        self._open.clear()
        self.shortened += self._is_short
        self._is_short = False
        return line


def find_utf8_boundary(data: bytes | bytearray) -> int:
    """How many of these bytes there are without a character of UTF-8 that is cut at their end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(bytes(data[-4:]))
    return len(data) - len(decoder.getstate()[0])


def _find_line_end(data: bytearray, number: int) -> int:
    """Where the line of this number ends, its newline included; 0 when it does not."""
    place = 0
    for _ in range(number):
        place = data.find(b"\n", place) + 1
        if not place:
            return 0
    return place


HEAD_BYTES = 8192
"""So many bytes of a file decide whether it is text."""

UTF_16 = "text/plain; charset=utf-16"

_BOM = b"\xef\xbb\xbf"
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"
_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page; `replaced` when bytes of it are no UTF-8. `notes` say what is different from the file."""

    text: str
    notes: tuple[str, ...] = ()
    replaced: bool = False


def is_binary(head: bytes) -> bool:
    """Whether a file that begins like this is no text. Text in another encoding than UTF-8 still is."""
    head = head[:HEAD_BYTES]
    if b"\0" in head:
        return True
    kind = detect_mime_type("", head)
    if kind != BINARY:
        return kind != TEXT
    # An eighth-bit character of Latin-1 here and there is text, what is full of them is not.
    odd = head.decode("utf-8", "replace").count("\ufffd") + len(head) - len(head.translate(None, _CONTROLS))
    return odd > len(head) * _SHARE


def detect_text_type(name: str, head: bytes) -> str:
    """The MIME type of a file, text in another encoding told from what is no text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and not head.startswith(b"\xff\xfe\0\0"):
        return UTF_16
    kind = detect_mime_type(name, head)
    return TEXT if kind == BINARY and not is_binary(head) else kind


def decode_page(page: Page, *, is_beginning: bool) -> PageText:
    """The page as text, its lines ended by LF."""
    data = page.data
    notes: list[str] = []
    if is_beginning and data.startswith(_BOM):
        data = data.removeprefix(_BOM)
        notes.append("a byte order mark at the beginning is not shown")
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
        notes.append("lines end with CRLF")
    text, replaced = _decode(data)
    if replaced:
        notes.append("bytes that are not UTF-8 are shown as \ufffd")
    return PageText(text, tuple(notes), replaced)


def _decode(data: bytes) -> tuple[str, bool]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").replace("\0", "\ufffd"), True
    # Transcripts are kept in databases that refuse NUL.
    return text.replace("\0", "\ufffd"), "\0" in text


MAX_LINE_CHARS = 240
"""So many characters of a line are shown."""


@dataclass(frozen=True, slots=True)
class LineMatch:
    """A line that matches and its number, counted from 1; long lines are cut around the match."""

    number: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class SearchWindow:
    """Holds the lines that are being searched and `context` lines on each side of them.

    Lines are only told apart where something was found: most of most files is passed over at the speed of `find`.
    """

    def __init__(self, context: int = 0) -> None:
        self._context = context
        self._text = ""
        self._begin = self._end = 0
        self._before = 0
        self._number = 1

    def add(self, block: str, *, last: bool = False) -> str:
        """Take the next lines, each with its newline; those that can be searched now are the answer.

        Lines whose following lines have not come yet wait for them, unless these were the `last` ones.
        """
        self._text += block
        held = len(self._text) if last else _find_start(self._text, len(self._text), self._context)
        self._end = max(self._begin, held)
        return self._text[self._begin : self._end]

    def take(self, matches: Sequence[tuple[int, int]]) -> list[LineMatch]:
        """The lines of the last answer that matched: their indices in it, and the columns where they did."""
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
    """A line, or what is around a column of it, with marks where it was cut."""
    if len(line) <= MAX_LINE_CHARS:
        return line
    start = max(0, min(column - MAX_LINE_CHARS // 4, len(line) - MAX_LINE_CHARS))
    end = start + MAX_LINE_CHARS
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


def _find_start(text: str, end: int, lines: int) -> int:
    """Where the last so many lines before `end`, which is the end of a line, begin."""
    for _ in range(lines):
        if not end:
            break
        end = text.rfind("\n", 0, end - 1) + 1
    return end
