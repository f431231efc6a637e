"""Output of a terminal as text to be read: without colours, cursor moves and titles. Pure, but for `plain_text`."""

from openskills.executors.processes.screen_parser import ControlSequence, Parser
from openskills.executors.protocol import Process

_KEPT = "\t\n\r"
_ELSEWHERE = "ABEFHJdef"
_FURTHER = "CGIX`ab"
_NEAR, _FAR = 4 * 1024, 256 * 1024


class PlainText:
    """Gathers what is to be read. Implements `Sink`.

    A move to another line becomes a line end, a move within one becomes a blank, so that words stay apart.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []

    def taken(self) -> str:
        """What came since this was called last; line ends are plain ones."""
        text = "".join(self._parts).replace("\r\n", "\n")
        self._parts.clear()
        return text

    def text(self, text: str) -> None:
        """See `Sink.text`."""
        self._parts.append(text)

    def control(self, char: str) -> None:
        """See `Sink.control`."""
        if char in _KEPT:
            self._parts.append(char)

    def escape(self, between: str, final: str) -> None:
        """See `Sink.escape`."""
        if not between and final in "DEM":
            self._separate("\n")

    def sequence(self, found: ControlSequence) -> None:
        """See `Sink.sequence`."""
        if found.mark or found.between:
            return
        if found.final in _ELSEWHERE:
            self._separate("\n")
        elif found.final in _FURTHER:
            self._separate(" ")

    def _separate(self, by: str) -> None:
        if self._parts and not self._parts[-1].isspace() and not self._parts[-1].endswith(by):
            self._parts.append(by)


def stripped(data: bytes, before: bytes = b"") -> str:
    """Bytes as text to be read. `before` is what was written before them: they may begin within a sequence."""
    found = PlainText()
    parser = Parser(found)
    parser.feed(before)
    found.taken()
    parser.feed(data)
    return found.taken()


async def plain_text(process: Process, offset: int, data: bytes) -> str:
    """The bytes that a process has written from `offset` on as text to be read, wherever they begin.

    The same bytes give the same text, whoever asks and how often; only a sequence of more than 256 KiB may show.
    """
    for reach in (_NEAR, _FAR):
        begin = max(offset - reach, 0)
        output = await process.read(begin, limit=offset - begin)
        before = output.data[: max(offset - output.offset, 0)]
        start = before.rfind(b"\x1b")
        if start >= 0:
            return stripped(data, before[start:])
        if begin == 0 or output.offset > begin:
            break
    return stripped(data)
