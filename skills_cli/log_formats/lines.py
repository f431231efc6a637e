"""The lines of a file, in bounded memory."""

import io
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

LONGEST = 65_536
"""Characters of a line that are kept."""


class Lines:
    """The lines of a text file, without line ends, truncated to `LONGEST` characters; `cut` counts truncated ones."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._text = io.TextIOWrapper(file, encoding=encoding, errors="replace")
        self.number = 0
        self.cut = 0

    def __iter__(self) -> Iterator[str]:
        read = self._text.readline
        while line := read(LONGEST + 1):
            self.number += 1
            if line.endswith("\n"):
                yield line[:-1]
            elif len(line) <= LONGEST:
                yield line
            else:
                self.cut += 1
                yield line[:LONGEST]
                self._skip()

    def _skip(self) -> None:
        while (piece := self._text.readline(LONGEST)) and not piece.endswith("\n"):
            pass


def first_lines(sample: bytes, encoding: str, max_lines: int) -> list[str]:
    """The first lines of a file that are whole and not blank."""
    lines = (line.strip("\r\n") for line in io.TextIOWrapper(io.BytesIO(sample), encoding=encoding, errors="replace"))
    return list(islice((line for line in lines if line.strip()), max_lines))
