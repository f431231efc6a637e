"""What there is in a text, in numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from texts.files import read

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_WORD = re.compile(r"\S+")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@dataclass(frozen=True)
class Figures:
    """`words` stand between blanks; `han` are Chinese characters, which are counted instead of words in Chinese."""

    file: str
    encoding: str
    line_ends: str
    lines: int
    blank_lines: int
    words: int
    han: int
    characters: int
    bytes: int
    longest_line: int


def figures(path: Path, encoding: str | None) -> Figures:
    """Count. Raises `Fault` for a file that is not text."""
    text, named = read(path, encoding)
    lines, blank, longest = 0, 0, 0
    for match in _LINE.finditer(text):
        line = match.group().rstrip("\r\n")
        lines, blank, longest = lines + 1, blank + (not line.strip()), max(longest, len(line))
    return Figures(
        file=str(path),
        encoding=named,
        line_ends=", ".join(f"{name} {count}" for name, count in line_ends(text).items() if count) or "none",
        lines=lines,
        blank_lines=blank,
        words=sum(1 for _ in _WORD.finditer(text)),
        han=sum(1 for _ in _HAN.finditer(text)),
        characters=len(text),
        bytes=path.stat().st_size,
        longest_line=longest,
    )


def line_ends(text: str) -> dict[str, int]:
    """How often lines end in which way."""
    crlf = text.count("\r\n")
    return {"lf": text.count("\n") - crlf, "crlf": crlf, "cr": text.count("\r") - crlf}
