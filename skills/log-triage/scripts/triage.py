#!/usr/bin/env python3
"""Group the messages of a log file. Exit status: 0 done, 2 wrong argument or unreadable file."""

import argparse
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_LEVEL = re.compile(r"\b(CRITICAL|FATAL|ERROR|WARNING|WARN|INFO|DEBUG|TRACE)\b", re.IGNORECASE)
_VARIABLE = re.compile(r"\"[^\"]*\"|'[^']*'|\b[0-9a-fA-F]{8,}\b|\b\d+(?:\.\d+)*\b")
_ORDER = {"CRITICAL": 0, "FATAL": 0, "ERROR": 1, "WARNING": 2, "WARN": 2}


@dataclass
class Group:
    """Lines that say the same."""

    level: str
    message: str
    count: int
    first: str
    last: str
    example: str


def triage(path: Path, levels: set[str]) -> list[Group]:
    groups: dict[tuple[str, str], Group] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            found = _LEVEL.search(line)
            if not found or (level := found.group(1).upper()) not in levels:
                continue
            time = _TIME.search(line)
            moment = time.group() if time else ""
            rest = line[found.end() :].strip(" \t\r\n:]-")
            message = " ".join(_VARIABLE.sub("*", rest).split())[:300]
            group = groups.setdefault((level, message), Group(level, message, 0, moment, moment, line.strip()[:500]))
            group.count += 1
            group.last = moment or group.last
    return sorted(groups.values(), key=lambda group: (-group.count, _ORDER.get(group.level, 3), group.message))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, help="the log file")
    parser.add_argument("--top", type=int, default=20, help="how many groups to show (default: 20)")
    parser.add_argument("--levels", default="CRITICAL,FATAL,ERROR,WARNING,WARN", help="which levels count")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args()
    try:
        groups = triage(options.log, {level.strip().upper() for level in options.levels.split(",")})
    except OSError as error:
        print(f"cannot read {options.log}: {error.strerror}", file=sys.stderr)
        return 2
    shown = groups[: max(0, options.top)]
    if options.json:
        print(json.dumps([asdict(group) for group in shown], ensure_ascii=False, indent=2))
        return 0
    for group in shown:
        print(f"{group.count:6}  {group.level:8} {group.message}\n        first {group.first}  last {group.last}")
    if len(groups) > len(shown):
        print(f"{len(groups) - len(shown)} more groups; raise --top to see them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
