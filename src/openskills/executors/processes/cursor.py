"""Reading what a running command prints, piece by piece: each byte once, and no character in two pieces."""

import asyncio
from dataclasses import dataclass

from openskills.executors.processes.hints import WINDOW, Interaction, interaction
from openskills.executors.protocol import Process

_LONGEST_CHARACTER = 4
_LONGEST_ECHO = 4096
_BEYOND = 1 << 62


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of the output from `offset` up to `next_offset`; `missed` bytes before them are not kept any more.

    `complete` says that nothing came after them until now, `ended` that nothing will.
    """

    data: bytes
    offset: int
    next_offset: int
    missed: int
    complete: bool
    ended: bool
    interaction: Interaction | None

    @property
    def text(self) -> str:
        """The piece as text with plain line ends; what is no UTF-8 becomes U+FFFD. Escape sequences stay in it."""
        return self.data.decode("utf-8", "replace").replace("\r\n", "\n")


class Cursor:
    """A place in the output of one process. Whoever asks for the next piece waits for the one who asked before."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()
        self._offset = 0
        self._written_at = 0
        self._echo = ""

    async def next(self, *, wait: float, settle: float, limit: int) -> Piece:
        """What came since the last piece; a call that is cancelled takes nothing away. See `read`."""
        async with self._turn:
            piece = await self.read(self._offset, wait=wait, settle=settle, limit=limit)
            self._offset = piece.next_offset
            return piece

    async def read(self, offset: int, *, wait: float, settle: float, limit: int) -> Piece:
        """Output from a place on, gathered for up to `wait` seconds, up to `limit` bytes, or up to the end.

        Returns early when nothing more has come for `settle` seconds and the command seems to wait for input. A
        character that is not complete yet is left for the next piece.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait
        limit = max(limit, 2 * _LONGEST_CHARACTER)
        data, start, end, missed = bytearray(), offset, offset, 0
        asked: Interaction | None = await self._asks(end)
        while True:
            left = max(deadline - clock(), 0.0)
            output = await self._process.read(end, wait=min(left, settle) if asked else left, limit=limit - len(data))
            if output.missed and data:
                # More came than is kept while we read. What we have is whole; the next piece counts what is not.
                break
            if output.missed:
                start, missed = output.offset, output.missed
            data += output.data
            end = output.next_offset
            if output.ended or not output.data or len(data) >= limit:
                break
            asked = await self._asks(end)
        complete = len(data) < limit or output.ended
        left_out, kept_back = _cut_start(data) if missed else 0, 0 if output.ended else _cut_end(data)
        return Piece(
            bytes(data[left_out : len(data) - kept_back]),
            start + left_out,
            start + len(data) - kept_back,
            missed + left_out,
            complete,
            output.ended,
            await self._asks(end) if complete and not output.ended else None,
        )

    async def end(self) -> int:
        """How many bytes have been printed until now."""
        return (await self._process.read(_BEYOND, limit=0)).offset

    def wrote(self, data: bytes, at: int) -> None:
        """Input was given after `at` bytes of output: what those asked for is answered, and its echo asks nothing."""
        self._written_at = at
        self._echo = data.decode("utf-8", "replace").replace("\r", "\n") if len(data) <= _LONGEST_ECHO else ""

    async def _asks(self, end: int) -> Interaction | None:
        """What the output up to `end` asks for, beginning with the last input."""
        begin = max(self._written_at, end - WINDOW)
        if begin >= end:
            return None
        text = (await self._process.read(begin, limit=end - begin)).data.decode("utf-8", "replace")
        if begin == self._written_at and self._echo:
            text = text.replace("\r\n", "\n").removeprefix(self._echo)
        return interaction(text)


def _cut_end(data: bytes | bytearray) -> int:
    """How many bytes at the end are the beginning of something: of a character, or of a line end."""
    if data.endswith(b"\r"):
        return 1
    for back in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF8 else 0
            return back if back < needed else 0
        if byte < 0x80:
            break
    return 0


def _cut_start(data: bytes | bytearray) -> int:
    """How many bytes at the start are the rest of a character whose beginning is lost."""
    for place, byte in enumerate(data[:_LONGEST_CHARACTER]):
        if byte & 0xC0 != 0x80:
            return place
    return 0
