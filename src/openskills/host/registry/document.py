"""The values of a manifest, each with how and where it was written. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from openskills.skillmd.lines import Lines
from openskills.skillmd.problem import Problem
from openskills.skillmd.value import ValuePath


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value that is neither list nor map. `text` is as it was written; None for what JSON does not write as text."""

    text: str | None
    value: str | int | float | bool | None


Node: TypeAlias = "Scalar | list[Node] | dict[str, Node]"


@dataclass(frozen=True, slots=True)
class Document:
    """The fields of a manifest; what kept them from being read; where each stands (line and column, from 1)."""

    fields: Mapping[str, Node] = field(default_factory=dict[str, Node])
    problems: tuple[Problem, ...] = ()
    places: Mapping[ValuePath, tuple[int, int]] = field(default_factory=dict[ValuePath, tuple[int, int]])


def plain(node: Node) -> Any:
    """What a value means, without how it was written."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, list):
        return [plain(item) for item in node]
    return {name: plain(item) for name, item in node.items()}


class Places:
    """Where values begin and how they were written; a `Recorder`."""

    def __init__(self) -> None:
        self.spans: dict[ValuePath, tuple[int, str]] = {}

    def key(self, path: ValuePath, start: int, end: int, style: str) -> None:
        """Of no interest: the values tell."""

    def value(self, path: ValuePath, start: int, end: int, style: str) -> None:
        """Note a value."""
        del end
        self.spans[path] = (start, style)

    def close(self, path: ValuePath, end: int) -> None:
        """Of no interest."""

    def lines(self, text: str) -> dict[ValuePath, tuple[int, int]]:
        """Line and column of every value."""
        lines = Lines(text)
        return {path: lines.at(start) for path, (start, _) in self.spans.items()}


def twice(name: str, line: int | None = None, column: int | None = None) -> Problem:
    """The problem of a key that two values have."""
    shown = name if len(name) <= 60 else f"{name[:60]}…"
    return Problem("key-twice", f"{shown!r} stands twice; keep one of them", line=line, column=column)
