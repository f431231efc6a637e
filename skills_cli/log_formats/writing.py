"""Records in files: JSON, JSON Lines, CSV. One record at a time."""

import json
from collections.abc import Sequence
from typing import Any, BinaryIO, Protocol

from log_formats.record import BASE, Record

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Writer(Protocol):
    """Takes records."""

    def write(self, record: Record) -> None:
        """Add one."""
        ...

    def finish(self) -> None:
        """No more will come."""
        ...


class JsonLinesWriter:
    """A record on each line."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, record: Record) -> None:
        """Add a line."""
        self._file.write(_json(record) + b"\n")

    def finish(self) -> None:
        """Nothing comes after the last line."""


class JsonWriter:
    """One array."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._before = b"[\n"

    def write(self, record: Record) -> None:
        """Add an element."""
        self._file.write(self._before + _json(record))
        self._before = b",\n"

    def finish(self) -> None:
        """Close the array."""
        self._file.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")


class CsvWriter:
    """A table with a head. What has no column of its own is in the column `more`, as JSON.

    A text that a spreadsheet would take for a formula gets a quote in front of it.
    """

    def __init__(self, file: BinaryIO, columns: Sequence[str]) -> None:
        import csv
        import io

        self._columns = columns
        self._known = frozenset(columns)
        self._text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
        self._rows = csv.writer(self._text, lineterminator="\n")
        self._rows.writerow(map(_cell, columns))

    def write(self, record: Record) -> None:
        """Add a row."""
        row = {name: value for name, value in record.items() if name in self._known}
        rest = {name: value for name, value in record.items() if name not in self._known}
        if rest and "more" in self._known:
            row["more"] = {**rest, **({"more": record["more"]} if "more" in record else {})}
        self._rows.writerow([_cell(row.get(name)) for name in self._columns])

    def finish(self) -> None:
        """Give the file back to the caller that opened it."""
        self._text.flush()
        self._text.detach()


def writer(kind: str, file: BinaryIO, columns: Sequence[str]) -> Writer:
    """What writes a kind of file."""
    if kind == "csv":
        return CsvWriter(file, (*BASE, *(name for name in columns if name not in BASE)))
    return JsonWriter(file) if kind == "json" else JsonLinesWriter(file)


def _json(value: Any) -> bytes:
    return _encode(value).encode("utf-8", "replace")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text.replace("\0", "")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text
