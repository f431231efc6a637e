"""Rows of text: columns that fit the terminal for people, lines with tabs in a pipe."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from openskills.cli.output import Part, say, say_text

_GAP = 2
_LEAST = 20
"""What a wide column keeps even on a narrow terminal."""

_MOST = 40
"""What any other column takes at most."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its heading; a wide one gets the room that the others leave."""

    title: str
    style: str = ""
    wide: bool = False


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print `rows`, whose cells must be safe to print. No row, no heading."""
    if not sys.stdout.isatty():
        for row in rows:
            say_text("\t".join(row))
    elif rows:
        _show_columns(columns, rows)


def _show_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.cells import set_cell_size

    from openskills.cli.output import console_of

    shown = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    widths = _widths(columns, rows, console_of(sys.stdout).width, shown)
    say((_gap().join(set_cell_size(columns[n].title, widths[n]) for n in shown).rstrip(), "bold underline"))
    for row in rows:
        cells = [(_fit(row[n], widths[n], last=n == shown[-1]), columns[n].style) for n in shown]
        parts: list[Part] = [part for cell in cells for part in (_gap(), cell)]
        say(*parts[1:])


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int, shown: list[int]) -> dict[int, int]:
    from rich.cells import cell_len

    needed = {n: max(cell_len(columns[n].title), *(cell_len(row[n]) for row in rows)) for n in shown}
    widths = {n: needed[n] if columns[n].wide else min(needed[n], _MOST) for n in shown}
    others = sum(width for n, width in widths.items() if not columns[n].wide)
    left = room - others - _GAP * (len(shown) - 1)
    return {n: min(width, max(left, _LEAST)) if columns[n].wide else width for n, width in widths.items()}


def _fit(text: str, width: int, *, last: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    return text if last else set_cell_size(text, width)


def _gap() -> str:
    return " " * _GAP
