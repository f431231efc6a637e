"""What a program writes to a terminal, taken apart into text, controls and sequences. Pure.

Takes any bytes, in pieces of any size, in bounded memory; what it does not know is somebody else's to ignore.
"""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

_TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
_INSIDE = re.compile(r"[ -?]+")
_SEQUENCE = re.compile(r"([<=>?]?)([0-9;]*)([ -/]*)")
_STRING_END = re.compile(r"[\n\x07\x18\x1a\x1b\x9c]")

_ESCAPE, _CANCEL = "\x1b", "\x18\x1a"
_INTRODUCER, _TITLE, _STRINGS = "[", "]", "PX^_"
_LONGEST = 256
_MOST_NUMBERS = 16
_GREATEST = 9_999


@dataclass(frozen=True, slots=True)
class ControlSequence:
    """`ESC [ ? 25 h` as its mark `?`, its numbers (0 for one that is left out), what stands between, and its final."""

    mark: str
    numbers: tuple[int, ...]
    between: str
    final: str

    def number(self, place: int = 0) -> int:
        """The number at a place, 0 when there is none."""
        return self.numbers[place] if place < len(self.numbers) else 0

    @property
    def count(self) -> int:
        """The first number where it says how often: at least 1."""
        return max(self.number(), 1)


class Sink(Protocol):
    """Who hears what was found."""

    def text(self, text: str) -> None:
        """Characters to be shown."""
        ...

    def control(self, char: str) -> None:
        """One of the controls below U+0020, such as a line end."""
        ...

    def escape(self, between: str, final: str) -> None:
        """`ESC ( B` as `(` and `B`; controls from U+0080 on come as the escapes that mean the same."""
        ...

    def sequence(self, found: ControlSequence) -> None:
        """A control sequence."""
        ...


class Parser:
    """Where in the stream we are. Titles, clipboards, images and other strings are swallowed."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.reset()

    def reset(self) -> None:
        """Begin anew: what comes next does not follow what came before."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state: Callable[[str, int], int] = self._ground
        self._inside = ""
        self._ends_at_line = False

    def feed(self, data: bytes) -> None:
        """Take in what came next."""
        text = self._decoder.decode(data)
        at = 0
        while at < len(text):
            at = self._state(text, at)

    def _ground(self, text: str, at: int) -> int:
        run = _TEXT.match(text, at)
        if run:
            self._sink.text(run[0])
            return run.end()
        self._control(text[at])
        return at + 1

    def _control(self, char: str) -> None:
        if char == _ESCAPE:
            self._enter(self._escape)
        elif char in _CANCEL:
            self._enter(self._ground)
        elif char < " ":
            self._sink.control(char)
        elif char > "\x7f":
            # U+0080 to U+009F are short for ESC and a character from U+0040 on.
            self._enter(self._ground)
            self._introduced(chr(ord(char) - 0x40))

    def _escape(self, text: str, at: int) -> int:
        char = text[at]
        if char < " " or "\x7f" <= char <= "\x9f":
            self._control(char)
        elif char < "0":
            self._inside = (self._inside + char)[:_LONGEST]
        elif char > "~":
            self._enter(self._ground)
            return at
        elif self._inside:
            between = self._inside
            self._enter(self._ground)
            self._sink.escape(between, char)
        else:
            self._introduced(char)
        return at + 1

    def _introduced(self, char: str) -> None:
        if char == _INTRODUCER:
            self._enter(self._in_sequence)
        elif char == _TITLE or char in _STRINGS:
            self._enter(self._in_string)
            self._ends_at_line = char == _TITLE
        else:
            self._enter(self._ground)
            self._sink.escape("", char)

    def _in_sequence(self, text: str, at: int) -> int:
        run = _INSIDE.match(text, at)
        if run:
            # One character more than may be is kept, so that the end knows.
            self._inside = (self._inside + run[0][: _LONGEST + 1])[: _LONGEST + 1]
            return run.end()
        char = text[at]
        if char < " " or "\x7f" <= char <= "\x9f":
            self._control(char)
            return at + 1
        inside = self._inside
        self._enter(self._ground)
        if char > "~":
            return at
        found = _parsed(inside, char)
        if found is not None:
            self._sink.sequence(found)
        return at + 1

    def _in_string(self, text: str, at: int) -> int:
        found = _STRING_END.search(text, at)
        if not found:
            return len(text)
        char = found[0]
        if char in "\n\x07" and not self._ends_at_line:
            return found.end()
        # A title that does not end before its line does must not hide all that follows.
        self._enter(self._escape if char == _ESCAPE else self._ground)
        return found.start() if char == "\n" else found.end()

    def _enter(self, state: Callable[[str, int], int]) -> None:
        self._state = state
        self._inside = ""


def _parsed(inside: str, final: str) -> ControlSequence | None:
    match = _SEQUENCE.fullmatch(inside) if len(inside) <= _LONGEST else None
    if not match:
        return None
    mark, numbers, between = match.groups()
    values = numbers.split(";", _MOST_NUMBERS)[:_MOST_NUMBERS] if numbers else ()
    return ControlSequence(mark, tuple(min(int(value or "0"), _GREATEST) for value in values), between, final)
