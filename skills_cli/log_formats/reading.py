"""Read records from lines, apply the rules, and count what happened to each line."""

from collections.abc import Iterator
from typing import Any

from log_formats import stamps
from log_formats.lines import LONGEST, Lines
from log_formats.record import BASE, Record
from log_formats.rules import Rules
from log_formats.table import Format
from log_formats.watch import found


class Stats:
    """Counts of lines: each is parsed, joined to the previous record, blank, or dropped."""

    def __init__(self, format_name: str, encoding: str, size: int) -> None:
        self.format = format_name
        self.encoding = encoding
        self.size = size
        self.parsed = self.joined = self.blank = self.dropped = self.filtered = self.untimed = 0


class Reading:
    """Reads a log once."""

    def __init__(self, lines: Lines, reader: Format, rules: Rules, stats: Stats) -> None:
        self.lines = lines
        self.columns = reader.columns
        self._reader = reader
        self._rules = rules
        self._stats = stats

    def records(self) -> Iterator[Record]:
        """The records that pass the rules, in order."""
        for record in self._joined() if self._rules.multiline else self._parsed():
            level = self._rules.mapped(record["level"])
            record["level"] = level
            if self._rules.levels is not None and (level or "").upper() not in self._rules.levels:
                self._stats.filtered += 1
                continue
            self._stats.untimed += record["timestamp"] is None
            yield self._chosen(record)

    def finished(self, records: int, more: bool) -> dict[str, Any]:
        """The counts as JSON. `more` means that reading stopped before the end."""
        stats = self._stats
        return {
            "format": stats.format,
            "encoding": stats.encoding,
            "bytes": stats.size,
            "lines": self.lines.number,
            "parsed": stats.parsed,
            "joined": stats.joined,
            "blank": stats.blank,
            "dropped": stats.dropped,
            "cut": self.lines.cut,
            "filtered": stats.filtered,
            "untimed": stats.untimed,
            "records": records,
            "truncated": more,
        }

    def _parsed(self) -> Iterator[Record]:
        for line in self.lines:
            record = self._record(line)
            if record is not None:
                yield record

    def _joined(self) -> Iterator[Record]:
        """Lines without a time of their own belong to the record before them."""
        waiting: Record | None = None
        for line in self.lines:
            record = self._record(line)
            if record is None:
                continue
            if waiting is None or record["timestamp"] is not None:
                if waiting is not None:
                    yield waiting
                waiting = record
            else:
                self._stats.parsed -= 1
                self._stats.joined += 1
                waiting["message"] = f"{waiting['message']}\n{line}"[:LONGEST]
        if waiting is not None:
            yield waiting

    def _record(self, line: str) -> Record | None:
        if not line or line.isspace():
            self._stats.blank += 1
            return None
        record = self._reader.parse(line)
        if record is None:
            self._stats.dropped += 1
            return None
        self._stats.parsed += 1
        record["line_no"] = self.lines.number
        self._apply(record, line)
        return record

    def _apply(self, record: Record, line: str) -> None:
        """Regular expressions of the caller override the format."""
        rules = self._rules
        if rules.timestamp is not None:
            match = rules.timestamp.search(line)
            record["timestamp"] = found(match, "timestamp") if match else None
        if rules.timestamp_format is not None and record["timestamp"] is not None:
            record["timestamp"] = stamps.formatted(record["timestamp"], rules.timestamp_format)
        if rules.level is not None:
            match = rules.level.search(line)
            record["level"] = found(match, "level") if match else None

    def _chosen(self, record: Record) -> Record:
        wanted = self._rules.fields
        return record if wanted is None else {name: record[name] for name in (*BASE, *wanted) if name in record}
