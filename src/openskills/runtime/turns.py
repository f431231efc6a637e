"""Where a conversation stands, read from its messages: whose turn it is, and what the model has answered. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a list of messages goes: the user's messages in it, the last of them, and the answers to that."""

    users: int = 0
    last_user: object = None
    answers: int = 0
    users_turn: bool = False

    def begins_turn_after(self, before: "Position | None") -> bool:
        """Whether the user has spoken since `before`. A request that is sent again begins nothing."""
        if not self.users_turn:
            return False
        return before is None or (self.users, self.last_user) != (before.users, before.last_user) or before.answers > 0

    def answered_after(self, before: "Position | None") -> bool:
        """Whether the model has answered since `before`."""
        return before is not None and (
            (self.users, self.last_user) != (before.users, before.last_user) or self.answers > before.answers
        )


def position(messages: Sequence[Mapping[str, Any]]) -> Position:
    """Where these messages stand; system messages say nothing about it."""
    users, last, answers, users_turn = 0, None, 0, False
    for message in messages:
        role = message.get("role")
        if role in _SYSTEM:
            continue
        users_turn = role == "user"
        if users_turn:
            users, last, answers = users + 1, message.get("content"), 0
        elif role == "assistant":
            answers += 1
    return Position(users, last, answers, users_turn)
