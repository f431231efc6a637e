"""The values that front matter holds: text, nothing, lists and maps, with the place each stood at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = "str | Sequence[Value] | Mapping[str, Value] | None"
"""Every scalar is the text its author wrote: `no`, `1.0` and `2026-01-01` are never turned into something else."""

ValuePath: TypeAlias = tuple[str | int, ...]
"""The way to a value from the top: `("metadata", "version")`, `("allowed-tools", 0)`."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a value stands in the file: 1-based line and column, and character offsets of its source text."""

    line: int
    column: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """How one scalar was written: `style` is `'` or `"` for quoted, `|` or `>` for block, empty for plain."""

    span: Span
    style: str


@dataclass(frozen=True, slots=True)
class Document:
    """Front matter as read: the mapping, and for each path its key's span and its value's span."""

    fields: Mapping[str, Value] = field(default_factory=dict[str, Value])
    keys: Mapping[ValuePath, Span] = field(default_factory=dict[ValuePath, Span])
    values: Mapping[ValuePath, Scalar] = field(default_factory=dict[ValuePath, Scalar])
