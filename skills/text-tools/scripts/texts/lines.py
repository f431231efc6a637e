"""The lines of a text: in order, each once, with other ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from texts.figures import line_ends

ENDS = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Order:
    """How lines are compared: all of them or one column, as text or by the first number in it."""

    column: int | None = None
    delimiter: str | None = None
    numeric: bool = False
    ignore_case: bool = False

    def key(self) -> Callable[[str], Any]:
        return self.number if self.numeric else self.part

    def part(self, line: str) -> str:
        if self.column is not None:
            cells = line.split(self.delimiter)
            line = cells[self.column - 1].strip() if self.column <= len(cells) else ""
        return line.casefold() if self.ignore_case else line

    def number(self, line: str) -> tuple[bool, float]:
        """Lines without a number come last."""
        found = _NUMBER.search(self.part(line))
        return found is None, float(found.group()) if found else 0.0


def usual_end(text: str) -> str:
    """The end that most lines have."""
    found = line_ends(text)
    return ENDS[max(found, key=found.__getitem__)]


def with_ends(text: str, end: str) -> str:
    """The text with one kind of line end."""
    return _END.sub(end, text)


def bare(text: str) -> list[str]:
    """The lines without their ends; a text that ends with an end has no empty line after it."""
    return with_ends(text, "\n").removesuffix("\n").split("\n") if text else []


def joined(lines: Sequence[str], end: str) -> str:
    return "".join(line + end for line in lines)


def in_order(lines: list[str], order: Order, *, reverse: bool) -> list[str]:
    """Sorted; equal lines stay as they were. Lines without a number stay last."""
    if not (reverse and order.numeric):
        return sorted(lines, key=order.key(), reverse=reverse)
    return sorted(lines, key=lambda line: (order.number(line)[0], -order.number(line)[1]))


def once(lines: list[str], order: Order, only: str) -> list[str]:
    """Each line once, where it stood first; `only` those that are `repeated` or `single`."""
    counts = Counter(map(order.part, lines))
    seen: set[str] = set()
    kept: list[str] = []
    for line in lines:
        key = order.part(line)
        wanted = only == "all" or (counts[key] > 1) == (only == "repeated")
        if key not in seen and wanted:
            kept.append(line)
        seen.add(key)
    return kept


def counted(lines: list[str], order: Order, only: str) -> list[str]:
    """Each line once after its count, the most frequent first."""
    counts = Counter(map(order.part, lines))
    kept = sorted(once(lines, order, only), key=lambda line: -counts[order.part(line)])
    return [f"{counts[order.part(line)]}\t{line}" for line in kept]
