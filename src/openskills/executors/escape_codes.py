"""Parser for terminal output, and conversion of terminal output to plain text.

The parser takes any bytes, in chunks of any size, in bounded memory. It splits them into text, control characters and
escape sequences; unknown sequences are left for the sink to ignore.
"""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from openskills.executors.protocol import Process

_TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
_INSIDE = re.compile(r"[ -?]+")
_SEQUENCE = re.compile(r"([<=>?]?)([0-9;]*)([ -/]*)")
_STRING_END = re.compile(r"[\n\x07\x18\x1a\x1b\x9c]")

_ESCAPE, _CANCEL = "\x1b", "\x18\x1a"
_INTRODUCER, _TITLE, _STRINGS = "[", "]", "PX^_"
_MAX_SEQUENCE = 256
_MAX_NUMBERS = 16
_MAX_NUMBER = 9_999


@dataclass(frozen=True, slots=True)
class ControlSequence:
    """`ESC [ ? 25 h`: the prefix `?`, the numbers (0 if omitted), intermediate characters, and the final one."""

    prefix: str
    numbers: tuple[int, ...]
    intermediate: str
    final: str

    def number(self, place: int = 0) -> int:
        """The number at an index, 0 if absent."""
        return self.numbers[place] if place < len(self.numbers) else 0

    @property
    def count(self) -> int:
        """The first number as a repeat count: at least 1."""
        return max(self.number(), 1)


class EscapeSink(Protocol):
    """Receives what the parser finds."""

    def text(self, text: str) -> None:
        """Printable characters."""
        ...

    def control(self, char: str) -> None:
        """A control character below U+0020, such as a newline."""
        ...

    def escape(self, between: str, final: str) -> None:
        """`ESC ( B` as `(` and `B`. Controls from U+0080 on arrive as the equivalent escapes."""
        ...

    def sequence(self, found: ControlSequence) -> None:
        """A control sequence."""
        ...


class EscapeParser:
    """Incremental parser. Titles, clipboard data, images and other strings are dropped."""

    def __init__(self, sink: EscapeSink) -> None:
        self._sink = sink
        self.reset()

    def reset(self) -> None:
        """Start over, after a gap in the stream."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state: Callable[[str, int], int] = self._parse_ground
        self._inside = ""
        self._ends_at_line = False

    def feed(self, data: bytes) -> None:
        """Parse the next bytes."""
        text = self._decoder.decode(data)
        at = 0
        while at < len(text):
            at = self._state(text, at)

    def _parse_ground(self, text: str, at: int) -> int:
        run = _TEXT.match(text, at)
        if run:
            self._sink.text(run[0])
            return run.end()
        self._handle_control(text[at])
        return at + 1

    def _handle_control(self, char: str) -> None:
        if char == _ESCAPE:
            self._set_state(self._parse_escape)
        elif char in _CANCEL:
            self._set_state(self._parse_ground)
        elif char < " ":
            self._sink.control(char)
        elif char > "\x7f":
            # U+0080 to U+009F are short forms of ESC and a character from U+0040 on.
            self._set_state(self._parse_ground)
            self._start_sequence(chr(ord(char) - 0x40))

    def _parse_escape(self, text: str, at: int) -> int:
        char = text[at]
        if char < " " or "\x7f" <= char <= "\x9f":
            self._handle_control(char)
        elif char < "0":
            self._inside = (self._inside + char)[:_MAX_SEQUENCE]
        elif char > "~":
            self._set_state(self._parse_ground)
            return at
        elif self._inside:
            between = self._inside
            self._set_state(self._parse_ground)
            self._sink.escape(between, char)
        else:
            self._start_sequence(char)
        return at + 1

    def _start_sequence(self, char: str) -> None:
        if char == _INTRODUCER:
            self._set_state(self._read_sequence)
        elif char == _TITLE or char in _STRINGS:
            self._set_state(self._skip_string)
            self._ends_at_line = char == _TITLE
        else:
            self._set_state(self._parse_ground)
            self._sink.escape("", char)

    def _read_sequence(self, text: str, at: int) -> int:
        run = _INSIDE.match(text, at)
        if run:
            # Keep one character more than allowed, so that the end of the sequence can tell.
            self._inside = (self._inside + run[0][: _MAX_SEQUENCE + 1])[: _MAX_SEQUENCE + 1]
            return run.end()
        char = text[at]
        if char < " " or "\x7f" <= char <= "\x9f":
            self._handle_control(char)
            return at + 1
        inside = self._inside
        self._set_state(self._parse_ground)
        if char > "~":
            return at
        match = _SEQUENCE.fullmatch(inside) if len(inside) <= _MAX_SEQUENCE else None
        if match:
            prefix, numbers, between = match.groups()
            values = numbers.split(";", _MAX_NUMBERS)[:_MAX_NUMBERS] if numbers else ()
            found = tuple(min(int(value or "0"), _MAX_NUMBER) for value in values)
            self._sink.sequence(ControlSequence(prefix, found, between, char))
        return at + 1

    def _skip_string(self, text: str, at: int) -> int:
        found = _STRING_END.search(text, at)
        if not found:
            return len(text)
        char = found[0]
        if char in "\n\x07" and not self._ends_at_line:
            return found.end()
        # An unterminated title must not hide everything after its line.
        self._set_state(self._parse_escape if char == _ESCAPE else self._parse_ground)
        return found.start() if char == "\n" else found.end()

    def _set_state(self, state: Callable[[str, int], int]) -> None:
        self._state = state
        self._inside = ""


_PLAIN_CONTROLS = "\t\n\r"
_LINE_MOVES = "ABEFHJdef"
_COLUMN_MOVES = "CGIX`ab"
_NEAR_LOOKBACK, _FAR_LOOKBACK = 4 * 1024, 256 * 1024


class PlainTextSink:
    """Collects plain text. Implements `EscapeSink`.

    A move to another line becomes a newline and a move within a line becomes a space, so that words stay separate.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []

    def take(self) -> str:
        r"""The text since the last call, with `\n` as line ends."""
        text = "".join(self._parts).replace("\r\n", "\n")
        self._parts.clear()
        return text

    def text(self, text: str) -> None:
        self._parts.append(text)

    def control(self, char: str) -> None:
        if char in _PLAIN_CONTROLS:
            self._parts.append(char)

    def escape(self, between: str, final: str) -> None:
        if not between and final in "DEM":
            self._separate("\n")

    def sequence(self, found: ControlSequence) -> None:
        if found.prefix or found.intermediate:
            return
        if found.final in _LINE_MOVES:
            self._separate("\n")
        elif found.final in _COLUMN_MOVES:
            self._separate(" ")

    def _separate(self, by: str) -> None:
        if self._parts and not self._parts[-1].isspace() and not self._parts[-1].endswith(by):
            self._parts.append(by)


def strip_escapes(data: bytes, before: bytes = b"") -> str:
    """Convert terminal output to plain text. `before` is preceding output, in case `data` starts within a sequence."""
    found = PlainTextSink()
    parser = EscapeParser(found)
    parser.feed(before)
    found.take()
    parser.feed(data)
    return found.take()


async def read_plain_text(process: Process, offset: int, data: bytes) -> str:
    """The output of a process from `offset` on as plain text, even if `data` starts within a sequence.

    The result depends only on the output. Only an escape sequence longer than 256 KiB may become visible.
    """
    for reach in (_NEAR_LOOKBACK, _FAR_LOOKBACK):
        begin = max(offset - reach, 0)
        output = await process.read(begin, limit=offset - begin)
        before = output.data[: max(offset - output.offset, 0)]
        start = before.rfind(b"\x1b")
        if start >= 0:
            return strip_escapes(data, before[start:])
        if begin == 0 or output.offset > begin:
            break
    return strip_escapes(data)
