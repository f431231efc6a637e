#!/usr/bin/env python3
"""Group the messages of a log file by what they say, most frequent first, with a summary of the file.

Exit status: 0 done, 2 wrong argument or unreadable file, 3 the file is binary.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TextIO

EXAMPLES = """examples:
  triage.py app.log                             warnings and everything worse, the 20 most frequent groups
  triage.py app.log --levels ERROR --top 5
  triage.py app.log --json --output groups.json
"""
LEVELS = ("CRITICAL", "FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "TRACE")
MAX_LINE, MAX_GROUPS = 64 * 1024, 100_000

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_LEVEL = re.compile(rf"\b({'|'.join(LEVELS)})\b", re.IGNORECASE)
_VARIABLE = re.compile(r"\"[^\"]*\"|'[^']*'|\b[0-9a-fA-F]{8,}\b|\b\d+(?:\.\d+)*\b")
_ORDER = {"CRITICAL": 0, "FATAL": 0, "ERROR": 1, "WARNING": 2, "WARN": 2}


class Fault(Exception):
    """What keeps the log from being read, in one line, with the exit status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Group:
    """Lines that say the same."""

    level: str
    message: str
    count: int
    first: str
    last: str
    example: str


@dataclass
class Log:
    """What was found: groups of the wanted levels, and figures about all lines."""

    groups: dict[tuple[str, str], Group] = field(default_factory=dict["tuple[str, str]", Group])
    lines: int = 0
    levels: Counter[str] = field(default_factory=Counter[str])
    first: str = ""
    last: str = ""
    ungrouped: int = 0

    def see(self, line: str, wanted: set[str]) -> None:
        self.lines += 1
        time = _TIME.search(line)
        moment = time.group() if time else ""
        self.first, self.last = self.first or moment, moment or self.last
        found = _LEVEL.search(line)
        if not found:
            return
        level = found.group(1).upper()
        self.levels[level] += 1
        if level in wanted:
            self._group(level, line, found.end(), moment)

    def _group(self, level: str, line: str, end: int, moment: str) -> None:
        message = " ".join(_VARIABLE.sub("*", line[end:].strip(" \t\r\n:]-")).split())[:300]
        group = self.groups.get((level, message))
        if group is None:
            if len(self.groups) == MAX_GROUPS:
                self.ungrouped += 1
                return
            group = self.groups[level, message] = Group(level, message, 0, moment, moment, line.strip()[:500])
        group.count += 1
        group.first, group.last = group.first or moment, moment or group.last

    def sorted(self) -> list[Group]:
        return sorted(self.groups.values(), key=lambda group: (-group.count, _ORDER.get(group.level, 3), group.message))

    def summary(self) -> str:
        span = f" from {self.first} to {self.last}" if self.first else ""
        levels = ", ".join(f"{level} {self.levels[level]:,}" for level in LEVELS if self.levels[level])
        more = f"; {self.ungrouped:,} lines beyond {MAX_GROUPS:,} groups" if self.ungrouped else ""
        return f"{self.lines:,} lines{span}: {levels or 'no level in any of them'}{more}"


def lines(file: TextIO) -> Iterator[str]:
    """The lines of a file; of a line without an end, the beginning."""
    whole = True
    while line := file.readline(MAX_LINE):
        if whole:
            yield line
        whole = line.endswith("\n") or len(line) < MAX_LINE


def read(path: Path, wanted: set[str], encoding: str) -> Log:
    log = Log()
    try:
        with path.open("rb") as binary:
            start = binary.read(8192)
        marked = start.startswith((b"\xff\xfe", b"\xfe\xff"))
        if b"\0" in start and not marked and not encoding.lower().startswith(("utf-16", "utf-32", "utf_16", "utf_32")):
            raise Fault(3, f"{path} is binary (a NUL byte at {start.index(0)}); unpack it if it is compressed")
        with path.open(encoding="utf-16" if marked else encoding, errors="replace") as file:
            for line in lines(file):
                log.see(line, wanted)
    except OSError as error:
        raise Fault(2, f"cannot read {path}: {error.strerror or error}") from None
    except LookupError:
        raise Fault(2, f"--encoding: {encoding!r} is not known") from None
    except UnicodeError as error:
        raise Fault(3, f"{path} is not {encoding}: {error}") from None
    return log


def rendered(log: Log, top: int, as_json: bool) -> str:
    groups = log.sorted()
    shown = groups[:top]
    if as_json:
        return json.dumps([asdict(group) for group in shown], ensure_ascii=False, indent=2) + "\n"
    text = [
        f"{group.count:6}  {group.level:8} {group.message}\n        first {group.first}  last {group.last}"
        for group in shown
    ]
    if len(groups) > len(shown):
        text.append(f"{len(groups) - len(shown)} more groups; raise --top to see them")
    return "\n".join([*text, log.summary()]) + "\n"


def write(text: str, output: Path | None) -> None:
    """A bare name lies in $OUTPUT_DIR: where skills are run in a workspace, their own folder cannot be written."""
    if output is None:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        return
    folder = os.environ.get("OUTPUT_DIR")
    target = Path(folder, output) if folder and output.parent == Path() else output
    try:
        target.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise Fault(2, f"--output: cannot write {target}: {error.strerror or error}") from None


def levels(text: str) -> set[str]:
    found = {word.strip().upper() for word in text.split(",") if word.strip()}
    if not found or found - set(LEVELS):
        unknown = ", ".join(sorted(found - set(LEVELS))) or "nothing"
        raise argparse.ArgumentTypeError(f"unknown level {unknown}; use {', '.join(LEVELS)}")
    return found


def main() -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    parser.add_argument("log", type=Path, help="the log file")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="how many groups to show (default: 20)")
    usual = ",".join(LEVELS[:5])
    parser.add_argument("--levels", type=levels, default=usual, help=f"which levels are grouped (default: {usual})")
    parser.add_argument("--json", action="store_true", help="print a JSON list of groups, without the summary")
    parser.add_argument("--encoding", default="utf-8", help="of the file (default: utf-8)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to write (default: standard output)")
    options = parser.parse_args()
    try:
        log = read(options.log, options.levels, options.encoding)
        write(rendered(log, max(0, options.top), options.json), options.output)
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return fault.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
