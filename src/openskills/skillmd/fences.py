"""Where front matter ends and the body begins."""

import re
from dataclasses import dataclass
from functools import cached_property

from openskills.skillmd.limits import MAX_FRONTMATTER_CHARACTERS
from openskills.skillmd.lines import count_lines
from openskills.skillmd.problem import Edit, Fix, Problem, Severity

# A fence is a whole line: three hyphens at its start, nothing but blanks after them. LF, CRLF and CR all end a line.
_OPENING = re.compile(r"---[ \t]*(?:\r\n|\r|\n|\Z)")
_CLOSING = re.compile(r"[\r\n]---[ \t]*(?:\r\n|\r|\n|\Z)")
_LEADING_BLANKS = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))*")
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Halves:
    """A SKILL.md cut in two. `front` is None when there is no front matter; then everything is body.

    `front_start` is the offset of `front` in `text`, the whole file; `rest` is where the other half begins. Lines
    count from 1.
    """

    text: str
    front: str | None
    front_start: int
    front_line: int
    rest: int
    problems: tuple[Problem, ...] = ()

    @cached_property
    def body(self) -> str:
        """What a model gets: LF line ends, without blank lines before it and white space after it."""
        body = self.text[_after_blanks(self.text, self.rest) :].rstrip()
        return body.replace("\r\n", "\n").replace("\r", "\n") if "\r" in body else body

    @cached_property
    def body_line(self) -> int:
        """The line on which the body begins."""
        return count_lines(self.text, 0, _after_blanks(self.text, self.rest)) + 1


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
        return Halves(text, None, 0, 1, begin, tuple(problems))
    if first > begin:
        message = "blank lines stand before the opening ---, which must be the first line"
        problems.append(_unwanted("frontmatter-first-line", message, begin, first))
    start = opening.end()
    front_line = count_lines(text, 0, start) + 1
    # The line end of the opening fence is the one before the closing fence when nothing stands between them.
    closing = _CLOSING.search(text, start - 1)
    if closing is None:
        problems.append(_unclosed(count_lines(text, 0, first) + 1))
        return Halves(text, None, 0, 1, start, tuple(problems))
    front: str | None = text[start : max(start, closing.start() + 1)]
    if closing.start() + 1 - start > MAX_FRONTMATTER_CHARACTERS:
        problems.append(_too_long(closing.start() + 1 - start, front_line))
        front = None
    return Halves(text, front, start, front_line, closing.end(), tuple(problems))


def _after_blanks(text: str, offset: int) -> int:
    blanks = _LEADING_BLANKS.match(text, offset)
    return blanks.end() if blanks else offset


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
