"""Read the front matter of a SKILL.md: decode, split at the fences, parse (with recovery), locate keys and values."""

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from openskills.skillmd.problem import Edit, Fix, Problem, Severity, summarize_problems
from openskills.skillmd.recovery import RecoveredValue, Recovery, find_entry_spans, has_text_as_map, recover
from openskills.skillmd.yaml import (
    MAX_FILE_BYTES,
    MAX_FRONTMATTER_CHARACTERS,
    FrontMatterError,
    SourcePosition,
    Span,
    Value,
    YamlSpans,
    read_simple_yaml,
    read_yaml,
)

_LINE_END = re.compile(r"\r\n|\r|\n")


class LineIndex:
    """The lines of a text. LF, CRLF and CR end a line; U+0085 and U+2028, which YAML counts too, do not."""

    __slots__ = ("_starts",)

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def at(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def count_lines(text: str, start: int, end: int) -> int:
    """The number of line ends between two offsets."""
    if "\r" not in text:
        return text.count("\n", start, end)
    return len(_LINE_END.findall(text, start, end))


# A fence is a whole line: three hyphens at its start, then only blanks. LF, CRLF and CR all end a line.
_OPENING = re.compile(r"---[ \t]*(?:\r\n|\r|\n|\Z)")
_CLOSING = re.compile(r"[\r\n]---[ \t]*(?:\r\n|\r|\n|\Z)")
_LEADING_BLANKS = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))*")
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class SkillDocument:
    """A SKILL.md split into front matter and body. Without front matter, `front` is None and everything is body.

    `front_start` is the offset of `front` in `text`, the whole file; `rest` is where the body starts. Lines count
    from 1.
    """

    text: str
    front: str | None
    front_start: int
    front_line: int
    rest: int
    problems: tuple[Problem, ...] = ()

    @cached_property
    def body(self) -> str:
        """The instructions with LF line ends, without leading blank lines and trailing white space."""
        body = self.text[_skip_blanks(self.text, self.rest) :].rstrip()
        return body.replace("\r\n", "\n").replace("\r", "\n") if "\r" in body else body

    @cached_property
    def body_line(self) -> int:
        """The first line of the body."""
        return count_lines(self.text, 0, _skip_blanks(self.text, self.rest)) + 1

    @cached_property
    def front_lines(self) -> LineIndex:
        return LineIndex(self.front or "")


def split_document(text: str) -> SkillDocument:
    """Split at the fences. A `---` inside a line, indented, or in the body is text. Never raises."""
    problems: list[Problem] = []
    begin = 0
    if text.startswith(BYTE_ORDER_MARK):
        begin = 1
        problems.append(_extra_text_problem("text-bom", "the file starts with a byte-order mark", 0, 1))
    first = _skip_blanks(text, begin)
    opening = _OPENING.match(text, first)
    if opening is None:
        message = "no front matter; start the file with name and description between two --- lines"
        problems.append(Problem("frontmatter-missing", message, line=1, column=1))
        return SkillDocument(text, None, 0, 1, begin, tuple(problems))
    if first > begin:
        message = "blank lines before the opening ---, which must be the first line"
        problems.append(_extra_text_problem("frontmatter-first-line", message, begin, first))
    start = opening.end()
    front_line = count_lines(text, 0, start) + 1
    # In empty front matter, the line end of the opening fence is also the one before the closing fence.
    closing = _CLOSING.search(text, start - 1)
    if closing is None:
        message = "the front matter is not closed; put --- on a line of its own after the last field"
        problems.append(Problem("frontmatter-unclosed", message, line=count_lines(text, 0, first) + 1, column=1))
        return SkillDocument(text, None, 0, 1, start, tuple(problems))
    front: str | None = text[start : max(start, closing.start() + 1)]
    if (length := closing.start() + 1 - start) > MAX_FRONTMATTER_CHARACTERS:
        message = f"the front matter has {length:,} characters, more than {MAX_FRONTMATTER_CHARACTERS:,}"
        problems.append(Problem("frontmatter-size", message, line=front_line, column=1))
        front = None
    return SkillDocument(text, front, start, front_line, closing.end(), tuple(problems))


def _skip_blanks(text: str, offset: int) -> int:
    blanks = _LEADING_BLANKS.match(text, offset)
    return blanks.end() if blanks else offset


def _extra_text_problem(rule: str, message: str, start: int, end: int) -> Problem:
    fix = Fix("remove it", (Edit(start, end, ""),))
    return Problem(rule, message, Severity.WARNING, line=1, column=1, fix=fix)


_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATES = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_INDENT_WITH_TAB = re.compile(r"^[ ]*\t[ \t]*", re.MULTILINE)
_INDENT_FROM_TAB = re.compile(r"^\t[ \t]*", re.MULTILINE)
_SMALL = 4096


@dataclass(slots=True, eq=False)
class FrontMatter:
    """The fields of a SKILL.md and the problems of reading them.

    `readable` is False when it could not be read at all. Positions are computed on first use, because a skill without
    problems never needs them.
    """

    _halves: SkillDocument
    fields: Mapping[str, Value]
    problems: tuple[Problem, ...]
    readable: bool = True
    recovery: Recovery | None = None
    _spans: YamlSpans | None = field(default=None, init=False)

    def find_key(self, *path: str | int) -> SourcePosition | None:
        """The position of the key at `path`."""
        return self._locate(self._find_spans().keys.get(path))

    def find_value(self, *path: str | int) -> SourcePosition | None:
        """The position of the value at `path`, with quotes and brackets; None inside a recovered value."""
        return self._locate(self._find_spans().values.get(path))

    def find_unquoted(self, scalar: str, *path: str | int) -> SourcePosition | None:
        """The position of the scalar at `path` if it is neither quoted nor a block; None otherwise."""
        # Positions need a second parse; checking that every occurrence is quoted is much cheaper.
        text = self.text
        quick = self._spans is None and scalar and len(text) < _SMALL
        if quick and text.count(scalar) == text.count(f'"{scalar}"') + text.count(f"'{scalar}'"):
            return None
        place = self.find_value(*path)
        return place if place and not place.style else None

    def read_source(self, place: SourcePosition) -> str:
        start = self._halves.front_start
        return self.text[place.start - start : place.end - start]

    def rest_of_line(self, place: SourcePosition) -> str:
        begin = place.end - self._halves.front_start
        match = re.compile(r"[^\r\n]*").match(self.text, begin)
        return match.group() if match else ""

    @property
    def text(self) -> str:
        """Everything between the fences."""
        return self._halves.front or ""

    @property
    def line(self) -> int:
        """The first line of the front matter in the file."""
        return self._halves.front_line

    def _find_spans(self) -> YamlSpans:
        if self._spans is None:
            spans = YamlSpans()
            if self.recovery is not None:
                spans = find_entry_spans(self.text, self.recovery)
            elif self.readable:
                read_yaml(self.text, spans)
            self._spans = spans
        return self._spans

    def _locate(self, span: Span | None) -> SourcePosition | None:
        if span is None:
            return None
        start, end, style = span
        line, column = self._halves.front_lines.at(start)
        base = self._halves.front_start
        return SourcePosition(self.line + line - 1, column, base + start, base + end, style)


def read_front_matter(halves: SkillDocument) -> FrontMatter:
    """Read the front matter. Never raises: faults are in `problems`."""
    front = halves.front
    if front is None:
        return FrontMatter(halves, {}, halves.problems, readable=False)
    control = _UNPRINTABLE.search(front)
    if control:
        message = f"the control character U+{ord(control.group()):04X} is not allowed in YAML; remove it"
        return _without_fields(halves, _problem_at(halves, "text-control", message, control.start()))
    fields = read_simple_yaml(front)
    try:
        read = FrontMatter(halves, fields, halves.problems) if fields is not None else _read_yaml_front(halves)
    except FrontMatterError as fault:
        return _rescue(halves, fault)
    return _restore_text(halves, read) if has_text_as_map(read.fields) else read


def _read_yaml_front(halves: SkillDocument) -> FrontMatter:
    tree = read_yaml(halves.front or "")
    return FrontMatter(halves, tree.fields, (*halves.problems, *_duplicate_problems(halves, tree.duplicates)))


def _restore_text(halves: SkillDocument, read: FrontMatter) -> FrontMatter:
    """The same with text for text fields that were read as maps, such as `description: {a: b}`."""
    result = recover(halves.front or "")
    if result is None or not result.recovered:
        return read
    return _from_recovery(halves, result, FrontMatterError("yaml-syntax", "", 0))


def _rescue(halves: SkillDocument, fault: FrontMatterError) -> FrontMatter:
    """Read front matter that is not valid YAML: without tabs, or field by field, or not at all."""
    front = halves.front or ""
    if fault.rule == "yaml-syntax" and _SURROGATES.search(front):
        # Positions after the first one shift a little; the fix has those of the file.
        joined = _SURROGATES.sub(_join_surrogates, front)
        return read_front_matter(replace(halves, front=joined, problems=(*halves.problems, _surrogate_problem(halves))))
    tabs = _find_faulty_tabs(front, fault) if fault.rule == "yaml-syntax" else None
    if tabs:
        # One blank for each tab keeps all offsets.
        spaced = tabs.sub(lambda indent: " " * len(indent.group()), front)
        halves = replace(halves, front=spaced, problems=(*halves.problems, _tab_problem(halves, tabs)))
        try:
            return _read_yaml_front(halves)
        except FrontMatterError as other:
            fault = other
    try:
        result = recover(halves.front or "") if fault.rule == "yaml-syntax" else None
    except FrontMatterError as refused:
        result, fault = None, refused
    if result is None:
        return _without_fields(halves, _problem_at(halves, fault.rule, fault.message, fault.offset))
    return _from_recovery(halves, result, fault)


def _from_recovery(halves: SkillDocument, result: Recovery, fault: FrontMatterError) -> FrontMatter:
    found = summarize_problems([_quote_problem(halves, item) for item in result.recovered])
    if not found:
        message = f"the fields cannot be read together, only one by one ({fault.message}); start each in column 1"
        found.append(_problem_at(halves, "yaml-layout", message, fault.offset))
    problems = (*halves.problems, *found, *_duplicate_problems(halves, result.duplicates))
    return FrontMatter(halves, result.fields, problems, recovery=result)


def _without_fields(halves: SkillDocument, problem: Problem) -> FrontMatter:
    return FrontMatter(halves, {}, (*halves.problems, problem), readable=False)


def _problem_at(halves: SkillDocument, rule: str, message: str, offset: int, fix: Fix | None = None) -> Problem:
    line, column = halves.front_lines.at(offset)
    return Problem(rule, message, line=halves.front_line + line - 1, column=column, fix=fix)


def _quote_problem(halves: SkillDocument, item: RecoveredValue) -> Problem:
    entry, base = item.entry, halves.front_start
    name = ".".join(map(str, item.path))
    edit = Edit(base + entry.value_start, base + entry.value_end, item.replacement)
    message = (
        f"the value of {name} is not YAML (an unquoted ': ', a stray quote or bracket, or text of several paragraphs); "
        "it is taken as text; quote it"
    )
    raw = (halves.front or "")[entry.value_start : entry.value_end]
    blanks = len(raw) - len(raw.lstrip(" \t"))
    fix = Fix(f"quote the value of {name}", (edit,))
    return _problem_at(halves, "yaml-unquoted", message, entry.value_start + blanks, fix)


def _duplicate_problems(halves: SkillDocument, doubles: list[tuple[str, int]]) -> list[Problem]:
    if not doubles:
        return []
    advice = "appears twice; keep one (most readers use the last)"
    return summarize_problems(
        [_problem_at(halves, "yaml-duplicate-key", f"the key {key!r} {advice}", offset) for key, offset in doubles]
    )


def _find_faulty_tabs(front: str, fault: FrontMatterError) -> re.Pattern[str] | None:
    """A pattern for the tabs in the indentation, if they are the fault."""
    if front[fault.offset : fault.offset + 1] == "\t":
        return _INDENT_WITH_TAB
    # A line may start with a tab only inside folded text, where blanks do as well.
    return _INDENT_FROM_TAB if _INDENT_FROM_TAB.search(front) else None


def _tab_problem(halves: SkillDocument, indent_with_tab: re.Pattern[str]) -> Problem:
    front, base = halves.front or "", halves.front_start
    # Next to lines that are indented with blanks, a tab stands for one blank.
    width = 1 if re.search(r"^ ", front, re.MULTILINE) else 2
    indents = list(indent_with_tab.finditer(front))
    edits = tuple(
        Edit(base + indent.start(), base + indent.end(), indent.group().replace("\t", " " * width))
        for indent in indents
    )
    message = "indented with a tab, which YAML forbids; use blanks"
    place = front.index("\t", indents[0].start()) if indents else 0
    return _problem_at(halves, "yaml-tab", message, place, Fix("indent with blanks", edits))


def _join_surrogates(pair: re.Match[str]) -> str:
    high, low = (int(half, 16) for half in pair.groups())
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _surrogate_problem(halves: SkillDocument) -> Problem:
    front, base = halves.front or "", halves.front_start
    pairs = list(_SURROGATES.finditer(front))
    edits = tuple(Edit(base + pair.start(), base + pair.end(), _join_surrogates(pair)) for pair in pairs)
    message = "a character is escaped as a surrogate pair, which YAML does not allow; write the character itself"
    fix = Fix("write the characters themselves", edits)
    return _problem_at(halves, "yaml-surrogates", message, pairs[0].start(), fix)


_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def decode(data: bytes) -> tuple[str, Problem | None]:
    """The text of `data`, including a byte-order mark, or an empty text and the problem."""
    if len(data) > MAX_FILE_BYTES:
        return "", size_problem(len(data))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return "", _encoding_problem(data, error)
    if "\0" in text:
        before = text[: text.index("\0")]
        return "", _problem_after(before, "text-nul", "NUL character; remove it")
    return text, None


def size_problem(size: int) -> Problem:
    message = f"the file has {size:,} bytes, more than {MAX_FILE_BYTES:,}; move details into references/"
    return Problem("file-size", message)


def _encoding_problem(data: bytes, error: UnicodeDecodeError) -> Problem:
    if data.startswith(_UTF16_MARKS):
        return Problem("text-encoding", "the file is UTF-16; save it as UTF-8", line=1, column=1)
    before = data[: error.start].decode("utf-8", "replace")
    byte = data[error.start]
    return _problem_after(before, "text-encoding", f"byte 0x{byte:02x} is not UTF-8 (Latin-1?); save the file as UTF-8")


def _problem_after(before: str, rule: str, message: str) -> Problem:
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return Problem(rule, message, line=len(lines), column=len(lines[-1]) + 1)
