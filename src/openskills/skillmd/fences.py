"""Where front matter ends and the body begins."""

import re
from dataclasses import dataclass

from openskills.skillmd.limits import MAX_FRONTMATTER_CHARACTERS
from openskills.skillmd.problem import Edit, Fix, Problem, Severity

# A fence is a whole line: three hyphens at its start, nothing but blanks after them. LF, CRLF and CR all end a line.
_FENCE = re.compile(r"(?<![^\r\n])---[ \t]*(?:\r\n|\r|\n|\Z)")
_LEADING_BLANKS = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))*")
_LINE_END = re.compile(r"\r\n|\r|\n")
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Halves:
    """A SKILL.md cut in two. `front` is None when there is no front matter; then everything is body.

    `front_start` is the offset of `front` in the file; lines count from 1.
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
    blanks = _LEADING_BLANKS.match(text, begin)
    first = blanks.end() if blanks else begin
    opening = _FENCE.match(text, first)
    if opening is None:
        problems.append(_missing())
        return Halves(None, 0, 1, body_text(text[begin:]), 1, tuple(problems))
    if first > begin:
        message = "blank lines stand before the opening ---, which must be the first line"
        problems.append(_unwanted("frontmatter-first-line", message, begin, first))
    front_line = count_lines(text, 0, opening.end()) + 1
    closing = _FENCE.search(text, opening.end())
    if closing is None:
        message = "the front matter is not closed; put --- on a line of its own after the last field"
        problems.append(Problem("frontmatter-unclosed", message, line=front_line - 1, column=1))
        return Halves(None, 0, 1, body_text(text[opening.end() :]), front_line, tuple(problems))
    front = text[opening.end() : closing.start()]
    if len(front) > MAX_FRONTMATTER_CHARACTERS:
        problems.append(_too_long(len(front), front_line))
        front = None
    body = text[closing.end() :]
    skipped = _LEADING_BLANKS.match(text, closing.end())
    body_line = count_lines(text, 0, skipped.end() if skipped else closing.end()) + 1
    return Halves(front, opening.end(), front_line, body_text(body), body_line, tuple(problems))


def body_text(text: str) -> str:
    """The body as a model gets it: LF line ends, without blank lines before it and white space after it."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    blanks = _LEADING_BLANKS.match(unified)
    return unified[blanks.end() if blanks else 0 :].rstrip()


def count_lines(text: str, start: int, end: int) -> int:
    """How many line ends stand between two offsets."""
    if "\r" not in text:
        return text.count("\n", start, end)
    return len(_LINE_END.findall(text, start, end))


def _missing() -> Problem:
    message = "there is no front matter; begin the file with --- and give name and description between two --- lines"
    return Problem("frontmatter-missing", message, line=1, column=1)


def _too_long(length: int, line: int) -> Problem:
    message = f"the front matter has {length:,} characters, more than {MAX_FRONTMATTER_CHARACTERS:,}"
    return Problem("frontmatter-size", message, line=line, column=1)


def _unwanted(rule: str, message: str, start: int, end: int) -> Problem:
    fix = Fix("remove it", (Edit(start, end, ""),))
    return Problem(rule, message, Severity.WARNING, line=1, column=1, fix=fix)
