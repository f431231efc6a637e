#!/usr/bin/env python3
"""Describe a CSV file as a Markdown report. Exit status: 0 done, 2 wrong argument or unreadable file, 3 no table."""

import argparse
import csv
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass
class Column:
    """What has been seen of one column so far."""

    name: str
    missing: int = 0
    integers: int = 0
    numbers: int = 0
    dates: int = 0
    others: int = 0
    values: list[float] = field(default_factory=list)

    def see(self, text: str) -> None:
        text = text.strip()
        if not text:
            self.missing += 1
        elif _INTEGER.fullmatch(text):
            self.integers += 1
            self.values.append(float(text))
        elif (number := as_number(text)) is not None:
            self.numbers += 1
            self.values.append(number)
        elif _DATE.fullmatch(text):
            self.dates += 1
        else:
            self.others += 1

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
            mean = sum(self.values) / len(self.values)
            figures = [f"{value:g}" for value in (min(self.values), mean, max(self.values))]
        name = self.name.replace("|", "\\|")
        return f"| {name} | {self.kind} | {self.missing} | {' | '.join(figures)} |"


def as_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number == number and abs(number) != float("inf") else None


def describe(path: Path, delimiter: str | None, limit: int | None) -> str:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        sample = file.read(64 * 1024)
        file.seek(0)
        dialect = delimiter or guess(sample)
        rows = csv.reader(file, delimiter=dialect)
        header = next(rows, None)
        if not header:
            raise LookupError(f"{path} holds no table")
        columns = [Column(name.strip() or f"column {number}") for number, name in enumerate(header, 1)]
        count, odd = 0, 0
        for row in rows:
            if limit is not None and count >= limit:
                break
            if not row:
                continue
            count += 1
            odd += len(row) != len(columns)
            for column, text in zip(columns, row + [""] * (len(columns) - len(row)), strict=False):
                column.see(text)
    lines = [f"# Report on {path.name}", "", f"{count:,} rows, {len(columns)} columns."]
    if limit is not None and count >= limit:
        lines.append(f"Only the first {limit:,} rows were read.")
    if odd:
        lines.append(f"**{odd:,} rows have another number of cells than the header.**")
    lines += ["", "| column | type | missing | smallest | mean | largest |", "|---|---|---:|---:|---:|---:|"]
    return "\n".join(lines + [column.row() for column in columns]) + "\n"


def guess(sample: str) -> str:
    """The separator that stands most often in the header, which rarely holds any other."""
    header = sample.split("\n", 1)[0]
    return max(",;\t|", key=header.count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="the CSV file")
    parser.add_argument("--output", type=Path, help="where to write the report (default: standard output)")
    parser.add_argument("--delimiter", help="one character between the cells (default: found by itself)")
    parser.add_argument("--limit", type=int, help="read only this many rows")
    options = parser.parse_args()
    if options.delimiter is not None and len(options.delimiter) != 1:
        parser.error("--delimiter: expected one character")
    try:
        report = describe(options.table, options.delimiter, options.limit)
    except OSError as error:
        print(f"cannot read {options.table}: {error.strerror}", file=sys.stderr)
        return 2
    except (LookupError, csv.Error) as error:
        print(error, file=sys.stderr)
        return 3
    if options.output:
        options.output.write_text(report, encoding="utf-8")
    else:
        sys.stdout.write(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
