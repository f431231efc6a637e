#!/usr/bin/env python3
"""List relative links of Markdown files that lead nowhere. Exit status: 0 none, 1 some, 2 wrong argument."""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

_LINK = re.compile(r"\]\(\s*<?([^()<>\s]+)>?(?:\s+[\"'][^\"'\n]*[\"'])?\s*\)")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")


def links(text: str) -> Iterator[tuple[int, str]]:
    """Line number and target of every link outside code."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = line.lstrip()[:3]
        if mark in ("```", "~~~"):
            fence = "" if mark == fence else fence or mark
        elif not fence:
            for match in _LINK.finditer(re.sub(r"`[^`]*`", "", line)):
                yield number, match.group(1)


def dead(path: Path) -> Iterator[dict[str, object]]:
    for line, target in links(path.read_text(encoding="utf-8", errors="replace")):
        if _ELSEWHERE.match(target):
            continue
        place = unquote(target.split("#")[0].split("?")[0])
        if place and not (path.parent / place.lstrip("/")).exists():
            yield {"file": str(path), "line": line, "target": target}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="Markdown files, or folders to search for them")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args()
    files: list[Path] = []
    for path in options.paths:
        if not path.exists():
            parser.error(f"{path} does not exist")
        files += sorted(path.rglob("*.md")) if path.is_dir() else [path]
    found = [finding for file in files for finding in dead(file)]
    if options.json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        for finding in found:
            print(f"{finding['file']}:{finding['line']}: {finding['target']}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
