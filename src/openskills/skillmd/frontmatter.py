"""Front matter to fields: YAML first, recovery where that fails, and the place of everything for those who ask."""

import re
from collections.abc import Mapping
from dataclasses import replace

from openskills.skillmd.fences import Halves
from openskills.skillmd.lines import Lines
from openskills.skillmd.places import Places, find_places
from openskills.skillmd.problem import Edit, Fix, Problem
from openskills.skillmd.recover import Recovered, Recovery, recover, text_as_map
from openskills.skillmd.simpleyaml import read_simple
from openskills.skillmd.summary import summed_up
from openskills.skillmd.value import Place, Value
from openskills.skillmd.yamltree import YamlFault, read_tree

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
        halves: Halves,
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
        self._places: Places | None = None

    def key(self, *path: str | int) -> Place | None:
        """Where the key at `path` stands."""
        return self._find().key_at(path)

    def value(self, *path: str | int) -> Place | None:
        """Where the value at `path` stands, quotes and brackets included; None inside a value that was recovered."""
        return self._find().value_at(path)

    def unquoted(self, scalar: str, *path: str | int) -> Place | None:
        """Where the scalar at `path` stands when it was written without quotes and not as a block; None otherwise."""
        # Working out places costs a second reading; seeing that every occurrence is quoted costs next to nothing.
        text = self.text
        quick = self._places is None and scalar and len(text) < _SMALL
        if quick and text.count(scalar) == text.count(f'"{scalar}"') + text.count(f"'{scalar}'"):
            return None
        place = self.value(*path)
        return place if place and not place.style else None

    def source(self, place: Place) -> str:
        """The text that stands at a place of this front matter."""
        start = self._halves.front_start
        return self.text[place.start - start : place.end - start]

    def rest_of_line(self, place: Place) -> str:
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
    def recovered(self) -> bool:
        """Whether this was no YAML and had to be read field by field."""
        return self._recovery is not None

    def _find(self) -> Places:
        if self._places is None:
            self._places = find_places(self._halves, self._recovery) if self.readable else Places(self._halves)
        return self._places


def read_front(halves: Halves) -> FrontMatter:
    """Read what stands between the fences. Never raises: what is wrong is in `problems`."""
    front = halves.front
    if front is None:
        return FrontMatter(halves, {}, halves.problems, readable=False)
    control = _UNPRINTABLE.search(front)
    if control:
        return _refused(halves, _control(halves, control.start()))
    fields = read_simple(front)
    try:
        read = FrontMatter(halves, fields, halves.problems) if fields is not None else _from_yaml(halves)
    except YamlFault as fault:
        return _rescued(halves, fault)
    return _with_text(halves, read) if text_as_map(read.fields) else read


def _from_yaml(halves: Halves) -> FrontMatter:
    tree = read_tree(halves.front or "")
    return FrontMatter(halves, tree.fields, (*halves.problems, *_duplicates(halves, tree.duplicates)))


def _with_text(halves: Halves, read: FrontMatter) -> FrontMatter:
    """The same, with the text of fields that were read as maps; `description: {a: b}` is meant as one."""
    result = recover(halves.front or "")
    if result is None or not result.recovered:
        return read
    return _recovered(halves, result, YamlFault("yaml-syntax", "", 0))


def _rescued(halves: Halves, fault: YamlFault) -> FrontMatter:
    """Front matter that the parser did not take: without tabs, or field by field, or not at all."""
    front = halves.front or ""
    if fault.rule == "yaml-syntax" and _SURROGATES.search(front):
        # Places after the first one shift a little; the fix has those of the file.
        joined = _SURROGATES.sub(_joined, front)
        return read_front(replace(halves, front=joined, problems=(*halves.problems, _surrogates(halves))))
    tabs = _faulty_tabs(front, fault) if fault.rule == "yaml-syntax" else None
    if tabs:
        # One blank for each tab: every offset stays what it was.
        spaced = tabs.sub(lambda indent: " " * len(indent.group()), front)
        halves = replace(halves, front=spaced, problems=(*halves.problems, _tabs(halves, tabs)))
        try:
            return _from_yaml(halves)
        except YamlFault as other:
            fault = other
    try:
        result = recover(halves.front or "") if fault.rule == "yaml-syntax" else None
    except YamlFault as refused:
        result, fault = None, refused
    if result is None:
        return _refused(halves, _problem(halves, Lines(halves.front or ""), fault.rule, fault.message, fault.offset))
    return _recovered(halves, result, fault)


def _recovered(halves: Halves, result: Recovery, fault: YamlFault) -> FrontMatter:
    lines = Lines(halves.front or "")
    found = summed_up([_unquoted(halves, lines, item) for item in result.recovered])
    if not found:
        message = f"the fields cannot be read together, only one by one ({fault.message}); start each in column 1"
        found.append(_problem(halves, lines, "yaml-layout", message, fault.offset))
    problems = (*halves.problems, *found, *_duplicates(halves, result.duplicates))
    return FrontMatter(halves, result.fields, problems, recovery=result)


def _refused(halves: Halves, problem: Problem) -> FrontMatter:
    return FrontMatter(halves, {}, (*halves.problems, problem), readable=False)


def _problem(halves: Halves, lines: Lines, rule: str, message: str, offset: int, fix: Fix | None = None) -> Problem:
    line, column = lines.at(offset)
    return Problem(rule, message, line=halves.front_line + line - 1, column=column, fix=fix)


def _unquoted(halves: Halves, lines: Lines, item: Recovered) -> Problem:
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
    return _problem(halves, lines, "yaml-unquoted", message, entry.value_start + blanks, fix)


def _duplicates(halves: Halves, doubles: list[tuple[str, int]]) -> list[Problem]:
    if not doubles:
        return []
    lines = Lines(halves.front or "")
    advice = "stands twice; keep one (readers that go on take the last)"
    return summed_up(
        [_problem(halves, lines, "yaml-duplicate-key", f"the key {key!r} {advice}", offset) for key, offset in doubles]
    )


def _faulty_tabs(front: str, fault: YamlFault) -> re.Pattern[str] | None:
    """What finds the tabs that stand where blanks should, if there are any."""
    if front[fault.offset : fault.offset + 1] == "\t":
        return _INDENT_WITH_TAB
    # A line may begin with a tab only inside of text that is folded, where blanks do as well.
    return _INDENT_FROM_TAB if _INDENT_FROM_TAB.search(front) else None


def _tabs(halves: Halves, indent_with_tab: re.Pattern[str]) -> Problem:
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
    return _problem(halves, Lines(front), "yaml-tab", message, place, Fix("indent with blanks", edits))


def _joined(pair: re.Match[str]) -> str:
    high, low = (int(half, 16) for half in pair.groups())
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _surrogates(halves: Halves) -> Problem:
    front, base = halves.front or "", halves.front_start
    pairs = list(_SURROGATES.finditer(front))
    edits = tuple(Edit(base + pair.start(), base + pair.end(), _joined(pair)) for pair in pairs)
    message = "a character is written in two halves, as JSON does and YAML cannot read; write the character itself"
    fix = Fix("write the characters themselves", edits)
    return _problem(halves, Lines(front), "yaml-surrogates", message, pairs[0].start(), fix)


def _control(halves: Halves, offset: int) -> Problem:
    character = ord((halves.front or "")[offset])
    message = f"the control character U+{character:04X} is not allowed in YAML; remove it"
    return _problem(halves, Lines(halves.front or ""), "text-control", message, offset)
