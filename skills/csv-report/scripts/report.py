#!/usr/bin/env python3
"""Describe a CSV or TSV file as a Markdown report: rows, column types, missing values, statistics of numbers.

Exit status: 0 done, 2 wrong argument or unreadable file, 3 the file holds no table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The parts lie beside this file, and the folder of a skill stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tables.asking import number_of, parser_for, write  # noqa: E402
from tables.reading import Fault, as_number, header_of, rows_of  # noqa: E402

EXAMPLES = """examples:
  report.py sales.csv                       the report on standard output
  report.py sales.csv --output report.md    in a file; a bare name lies in $OUTPUT_DIR, where that is set
  report.py export.txt --delimiter ";" --encoding gb18030
  report.py huge.csv --limit 100000         only the first rows
"""

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]+")


@dataclass
class Column:
    """What has been seen of one column so far."""

    name: str
    missing: int = 0
    integers: int = 0
    numbers: int = 0
    dates: int = 0
    others: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    mean: float = 0.0

    def see(self, text: str) -> None:
        text = text.strip()
        if not text:
            self.missing += 1
        elif _INTEGER.fullmatch(text):
            self.integers += 1
            self._measure(float(text))
        elif (number := as_number(text)) is not None:
            self.numbers += 1
            self._measure(number)
        elif _DATE.fullmatch(text):
            self.dates += 1
        else:
            self.others += 1

    def _measure(self, value: float) -> None:
        self.low, self.high = min(self.low, value), max(self.high, value)
        # A running mean needs no memory, and no sum that could overflow.
        count = self.integers + self.numbers
        self.mean += value / count - self.mean / count

    @property
    def kind(self) -> str:
        numeric, seen = self.integers + self.numbers, self.integers + self.numbers + self.dates + self.others
        if not seen:
            return "empty"
        if numeric == seen:
            return "number" if self.numbers else "integer"
        if self.dates == seen:
            return "date"
        return "mixed" if numeric >= 0.9 * seen else "text"

    def row(self) -> str:
        figures = ["", "", ""]
        if self.kind in ("integer", "number", "mixed"):
            figures = [f"{self.low:.15g}", rounded(self.mean), f"{self.high:.15g}"]
        return f"| {in_cell(self.name)} | {self.kind} | {self.missing} | {' | '.join(figures)} |"


def rounded(value: float) -> str:
    """Six digits that matter, and never fewer than the whole part."""
    return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.15g}" if abs(value) >= 1e15 else f"{value:.2f}"


def in_cell(name: str) -> str:
    """A name as a cell of a Markdown table."""
    plain = _UNPRINTABLE.sub(" ", name).replace("|", "\\|")
    return plain if len(plain) <= 100 else plain[:99] + "…"


def describe(path: Path, rows: Iterator[list[str]], limit: int | None) -> str:
    columns = [Column(name) for name in header_of(rows, path)]
    count, odd, replaced = fill(columns, rows, limit)
    text = [f"# Report on {path.name}", "", f"{count:,} rows, {len(columns)} columns."]
    if limit is not None and count >= limit:
        text.append(f"Only the first {limit:,} rows were read.")
    if odd:
        text.append(f"**{odd:,} rows have another number of cells than the header.**")
    if replaced:
        text.append("**Some characters could not be read; try `--encoding gb18030`, `big5` or `cp1252`.**")
    text += ["", "| column | type | missing | smallest | mean | largest |", "|---|---|---:|---:|---:|---:|"]
    return "\n".join(text + [column.row() for column in columns]) + "\n"


def fill(columns: list[Column], rows: Iterator[list[str]], limit: int | None) -> tuple[int, int, bool]:
    """Show the columns their cells: how many rows there were, how many were odd, whether bytes were replaced."""
    count, odd, replaced = 0, 0, any("\ufffd" in column.name for column in columns)
    for row in rows:
        if limit is not None and count >= limit:
            break
        count += 1
        odd += len(row) != len(columns)
        for number, column in enumerate(columns):
            text = row[number] if number < len(row) else ""
            replaced = replaced or "\ufffd" in text
            column.see(text)
    return count, odd, replaced


def main() -> int:
    parser = parser_for(__doc__ or "", EXAMPLES)
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to write (default: standard output)")
    parser.add_argument("--limit", type=number_of, metavar="N", help="read only this many rows")
    options = parser.parse_args()
    try:
        rows = rows_of(options.table, options.delimiter, options.encoding)
        write(describe(options.table, rows, options.limit), options.output)
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return fault.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
