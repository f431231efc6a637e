"""Lines of files that come in pieces, in little memory however large the file or its lines are. Pure.

A line ends with a newline, as for `sed`, `grep` and editors; other separators of Unicode are characters like any other.
"""

import codecs
from dataclasses import dataclass

from openskills.errors import InvalidArgument

PAGE_BYTES = 32 * 1024
LONGEST = 1024 * 1024
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
        self.full = False
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
        if not self.full:
            self._keep(self._without_first_bytes(self._without_first_lines(chunk)))

    def page(self, *, complete: bool = True) -> Page:
        """The page, after the last piece, or when it is full: then `complete` says whether the last piece has come.

        Raises `InvalidArgument` when there is no such line.
        """
        if self._start_line > max(self.lines, 1):
            said = f"{self.lines:,} lines" if self.lines != 1 else "1 line"
            raise InvalidArgument("start_line", f"there is no line {self._start_line:,}; the file has {said}")
        if self._bytes_left:
            raise self._beyond(self._start_byte - self._bytes_left)
        if not self.full:
            self._end = len(self._kept)
        data = bytes(self._kept[: self._end])
        ended = data.count(b"\n")
        partial = bool(data) and not data.endswith(b"\n")
        end_line = self._start_line + ended - (0 if partial else 1)
        if not self.full or (complete and not partial and end_line == self.lines):
            return Page(data, self._start_line, end_line)
        cut = self._wanted is None or ended < self._wanted
        if not partial:
            return Page(data, self._start_line, end_line, end_line + 1, cut=cut)
        offset = len(data) + (0 if ended else self._start_byte) - (data.rfind(b"\n") + 1)
        return Page(data, self._start_line, end_line, end_line, offset, cut=True)

    def _without_first_lines(self, chunk: bytes) -> bytes:
        if not self._lines_left:
            return chunk
        ended = chunk.count(b"\n")
        if ended < self._lines_left:
            self._lines_left -= ended
            return b""
        rest = chunk.split(b"\n", self._lines_left)[-1]
        self._lines_left = 0
        return rest

    def _without_first_bytes(self, data: bytes) -> bytes:
        if not self._bytes_left or not data:
            return data
        end = data.find(b"\n", 0, self._bytes_left)
        if end >= 0:
            raise self._beyond(self._start_byte - self._bytes_left + end)
        skipped = min(len(data), self._bytes_left)
        self._bytes_left -= skipped
        return data[skipped:]

    def _beyond(self, length: int) -> InvalidArgument:
        return InvalidArgument("start_byte", f"line {self._start_line:,} has {length:,} bytes; write a smaller number")

    def _keep(self, data: bytes) -> None:
        # One byte more than a page: it may be the newline that makes its last line whole.
        self._kept += data[: self._limit + 1 - len(self._kept)]
        end = _end_of_line(self._kept, self._wanted) if self._wanted else 0
        if end:
            self._end, self.full = end, True
        elif len(self._kept) > self._limit:
            self._end, self.full = self._kept.rfind(b"\n") + 1 or whole_characters(self._kept[: self._limit]), True


class Blocks:
    """Takes a file piece by piece and gives blocks of whole lines, at most `longest` bytes of each line."""

    def __init__(self, longest: int = LONGEST) -> None:
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
        block = self._taken() + chunk[first:last]
        self._add(chunk[last:])
        return block

    def end(self) -> bytes:
        """The last line, if it has no newline, with one."""
        return self._taken() + b"\n" if self._open else b""

    def _add(self, piece: bytes) -> None:
        room = self._longest - len(self._open)
        self._open += piece[:room]
        self._is_short = self._is_short or len(piece) > room

    def _taken(self) -> bytes:
        line = bytes(self._open)
        self._open.clear()
        self.shortened += self._is_short
        self._is_short = False
        return line


def whole_characters(data: bytes | bytearray) -> int:
    """How many of these bytes there are without a character of UTF-8 that is cut at their end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(bytes(data[-4:]))
    return len(data) - len(decoder.getstate()[0])


def _end_of_line(data: bytearray, number: int) -> int:
    """Where the line of this number ends, its newline included; 0 when it does not."""
    place = 0
    for _ in range(number):
        place = data.find(b"\n", place) + 1
        if not place:
            return 0
    return place
