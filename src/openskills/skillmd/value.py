"""The values that front matter holds, and the places they stood at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = "str | Sequence[Value] | Mapping[str, Value] | None"
"""Every scalar is the text its author wrote: `no`, `1.0` and `2026-01-01` are never turned into something else."""

ValuePath: TypeAlias = tuple[str | int, ...]
"""The way to a value from the top: `("metadata", "version")`, `("allowed-tools", 0)`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key or value stands in the file: line and column from 1, character offsets of its source text.

    `style` tells how a scalar was written: `'` or `"` quoted, `|` or `>` block, `!` tagged as text; empty for the rest.
    """

    line: int
    column: int
    start: int
    end: int
    style: str = ""
