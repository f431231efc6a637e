"""What can happen to the skills of a conversation. Plain values; `state.py` says what they mean."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

ALL = "*"
"""As the only entry of a selection: every document of the skill."""


class LoadMode(StrEnum):
    """How long a loaded skill stays in the model's sight: a turn of the user, one request, or until it is unloaded."""

    TURN = "turn"
    ONCE = "once"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A skill is loaded. `docs` of None leaves the selection of documents as it is; else it is the new one."""

    skill: str
    docs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A skill is gone from the model's sight, with its documents. `evicted`: because others were used more recently."""

    skill: str
    evicted: bool = False


@dataclass(frozen=True, slots=True)
class DocsChosen:
    """Documents are selected: instead of those that were, or `added` to them."""

    skill: str
    docs: tuple[str, ...]
    added: bool = False


@dataclass(frozen=True, slots=True)
class Consumed:
    """A skill was shown in one request and is not shown again (`LoadMode.ONCE`); it may still be run."""

    skill: str


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The user has spoken again: everything that was loaded before is gone."""


Change: TypeAlias = Loaded | Unloaded | DocsChosen | Consumed | TurnBegan


@dataclass(frozen=True, slots=True)
class Recorded:
    """A change, whose it is, and when: `at` is a number that a conversation gives to each call, in their order.

    With it the order in which changes arrive does not matter.
    """

    at: int
    agent: str
    change: Change
