"""A CSV or TSV file as rows. Nothing in the file can fill the memory."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TextIO

MAX_LINE = 1_000_000
MAX_COLUMNS = 10_000

_QUOTED = re.compile(r'"[^"]*(?:"|$)')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


class Fault(Exception):
    """What keeps the work from being done, in one line, with the exit status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def rows_of(path: Path, delimiter: str | None, encoding: str | None) -> Iterator[list[str]]:
    """The header, then every row that is not empty. Raises `Fault` when there is no header or something is wrong."""
    try:
        with path.open(encoding=encoding or encoding_of(path), errors="replace", newline="") as file:
            text = lines(file, path)
            first = next((line for line in text if line.strip()), None)
            if first is None:
                raise Fault(3, f"{path} holds no table: it is empty")
            yield from (row for row in csv.reader(chain([first], text), delimiter=delimiter or guess(first)) if row)
    except OSError as error:
        raise Fault(2, f"cannot read {path}: {error.strerror or error}") from None
    except LookupError:
        raise Fault(2, f"--encoding: {encoding!r} is not known") from None
    except (csv.Error, UnicodeError) as error:
        raise Fault(3, f"{path} holds no table: {error}") from None


def header_of(rows: Iterator[list[str]], path: Path) -> list[str]:
    """The names of the columns; one without a name gets its number."""
    names = next(rows)
    if len(names) > MAX_COLUMNS:
        raise Fault(3, f"{path} holds no table: its first line has {len(names):,} cells")
    return [name.strip() or f"column {number}" for number, name in enumerate(names, 1)]


def encoding_of(path: Path) -> str:
    """By the mark at the beginning of the file; UTF-8 without one."""
    with path.open("rb") as file:
        start = file.read(64 * 1024)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in start:
        raise Fault(3, f"{path} holds no table: it is binary (a NUL byte at {start.index(0)})")
    return "utf-8-sig"


def lines(file: TextIO, path: Path) -> Iterator[str]:
    """The lines of a file, with their ends."""
    while line := file.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise Fault(3, f"{path} holds no table: a line has more than {MAX_LINE:,} characters")
        yield line.replace("\0", "\ufffd")


def guess(header: str) -> str:
    """The separator that stands most often in the header outside of quotes, which rarely holds any other."""
    return max(",;\t|", key=_QUOTED.sub("", header).count)


def as_number(text: str) -> float | None:
    """What a cell says when it is a finite number. `1,000` is none: which separator is meant cannot be known."""
    number = float(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and abs(number) != float("inf") else None
