"""Pages of the documentation, taken apart: which blocks are run, which are shown, and where links lead.

Conventions of the pages: every `python` and `console` block is run, in order, in one directory per page. A `text` block
right after a `python` block is what that block prints. In a `console` block, lines after a `$` line are its output. A
line `...` stands for any lines. A comment before a block may change this: `not run: REASON`, `file: PATH` (the block is
that file, and is run when a command says so), `server: FOLDER` (from here on the folder is at `SERVED`), `server off`,
`host` (from here on `openskills serve`, with the project's skills, is at `SERVED`), `host: OPTIONS` (the same with
options), `host off`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
SERVED = "http://127.0.0.1:8000"

_FENCE = re.compile(r"(?P<indent> *)(?P<marks>`{3,})(?P<language>[\w-]*)\s*")
_COMMENT = re.compile(r"\s*<!--\s*(.*?)\s*-->\s*")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, its first line in the page, and the comments right before it."""

    language: str
    text: str
    line: int
    comments: tuple[str, ...] = ()
    follows: bool = False
    """Whether nothing but blank lines stands between the block before and this one."""

    def told(self, word: str) -> str | None:
        """What the comment that begins with this word says."""
        return next((text.removeprefix(word).strip(" :") for text in self.comments if text.startswith(word)), None)


@dataclass(frozen=True)
class Step:
    """A command of a console block, and the output that the page shows for it; None when it shows none."""

    command: str
    shown: tuple[str, ...] | None


def pages() -> list[Path]:
    """Every page that readers are told to follow."""
    return [*READMES, ROOT / "examples/README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    comments: list[str] = []
    follows = False
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if fence := _FENCE.fullmatch(line):
            body = list(_until_closed(lines, fence))
            yield Block(fence["language"], "\n".join(body), number, tuple(comments), follows)
            comments, follows = [], True
        elif comment := _COMMENT.fullmatch(line):
            comments.append(comment[1])
        elif line.strip():
            comments, follows = [], False


def steps(text: str) -> list[Step]:
    """The commands of a console block; `> ` continues a command."""
    found: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0].append(line[2:])
        elif found:
            found[-1][1].append(line)
    return [Step("\n".join(command), tuple(shown) if any(map(str.strip, shown)) else None) for command, shown in found]


def links(text: str) -> Iterator[tuple[int, str]]:
    """The destinations of links and images outside of code, with their lines."""
    fence: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        found = _FENCE.fullmatch(line)
        if found and fence is None:
            fence = found["marks"]
        elif found and not found["language"] and found["marks"].startswith(fence or ""):
            fence = None
        elif fence is None:
            yield from ((number, link[1]) for link in _LINK.finditer(_CODE_SPAN.sub("", line)))


def _until_closed(lines: Iterator[tuple[int, str]], opening: re.Match[str]) -> Iterator[str]:
    indent, marks = len(opening["indent"]), opening["marks"]
    for _, line in lines:
        if line.strip() == marks:
            return
        yield line[indent:] if not line[:indent].strip() else line
