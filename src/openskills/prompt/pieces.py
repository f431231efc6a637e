"""Texts cut to a budget of tokens, at a stated place. Pure."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import TypeAlias

from openskills.errors import InvalidArgument
from openskills.prompt.fragments import lines_in
from openskills.prompt.shown import Piece
from openskills.tokens import TokenCounter

Rest: TypeAlias = Callable[[int], str]
"""How to read on from a line: a sentence for the model."""

LEAST = 64
"""However little room is left, so many tokens of a text are shown, and how to read on."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many tokens one body, one document, and all loaded texts of an agent may have."""

    body: int = 20_000
    doc: int = 20_000
    total: int = 80_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < LEAST:
                raise InvalidArgument(f"budget.{field.name}", f"{value} is too little; {LEAST} tokens is the least")


def fitted(path: str, text: str, room: int, count: TokenCounter, rest: Rest) -> Piece:
    """The text, or as many of its first lines as fit into `room` tokens and a line that says how to read on.

    A first line that is too long by itself is cut, too. Less room than `LEAST` counts as that much.
    """
    lines = lines_in(text)
    tokens = count(text)
    if tokens <= max(room, LEAST):
        return Piece(path, text, tokens, len(lines))
    # Each part is counted by itself, and so rounded by itself.
    room = max(room, LEAST) - count(f"\n\n{_note(len(lines), len(lines), rest)}\n") - 2
    ends = list(accumulate(map(len, lines)))
    # Counters are almost linear, so a share of the length is a good beginning, and halving ends it.
    kept = bisect_right(ends, 0, key=lambda end: 0 if count(text[:end]) <= room else 1)
    shown = text[: ends[kept - 1]] if kept else _beginning(lines[0], room, count)
    cut = f"{shown.rstrip()}\n\n{_note(kept, len(lines), rest)}\n"
    return Piece(path, cut, count(cut), len(lines), kept)


def _beginning(line: str, room: int, count: TokenCounter) -> str:
    """As much of one line as fits."""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(line[:middle]) <= room else (low, middle - 1)
    return line[:low]


def _note(kept: int, lines: int, rest: Rest) -> str:
    place = f"after line {kept} of {lines}" if kept else f"within line 1 of {lines}"
    return f"[cut {place}; {rest(kept + 1)}]"
