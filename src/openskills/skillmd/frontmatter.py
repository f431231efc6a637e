"""Fences, decoding, fields and their places.

Offsets in a text to lines and columns, as an editor counts them.

Where front matter ends and the body begins.

The place of every key and value of front matter.

Front matter to fields: YAML first, recovery where that fails, and the place of everything for those who ask.

The bytes of a SKILL.md to text, or the reason why they are none.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from openskills.skillmd.problem import Edit, Fix, Problem, Severity, summarize_problems
from openskills.skillmd.recovery import RecoveredValue, Recovery, has_text_as_map, record_entries, recover
from openskills.skillmd.yaml import (
    MAX_FILE_BYTES,
    MAX_FRONTMATTER_CHARACTERS,
    FrontMatterError,
    SourcePosition,
    Value,
    ValuePath,
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
    """How many line ends stand between two offsets."""
    if "\r" not in text:
        return text.count("\n", start, end)
    return len(_LINE_END.findall(text, start, end))


# A fence is a whole line: three hyphens at its start, nothing but blanks after them. LF, CRLF and CR all end a line.
_OPENING = re.compile(r"---[ \t]*(?:\r\n|\r|\n|\Z)")
_CLOSING = re.compile(r"[\r\n]---[ \t]*(?:\r\n|\r|\n|\Z)")
_LEADING_BLANKS = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))*")
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class SkillDocument:
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
        body = self.text[_skip_blanks(self.text, self.rest) :].rstrip()
        return body.replace("\r\n", "\n").replace("\r", "\n") if "\r" in body else body

    @cached_property
    def body_line(self) -> int:
        """The line on which the body begins."""
        return count_lines(self.text, 0, _skip_blanks(self.text, self.rest)) + 1


def split_document(text: str) -> SkillDocument:
    """Split at the fences. A `---` inside a line, indented, or in the body is text. Never raises."""
    problems: list[Problem] = []
    begin = 0
    if text.startswith(BYTE_ORDER_MARK):
        begin = 1
        problems.append(_extra_text_problem("text-bom", "the file begins with a byte-order mark", 0, 1))
    first = _skip_blanks(text, begin)
    opening = _OPENING.match(text, first)
    if opening is None:
        problems.append(_missing_problem())
        return SkillDocument(text, None, 0, 1, begin, tuple(problems))
    if first > begin:
        message = "blank lines stand before the opening ---, which must be the first line"
        problems.append(_extra_text_problem("frontmatter-first-line", message, begin, first))
    start = opening.end()
    front_line = count_lines(text, 0, start) + 1
    # The line end of the opening fence is the one before the closing fence when nothing stands between them.
    closing = _CLOSING.search(text, start - 1)
    if closing is None:
        problems.append(_no_closing_problem(count_lines(text, 0, first) + 1))
        return SkillDocument(text, None, 0, 1, start, tuple(problems))
    front: str | None = text[start : max(start, closing.start() + 1)]
    if closing.start() + 1 - start > MAX_FRONTMATTER_CHARACTERS:
        problems.append(_length_problem(closing.start() + 1 - start, front_line))
        front = None
    return SkillDocument(text, front, start, front_line, closing.end(), tuple(problems))


def _skip_blanks(text: str, offset: int) -> int:
    blanks = _LEADING_BLANKS.match(text, offset)
    return blanks.end() if blanks else offset


def _missing_problem() -> Problem:
    message = "there is no front matter; begin the file with --- and give name and description between two --- lines"
    return Problem("frontmatter-missing", message, line=1, column=1)


def _no_closing_problem(line: int) -> Problem:
    message = "the front matter is not closed; put --- on a line of its own after the last field"
    return Problem("frontmatter-unclosed", message, line=line, column=1)


def _length_problem(length: int, line: int) -> Problem:
    message = f"the front matter has {length:,} characters, more than {MAX_FRONTMATTER_CHARACTERS:,}"
    return Problem("frontmatter-size", message, line=line, column=1)


def _extra_text_problem(rule: str, message: str, start: int, end: int) -> Problem:
    fix = Fix("remove it", (Edit(start, end, ""),))
    return Problem(rule, message, Severity.WARNING, line=1, column=1, fix=fix)


_Span = tuple[int, int, str]


class PositionIndex:
    """Records positions while the front matter is read once more. Of a repeated key, the last counts."""

    def __init__(self, halves: SkillDocument) -> None:
        self._keys: dict[ValuePath, _Span] = {}
        self._values: dict[ValuePath, _Span] = {}
        self._lines = LineIndex(halves.front or "")
        self._line = halves.front_line - 1
        self._start = halves.front_start

    def key_at(self, path: ValuePath) -> SourcePosition | None:
        """Where a key stands."""
        return self._position(self._keys.get(path))

    def value_at(self, path: ValuePath) -> SourcePosition | None:
        """Where a value stands."""
        return self._position(self._values.get(path))

    def key(self, path: ValuePath, start: int, end: int, style: str) -> None:
        """Note where a key stands."""
        self._keys[path] = (start, end, style)

    def value(self, path: ValuePath, start: int, end: int, style: str) -> None:
        """Note where a scalar stands, or where a list or map begins."""
        self._values[path] = (start, end, style)

    def close(self, path: ValuePath, end: int) -> None:
        """Note where a list or map ends."""
        begun = self._values.get(path)
        if begun is not None:
            self._values[path] = (begun[0], end, begun[2])

    def _position(self, span: _Span | None) -> SourcePosition | None:
        if span is None:
            return None
        start, end, style = span
        line, column = self._lines.at(start)
        return SourcePosition(self._line + line, column, self._start + start, self._start + end, style)


def find_positions(halves: SkillDocument, recovery: Recovery | None) -> PositionIndex:
    """Where everything stands in front matter that could be read, by itself or by this recovery."""
    places = PositionIndex(halves)
    if recovery is None:
        read_yaml(halves.front or "", places)
    else:
        record_entries(halves.front or "", recovery, places)
    return places


_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATES = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_INDENT_WITH_TAB = re.compile(r"^[ ]*\t[ \t]*", re.MULTILINE)
_INDENT_FROM_TAB = re.compile(r"^\t[ \t]*", re.MULTILINE)
_SMALL = 4096


class FrontMatter:
    """The fields of a SKILL.md and what was wrong with reading them.

    `readable` is False when nothing could be made of it. Places are worked out when somebody first asks for one,
    because a skill without problems never needs them.
    """

    __slots__ = ("_halves", "_places", "_recovery", "fields", "problems", "readable")

    def __init__(
        self,
        halves: SkillDocument,
        fields: Mapping[str, Value],
        problems: tuple[Problem, ...],
        *,
        readable: bool = True,
        recovery: Recovery | None = None,
    ) -> None:
        self.fields = fields
        self.problems = problems
        self.readable = readable
        self._halves = halves
        self._recovery = recovery
        self._places: PositionIndex | None = None

    def find_key(self, *path: str | int) -> SourcePosition | None:
        """Where the key at `path` stands."""
        return self._find_positions().key_at(path)

    def find_value(self, *path: str | int) -> SourcePosition | None:
        """Where the value at `path` stands, quotes and brackets included; None inside a value that was recovered."""
        return self._find_positions().value_at(path)

    def find_unquoted(self, scalar: str, *path: str | int) -> SourcePosition | None:
        """Where the scalar at `path` stands when it was written without quotes and not as a block; None otherwise."""
        # Working out places costs a second reading; seeing that every occurrence is quoted costs next to nothing.
        text = self.text
        quick = self._places is None and scalar and len(text) < _SMALL
        if quick and text.count(scalar) == text.count(f'"{scalar}"') + text.count(f"'{scalar}'"):
            return None
        place = self.find_value(*path)
        return place if place and not place.style else None

    def read_source(self, place: SourcePosition) -> str:
        """The text that stands at a place of this front matter."""
        start = self._halves.front_start
        return self.text[place.start - start : place.end - start]

    def rest_of_line(self, place: SourcePosition) -> str:
        """What stands on the line after a place."""
        begin = place.end - self._halves.front_start
        match = re.compile(r"[^\r\n]*").match(self.text, begin)
        return match.group() if match else ""

    @property
    def text(self) -> str:
        """Everything between the fences."""
        return self._halves.front or ""

    @property
    def line(self) -> int:
        """The line of the file on which the front matter begins."""
        return self._halves.front_line

    @property
    def is_recovered(self) -> bool:
        """Whether this was no YAML and had to be read field by field."""
        return self._recovery is not None

    def _find_positions(self) -> PositionIndex:
        if self._places is None:
            self._places = (
                find_positions(self._halves, self._recovery) if self.readable else PositionIndex(self._halves)
            )
        return self._places


def read_front_matter(halves: SkillDocument) -> FrontMatter:
    """Read what stands between the fences. Never raises: what is wrong is in `problems`."""
    front = halves.front
    if front is None:
        return FrontMatter(halves, {}, halves.problems, readable=False)
    control = _UNPRINTABLE.search(front)
    if control:
        return _without_fields(halves, _control_problem(halves, control.start()))
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
    """The same, with the text of fields that were read as maps; `description: {a: b}` is meant as one."""
    result = recover(halves.front or "")
    if result is None or not result.recovered:
        return read
    return _from_recovery(halves, result, FrontMatterError("yaml-syntax", "", 0))


def _rescue(halves: SkillDocument, fault: FrontMatterError) -> FrontMatter:
    """Front matter that the parser did not take: without tabs, or field by field, or not at all."""
    front = halves.front or ""
    if fault.rule == "yaml-syntax" and _SURROGATES.search(front):
        # Places after the first one shift a little; the fix has those of the file.
        joined = _SURROGATES.sub(_join_surrogates, front)
        return read_front_matter(replace(halves, front=joined, problems=(*halves.problems, _surrogate_problem(halves))))
    tabs = _find_faulty_tabs(front, fault) if fault.rule == "yaml-syntax" else None
    if tabs:
        # One blank for each tab: every offset stays what it was.
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
        return _without_fields(
            halves, _problem_at(halves, LineIndex(halves.front or ""), fault.rule, fault.message, fault.offset)
        )
    return _from_recovery(halves, result, fault)


def _from_recovery(halves: SkillDocument, result: Recovery, fault: FrontMatterError) -> FrontMatter:
    lines = LineIndex(halves.front or "")
    found = summarize_problems([_quote_problem(halves, lines, item) for item in result.recovered])
    if not found:
        message = f"the fields cannot be read together, only one by one ({fault.message}); start each in column 1"
        found.append(_problem_at(halves, lines, "yaml-layout", message, fault.offset))
    problems = (*halves.problems, *found, *_duplicate_problems(halves, result.duplicates))
    return FrontMatter(halves, result.fields, problems, recovery=result)


def _without_fields(halves: SkillDocument, problem: Problem) -> FrontMatter:
    return FrontMatter(halves, {}, (*halves.problems, problem), readable=False)


def _problem_at(
    halves: SkillDocument, lines: LineIndex, rule: str, message: str, offset: int, fix: Fix | None = None
) -> Problem:
    line, column = lines.at(offset)
    return Problem(rule, message, line=halves.front_line + line - 1, column=column, fix=fix)


def _quote_problem(halves: SkillDocument, lines: LineIndex, item: RecoveredValue) -> Problem:
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
    return _problem_at(halves, lines, "yaml-unquoted", message, entry.value_start + blanks, fix)


def _duplicate_problems(halves: SkillDocument, doubles: list[tuple[str, int]]) -> list[Problem]:
    if not doubles:
        return []
    lines = LineIndex(halves.front or "")
    advice = "stands twice; keep one (readers that go on take the last)"
    return summarize_problems(
        [
            _problem_at(halves, lines, "yaml-duplicate-key", f"the key {key!r} {advice}", offset)
            for key, offset in doubles
        ]
    )


def _find_faulty_tabs(front: str, fault: FrontMatterError) -> re.Pattern[str] | None:
    """What finds the tabs that stand where blanks should, if there are any."""
    if front[fault.offset : fault.offset + 1] == "\t":
        return _INDENT_WITH_TAB
    # A line may begin with a tab only inside of text that is folded, where blanks do as well.
    return _INDENT_FROM_TAB if _INDENT_FROM_TAB.search(front) else None


def _tab_problem(halves: SkillDocument, indent_with_tab: re.Pattern[str]) -> Problem:
    front, base = halves.front or "", halves.front_start
    # Next to lines that are indented with blanks a tab can only stand for one of them.
    width = 1 if re.search(r"^ ", front, re.MULTILINE) else 2
    indents = list(indent_with_tab.finditer(front))
    edits = tuple(
        Edit(base + indent.start(), base + indent.end(), indent.group().replace("\t", " " * width))
        for indent in indents
    )
    message = "a tab is used to indent, which YAML forbids; use blanks"
    place = front.index("\t", indents[0].start()) if indents else 0
    return _problem_at(halves, LineIndex(front), "yaml-tab", message, place, Fix("indent with blanks", edits))


def _join_surrogates(pair: re.Match[str]) -> str:
    high, low = (int(half, 16) for half in pair.groups())
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _surrogate_problem(halves: SkillDocument) -> Problem:
    front, base = halves.front or "", halves.front_start
    pairs = list(_SURROGATES.finditer(front))
    edits = tuple(Edit(base + pair.start(), base + pair.end(), _join_surrogates(pair)) for pair in pairs)
    message = "a character is written in two halves, as JSON does and YAML cannot read; write the character itself"
    fix = Fix("write the characters themselves", edits)
    return _problem_at(halves, LineIndex(front), "yaml-surrogates", message, pairs[0].start(), fix)


def _control_problem(halves: SkillDocument, offset: int) -> Problem:
    character = ord((halves.front or "")[offset])
    message = f"the control character U+{character:04X} is not allowed in YAML; remove it"
    return _problem_at(halves, LineIndex(halves.front or ""), "text-control", message, offset)


_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def decode(data: bytes) -> tuple[str, Problem | None]:
    """The text of `data`, with its byte-order mark if there is one, or an empty text and what is wrong with it."""
    if len(data) > MAX_FILE_BYTES:
        return "", size_problem(len(data))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return "", _encoding_problem(data, error)
    if "\0" in text:
        before = text[: text.index("\0")]
        return "", _problem_after(before, "text-nul", "a NUL character; a SKILL.md is text, remove the character")
    return text, None


def size_problem(size: int) -> Problem:
    """The problem of a file that is not worth reading to its end."""
    return Problem(
        "file-size",
        f"the file has {size:,} bytes, more than {MAX_FILE_BYTES:,}; move details into references/",
    )


def _encoding_problem(data: bytes, error: UnicodeDecodeError) -> Problem:
    if data.startswith(_UTF16_MARKS):
        return Problem("text-encoding", "the file is UTF-16; save it as UTF-8", line=1, column=1)
    before = data[: error.start].decode("utf-8", "replace")
    byte = data[error.start]
    return _problem_after(before, "text-encoding", f"byte 0x{byte:02x} is not UTF-8 (Latin-1?); save the file as UTF-8")


def _problem_after(before: str, rule: str, message: str) -> Problem:
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return Problem(rule, message, line=len(lines), column=len(lines[-1]) + 1)
