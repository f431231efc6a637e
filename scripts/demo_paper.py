"""What the demo prints on: a terminal with a little colour, or plain text when it goes to a file or a pipe."""

import os
import sys
from collections.abc import Iterable

_BOLD, _DIM, _GREEN, _RED = "1", "2", "32", "31"


class Paper:
    """Prints headings, indented lines, and the rows of a timeline."""

    def __init__(self) -> None:
        self._colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._number = 0

    def title(self, text: str) -> None:
        """The first line."""
        print(self._in(_BOLD, text), flush=True)

    def heading(self, text: str) -> None:
        """The next numbered step."""
        self._number += 1
        print(f"\n{self._in(_BOLD, f'{self._number}. {text}')}", flush=True)

    def lines(self, lines: Iterable[str], *, dim: bool = False) -> None:
        """Lines of a step."""
        for line in lines:
            print(f"   {self._in(_DIM, line) if dim and line else line}".rstrip(), flush=True)

    def row(self, seconds: float, what: str, text: str, *, failed: bool = False) -> None:
        """One moment of the timeline."""
        print(f"   {seconds:6.2f} s  {self._in(_RED if failed else _GREEN, f'{what:<9}')} {text}", flush=True)

    def end(self, title: str, lines: Iterable[str]) -> None:
        """What comes after the last step."""
        print(f"\n{self._in(_BOLD, title)}", flush=True)
        self.lines(lines)

    def _in(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours else text
