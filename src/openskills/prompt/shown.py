"""What has to be in the model's sight, and where it may stand. Plain values."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Placement(StrEnum):
    """Where loaded texts stand: in the result of the call that asked for them, or in the system message."""

    TOOL_RESULT = "tool_result"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Piece:
    """A text as the model sees it. `path` is `SKILL.md` or the path of a document in its skill.

    `cut_after` is the last line that is shown when the text did not fit, of `lines` in all; `text` says so then.
    """

    path: str
    text: str
    tokens: int
    lines: int
    cut_after: int | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A loaded skill with its body and its selected documents, in order of path."""

    skill: str
    body: Piece
    docs: tuple[Piece, ...] = ()


class Layer(StrEnum):
    """What the tokens of a request are spent on.

    `fallback` is what stands in the extra message because history lost its place, `other` is what is not ours.
    """

    OVERVIEW = "overview"
    GUIDANCE = "guidance"
    BODY = "body"
    DOCS = "docs"
    FALLBACK = "fallback"
    OTHER = "other"


class Part(NamedTuple):
    """A text of ours in a request; `skill` is empty for what belongs to none."""

    layer: Layer
    skill: str
    text: str
