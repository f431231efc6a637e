"""What somebody would see who sat at the terminal of a process: kept up to date when somebody looks, not before."""

import asyncio
from dataclasses import dataclass

from openskills.executors.processes.plain_text import plain_text
from openskills.executors.processes.screen import Picture, Screen
from openskills.executors.processes.screen_commands import Commands
from openskills.executors.processes.screen_parser import Parser
from openskills.executors.protocol import Process
from openskills.executors.spec import Terminal

MOST_CELLS = 100_000
"""A terminal with more of them gets no picture: it would cost more than it is worth."""

_BACKLOG = 512 * 1024
_SLICE = 4 * 1024
_BEYOND = 1 << 62


@dataclass(frozen=True, slots=True)
class View:
    """A piece of output as text to be read, and the screen where the output alone does not show how it looks."""

    text: str
    picture: Picture | None = None


class Viewer:
    """Follows the output of one process by its own offset, so that nobody else's reading matters to it."""

    def __init__(self, process: Process, terminal: Terminal) -> None:
        self._process = process
        self._screen = _screen(terminal)
        self._parser = Parser(Commands(self._screen)) if self._screen else None
        self._turn = asyncio.Lock()
        self._offset = 0

    async def look(self, offset: int, data: bytes) -> View:
        """A piece of output that began at `offset`, and the screen as it is now."""
        text = await plain_text(self._process, offset, data) if data else ""
        return View(text, await self.picture())

    async def picture(self) -> Picture | None:
        """The screen as it is now; None for a program that only writes line after line.

        Of more than 512 KiB since the last time only the end is looked at, and the picture says that it has a gap.
        """
        if self._screen is None or self._parser is None:
            return None
        async with self._turn:
            await self._catch_up(self._screen, self._parser)
            picture = self._screen.picture()
        return picture if picture.is_painted else None

    async def resize(self, terminal: Terminal) -> None:
        """The terminal has another size from now on."""
        if terminal.rows * terminal.columns > MOST_CELLS:
            self._screen = self._parser = None
        elif self._screen is not None and self._parser is not None:
            async with self._turn:
                await self._catch_up(self._screen, self._parser)
                self._screen.resize(terminal.rows, terminal.columns)

    async def _catch_up(self, screen: Screen, parser: Parser) -> None:
        printed = (await self._process.read(_BEYOND, limit=0)).offset
        begin = max(self._offset, printed - _BACKLOG)
        while self._offset < printed:
            output = await self._process.read(begin, limit=min(_SLICE, printed - begin))
            if output.offset > self._offset:
                screen.lost()
                parser.reset()
            parser.feed(output.data)
            self._offset = begin = output.next_offset
            # Others are to run meanwhile, however much there is to catch up with.
            await asyncio.sleep(0)


def _screen(terminal: Terminal) -> Screen | None:
    fits = terminal.rows * terminal.columns <= MOST_CELLS
    return Screen(terminal.rows, terminal.columns) if fits else None
