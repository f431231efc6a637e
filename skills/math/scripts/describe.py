#!/usr/bin/env python3
"""Statistics of numbers: sum, mean, median, quartiles, modes, variance and standard deviation.

Numbers come from the command line, from a text file (between blanks, commas or line ends) or a column of a CSV file.
Exit status: 0 done, 2 wrong argument, unreadable file or a value that is not a number, 3 no numbers at all.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TextIO

# The parts lie beside this file, and the folder of a skill stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from exact.sample import Sample, modes, scaled, statistics  # noqa: E402
from exact.values import Fault, as_data, prepare, rounded  # noqa: E402

EXAMPLES = """examples:
  describe.py 2.5 3 3 4.75
  describe.py --file numbers.txt
  describe.py --file sales.csv --column amount --skip           cells that are not numbers are left out, and counted
  describe.py --json -- -3 -1 4                                 numbers below zero come after --
"""
MAX_LINE = 1_000_000


def lines(file: TextIO, path: Path) -> Iterator[str]:
    while line := file.readline(MAX_LINE):
        if "\0" in line or len(line) == MAX_LINE:
            raise Fault(f"--file: {path} is not text, or has lines that are too long")
        yield line


def from_file(path: Path, column: str | None) -> Iterator[tuple[str, str]]:
    """What may be a number, and where it stands."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            if column is not None:
                yield from from_table(lines(file, path), column)
                return
            for number, line in enumerate(lines(file, path), 1):
                yield from ((f"line {number}", word) for word in re.split(r"[\s,;]+", line) if word)
    except (OSError, csv.Error) as error:
        raise Fault(f"--file: cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def from_table(text: Iterator[str], column: str) -> Iterator[tuple[str, str]]:
    first = next(text, "")
    rows = csv.reader(chain([first], text), delimiter=max(",;\t|", key=first.count))
    header = [name.strip() for name in next(rows, [])]
    if column not in header:
        raise Fault(f"--column: unknown column {column!r}; the file has: {', '.join(header[:20])}")
    place = header.index(column)
    for row in rows:
        if place < len(row) and row[place].strip():
            yield f"line {rows.line_num}", row[place].strip()


def arguments() -> argparse.Namespace:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    parser.add_argument("numbers", nargs="*", metavar="NUMBER")
    parser.add_argument("--file", type=Path, help="read them from here")
    parser.add_argument("--column", metavar="NAME", help="of a CSV file; empty cells are left out")
    parser.add_argument("--skip", action="store_true", help="leave out cells that are not numbers, and say how many")
    parser.add_argument("--digits", type=int, default=12, metavar="N", help="of rounded figures (default: 12)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, with exact fractions")
    options = parser.parse_args()
    if bool(options.numbers) == bool(options.file):
        parser.error("give either numbers or --file")
    if options.column is not None and not options.file:
        parser.error("argument --column: needs --file")
    return options


def as_json(sample: Sample, digits: int, skipped: int) -> str:
    values, times = modes(sample)
    figures: dict[str, object] = {name: as_data(value, digits) for name, value in statistics(sample).items()}
    more = {"modes": {"values": [str(value) for value in values], "times": times}, "skipped": skipped}
    return json.dumps({**figures, **more}, indent=2)


def as_text(sample: Sample, digits: int, skipped: int) -> str:
    values, times = modes(sample)
    said = ", ".join(rounded(value, digits) for value in values)
    rows = [(name, rounded(value, digits)) for name, value in statistics(sample).items()]
    rows.append(("modes", f"{said} ({times} times)" if values else "none"))
    if skipped:
        rows.append(("left out", f"{skipped:,} that are not numbers"))
    return "\n".join(f"{name:23} {value}" for name, value in rows)


def main() -> int:
    options = arguments()
    try:
        prepare(options.digits)
        given = (("argument", text) for text in options.numbers)
        texts = from_file(options.file, options.column) if options.file else given
        sample, skipped = scaled(texts, skip=options.skip)
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return fault.status
    if not sample.integers:
        print("error: there are no numbers", file=sys.stderr)
        return 3
    print((as_json if options.json else as_text)(sample, options.digits, skipped))
    return 0


if __name__ == "__main__":
    sys.exit(main())
