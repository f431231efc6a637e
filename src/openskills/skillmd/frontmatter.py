"""Front matter to fields: YAML first, recovery where that fails, and the place of everything for those who ask."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from openskills.skillmd.fences import Halves
from openskills.skillmd.problem import Edit, Fix, Problem
from openskills.skillmd.recover import Recovered, Recovery, recover
from openskills.skillmd.value import Place, Value, ValuePath
from openskills.skillmd.yamltree import YamlFault, read_tree

_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


Places = tuple[dict[ValuePath, Place], dict[ValuePath, Place]]


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
        """Where the key at `path` stands; after a recovery, that of the top-level field it belongs to."""
        return self._find(0, path)

    def value(self, *path: str | int) -> Place | None:
        """Where the value at `path` stands. The place of a scalar covers its quotes."""
        return self._find(1, path)

    def source(self, place: Place) -> str:
        """The text that stands at a place of this front matter."""
        start = self._halves.front_start
        return (self._halves.front or "")[place.start - start : place.end - start]

    @property
    def recovered(self) -> bool:
        """Whether this was no YAML; places inside a field are then unknown and no edit may rely on them."""
        return self._recovery is not None

    def _find(self, which: int, path: ValuePath) -> Place | None:
        if self._places is None:
            self._places = _entry_places(self._halves, self._recovery) if self._recovery else _places(self._halves)
        return self._places[which].get(path[:1] if self._recovery else path)


def read_front(halves: Halves) -> FrontMatter:
    """Read what stands between the fences. Never raises: what is wrong is in `problems`."""
    front = halves.front
    if front is None:
        return FrontMatter(halves, {}, halves.problems, readable=False)
    control = _UNPRINTABLE.search(front)
    if control:
        return FrontMatter(halves, {}, (*halves.problems, _control(halves, control.start())), readable=False)
    try:
        tree = read_tree(front)
    except YamlFault as fault:
        return _recovered(halves, fault)
    doubles = tuple(_duplicate(halves, *double) for double in tree.duplicates)
    return FrontMatter(halves, tree.fields, (*halves.problems, *doubles))


def _recovered(halves: Halves, fault: YamlFault) -> FrontMatter:
    try:
        result = recover(halves.front or "") if fault.rule == "yaml-syntax" else None
    except YamlFault as refused:
        result, fault = None, refused
    if result is None or not result.recovered:
        problem = Problem(fault.rule, fault.message, line=halves.front_line + fault.line, column=fault.column + 1)
        return FrontMatter(halves, {}, (*halves.problems, problem), readable=False)
    found = tuple(_unquoted(halves, entry) for entry in result.recovered)
    return FrontMatter(halves, result.fields, (*halves.problems, *found), recovery=result)


def _unquoted(halves: Halves, recovered: Recovered) -> Problem:
    entry = recovered.entry
    base = halves.front_start
    fix = Fix(
        f"quote the value of {entry.key}",
        (Edit(base + entry.value_start, base + entry.end, recovered.replacement),),
    )
    message = f"the value of {entry.key} is not YAML (an unquoted ': ' or text of several paragraphs); quote it"
    column = entry.value_start - entry.start + 1
    return Problem("yaml-unquoted", message, line=halves.front_line + entry.line, column=column, fix=fix)


def _duplicate(halves: Halves, key: str, line: int, column: int) -> Problem:
    message = f"the key {key!r} stands twice; keep one (readers that go on take the last)"
    return Problem("yaml-duplicate-key", message, line=halves.front_line + line, column=column + 1)


def _control(halves: Halves, offset: int) -> Problem:
    before = (halves.front or "")[:offset]
    character = ord((halves.front or "")[offset])
    line = before.count("\n") + before.count("\r") - before.count("\r\n")
    column = offset - max(before.rfind("\n"), before.rfind("\r"))
    message = f"the control character U+{character:04X} is not allowed in YAML; remove it"
    return Problem("text-control", message, line=halves.front_line + line, column=column)


def _places(halves: Halves) -> Places:
    keys: dict[ValuePath, Place] = {}
    values: dict[ValuePath, Place] = {}

    def record(path: ValuePath, event: Any, is_key: bool) -> None:
        start, end = event.start_mark, event.end_mark
        (keys if is_key else values)[path] = Place(
            line=halves.front_line + start.line,
            column=start.column + 1,
            start=halves.front_start + start.index,
            end=halves.front_start + end.index,
            style=getattr(event, "style", None) or "",
        )

    # Text that is no YAML has no places; its fault is among the problems already.
    with suppress(YamlFault):
        read_tree(halves.front or "", record)
    return keys, values


def _entry_places(halves: Halves, recovery: Recovery) -> Places:
    keys: dict[ValuePath, Place] = {}
    values: dict[ValuePath, Place] = {}
    for entry in recovery.entries:
        line, base = halves.front_line + entry.line, halves.front_start
        column = entry.value_start - entry.start + 1
        keys[(entry.key,)] = Place(line, 1, base + entry.start, base + entry.start + len(entry.key))
        values[(entry.key,)] = Place(line, column, base + entry.value_start, base + entry.end)
    return keys, values
