"""The commands that a SKILL.md documents. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from openskills.agent.rule_kinds import takes_files, without_values
from openskills.agent.rule_words import work_words

_FENCE = re.compile(r"^[ \t>]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)")
_INLINE = re.compile(r"(?<!`)(?P<mark>`{1,2})(?!`)(?P<code>[^`\n]+)(?P=mark)(?!`)")
_PROMPT = re.compile(r"^[$%][ \t]+")
_COMMENT = re.compile(r"(?:^|[ \t]+)#[ \t](?P<words>.*)$")
_RUNS = re.compile(r"(?:python3?|bash|sh|node|uv run)[ \t]+[^-\s]\S*|\./\S+")
_SCRIPT = re.compile(r"scripts/\S+")
_SET_UP = re.compile(r"(?:^|[ \t])(?:--help|-h|--version|pip|venv|install)(?:[ \t]|$)")
_FILES_COUNT = 1.5
_SHELLS = frozenset({"", "bash", "sh", "shell", "console", "text", "terminal", "zsh"})


@dataclass(frozen=True, slots=True)
class Documented:
    """A command as it is written, and the words that introduce it."""

    command: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines of a body. `language` is None outside of fences; `about` are the heading and the line before a fence."""

    lines: tuple[str, ...]
    language: str | None = None
    about: str = ""


def documented(body: str) -> list[Documented]:
    """The commands of a text that can be run: those in fenced blocks, then those within a line, each once."""
    blocks = list(_blocks(body))
    found: dict[str, Documented] = {}
    for one in (*(one for block in blocks for one in _fenced(block)), *(one for block in blocks for one in _in(block))):
        found.setdefault(one.command, one)
    return list(found.values())


def best(commands: Sequence[Documented], request: str, *, files: bool = False) -> Documented | None:
    """The command that shares the most words with a request, the first of those that share equally many.

    Having files where the command takes some, or none where it takes none, counts more than one word. The values of
    options are examples, and say nothing about what a command does.
    """
    wanted = work_words(request)

    def fits(one: Documented) -> float:
        shared = len(wanted & work_words(f"{one.about.replace(one.command, ' ')} {without_values(one.command)}"))
        return shared + (_FILES_COUNT if takes_files(one.command) is files else 0)

    return max(commands, key=fits, default=None)


def _blocks(body: str) -> Iterator[_Block]:
    heading, mark, language = "", "", None
    lines: list[str] = []
    about = ""
    for line in body.split("\n"):
        fence = _FENCE.match(line)
        if fence is None or (mark and not fence["mark"].startswith(mark)):
            lines.append(line)
            heading = line if not mark and line.startswith("#") else heading
            continue
        yield _Block(tuple(lines), language, about)
        last = next((one for one in reversed(lines) if one.strip()), "")
        about = "" if mark else f"{heading} {last}"
        mark, language = ("", None) if mark else (fence["mark"], fence["language"].lower())
        lines = []
    yield _Block(tuple(lines), language, about)


def _fenced(block: _Block) -> Iterator[Documented]:
    if block.language is None or block.language not in _SHELLS:
        return
    said = ""
    for line in _joined(block.lines):
        comment = _COMMENT.search(line)
        command = _PROMPT.sub("", line[: comment.start()] if comment else line).strip()
        said = f"{said} {comment['words']}" if comment else said
        if not command:
            continue
        if (_RUNS.match(command) or _SCRIPT.match(command)) and not _SET_UP.search(command):
            yield Documented(command, f"{block.about} {said}".strip())
        said = ""


def _in(block: _Block) -> Iterator[Documented]:
    for line in block.lines if block.language is None else ():
        for code in _INLINE.finditer(line):
            command = _PROMPT.sub("", code["code"].strip())
            if _RUNS.match(command) and not _SET_UP.search(command):
                yield Documented(command, line.strip())


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a block without indentation; one that ends with a backslash goes on with the next."""
    text = "\n".join(line.strip() for line in lines)
    yield from re.sub(r"[ \t]*\\\n", " ", text).split("\n")
