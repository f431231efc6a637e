#!/usr/bin/env python3
"""List relative links of Markdown files that lead nowhere. Never follows web addresses.

Exit status: 0 none, 1 some, 2 wrong argument or a file that cannot be read.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

EXAMPLES = """examples:
  check_links.py README.md docs                 files, and folders with every .md below them
  check_links.py . --root . --json              links that begin with / are below --root
"""
MAX_BYTES = 20_000_000

_LINK = re.compile(r"\]\(\s*(?:<([^<>\n]*)>|([^()<>\s]+(?:\([^()<>\s]*\)[^()<>\s]*)?))(?:\s+[\"'][^\"'\n]*[\"'])?\s*\)")
_DEFINITION = re.compile(r" {0,3}\[[^\]^][^\]]*\]:\s+(?:<([^<>\n]*)>|(\S+))")
_CODE = re.compile(r"`[^`]*`")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")


def links(text: str) -> Iterator[tuple[int, str]]:
    """Line number and target of every link outside code."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = line.lstrip()[:3]
        if mark in ("```", "~~~"):
            fence = "" if mark == fence else fence or mark
        elif not fence:
            plain = _CODE.sub("", line)
            definition = _DEFINITION.match(plain)
            for match in [definition] if definition else _LINK.finditer(plain):
                yield number, match.group(1) or match.group(2) or ""


def dead(path: Path, root: Path) -> Iterator[dict[str, object]]:
    """The links of a file that lead nowhere. Raises OSError when it cannot be read."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(None, f"the page is larger than {MAX_BYTES:,} bytes")
    for line, target in links(data.decode("utf-8", "replace")):
        if _ELSEWHERE.match(target):
            continue
        place = unquote(target.split("#")[0].split("?")[0])
        if place and not leads_somewhere(place, path.parent, root):
            yield {"file": str(path), "line": line, "target": target}


def leads_somewhere(place: str, folder: Path, root: Path) -> bool:
    target = root / place.lstrip("/") if place.startswith("/") else folder / place
    try:
        return target.exists()
    except (OSError, ValueError):
        # A name that is too long, or has a NUL: no file has it.
        return False


def pages(paths: list[Path]) -> list[Path]:
    """The files, and those below the folders, each once."""
    found: dict[Path, None] = {}
    for path in paths:
        inside = sorted(one for one in path.rglob("*.md") if one.is_file()) if path.is_dir() else [path]
        found.update(dict.fromkeys(inside))
    return list(found)


def main() -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    parser.add_argument("paths", nargs="+", type=Path, help="Markdown files, or folders to search for them")
    parser.add_argument("--root", type=Path, default=Path(), help="what / means in a link (default: this folder)")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args()
    for path in (*options.paths, options.root):
        if not path.exists():
            parser.error(f"{path} does not exist")
    found: list[dict[str, object]] = []
    unread = 0
    for page in pages(options.paths):
        try:
            found += dead(page, options.root)
        except OSError as error:
            unread += 1
            print(f"error: cannot read {page}: {error.strerror or error}", file=sys.stderr)
    text = json.dumps(found, ensure_ascii=False, indent=2) + "\n" if options.json else "".join(map(said, found))
    sys.stdout.buffer.write(os.fsencode(text))
    return 2 if unread else 1 if found else 0


def said(finding: dict[str, object]) -> str:
    return f"{finding['file']}:{finding['line']}: {finding['target']}\n"


if __name__ == "__main__":
    sys.exit(main())
