"""Where front matter ends and the body begins."""

import re
from dataclasses import dataclass

from openskills.skillmd.limits import MAX_FRONTMATTER_CHARACTERS
from openskills.skillmd.lines import count_lines
from openskills.skillmd.problem import Edit, Fix, Problem, Severity

# A fence is a whole line: three hyphens at its start, nothing but blanks after them. LF, CRLF and CR all end a line.
_OPENING = re.compile(r"---[ \t]*(?:\r\n|\r|\n|\Z)")
_CLOSING = re.compile(r"[\r\n]---[ \t]*(?:\r\n|\r|\n|\Z)")
_LEADING_BLANKS = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))*")
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Halves:
    """A SKILL.md cut in two. `front` is None when there is no front matter; then everything is body.

    `front_start` is the offset of `front` in the file; lines count from 1. `body` is what a model gets: LF line ends,
    without blank lines before it and white space after it. `body_line` is the line on which it begins.
    """

    front: str | None
    front_start: int
    front_line: int
    body: str
    body_line: int
    problems: tuple[Problem, ...] = ()


def cut(text: str) -> Halves:
    """Split at the fences. A `---` inside a line, indented, or in the body is text. Never raises."""
    problems: list[Problem] = []
    begin = 0
    if text.startswith(BYTE_ORDER_MARK):
        begin = 1
        problems.append(_unwanted("text-bom", "the file begins with a byte-order mark", 0, 1))
    first = _after_blanks(text, begin)
    opening = _OPENING.match(text, first)
    if opening is None:
        problems.append(_missing())
        return Halves(None, 0, 1, *_body(text, begin), tuple(problems))
    if first > begin:
        message = "blank lines stand before the opening ---, which must be the first line"
        problems.append(_unwanted("frontmatter-first-line", message, begin, first))
    start = opening.end()
    front_line = count_lines(text, 0, start) + 1
    # The line end of the opening fence is the one before the closing fence when nothing stands between them.
    closing = _CLOSING.search(text, start - 1)
    if closing is None:
        problems.append(_unclosed(count_lines(text, 0, first) + 1))
        return Halves(None, 0, 1, *_body(text, start), tuple(problems))
    front: str | None = text[start : max(start, closing.start() + 1)]
    if closing.start() + 1 - start > MAX_FRONTMATTER_CHARACTERS:
        problems.append(_too_long(closing.start() + 1 - start, front_line))
        front = None
    return Halves(front, start, front_line, *_body(text, closing.end()), tuple(problems))


def _after_blanks(text: str, offset: int) -> int:
    blanks = _LEADING_BLANKS.match(text, offset)
    return blanks.end() if blanks else offset


def _body(text: str, offset: int) -> tuple[str, int]:
    """The body that begins at or after an offset, and its line."""
    start = _after_blanks(text, offset)
    body = text[start:].rstrip()
    if "\r" in body:
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    return body, count_lines(text, 0, start) + 1


def _missing() -> Problem:
    message = "there is no front matter; begin the file with --- and give name and description between two --- lines"
    return Problem("frontmatter-missing", message, line=1, column=1)


def _unclosed(line: int) -> Problem:
    message = "the front matter is not closed; put --- on a line of its own after the last field"
    return Problem("frontmatter-unclosed", message, line=line, column=1)


def _too_long(length: int, line: int) -> Problem:
    message = f"the front matter has {length:,} characters, more than {MAX_FRONTMATTER_CHARACTERS:,}"
    return Problem("frontmatter-size", message, line=line, column=1)


def _unwanted(rule: str, message: str, start: int, end: int) -> Problem:
    fix = Fix("remove it", (Edit(start, end, ""),))
    return Problem(rule, message, Severity.WARNING, line=1, column=1, fix=fix)
