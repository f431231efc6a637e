"""Where a conversation stands."""

from typing import Any

import pytest

from openskills.runtime.turns import position


def said(*roles: str) -> list[dict[str, Any]]:
    return [{"role": role.partition(":")[0], "content": role.partition(":")[2]} for role in roles]


@pytest.mark.parametrize(
    ("before", "now", "begins"),
    [
        (None, ["user:a"], True),
        (None, ["user:a", "assistant", "tool"], False),
        (["user:a"], ["user:a"], False),
        (["user:a"], ["user:a", "assistant", "tool"], False),
        (["user:a", "assistant", "tool"], ["user:a", "assistant", "tool", "assistant", "user:b"], True),
        (["user:a", "assistant"], ["user:a", "assistant", "user:a"], True),
        (["user:a", "assistant", "tool"], ["user:a"], True),
        (["system:x", "user:a"], ["system:y", "user:a", "system:z"], False),
        ([], ["user:a"], True),
        (["user:a"], [], False),
    ],
)
def test_a_turn_begins_when_the_user_has_spoken_again(before: list[str] | None, now: list[str], begins: bool) -> None:
    earlier = None if before is None else position(said(*before))
    assert position(said(*now)).begins_turn_after(earlier) is begins


@pytest.mark.parametrize(
    ("before", "now", "answered"),
    [
        (["user:a"], ["user:a"], False),
        (["user:a"], ["user:a", "assistant", "tool"], True),
        (["user:a", "assistant", "tool"], ["user:a", "assistant", "tool"], False),
        (["user:a", "assistant", "tool"], ["user:a", "assistant", "tool", "assistant", "tool"], True),
        (["user:a", "assistant"], ["user:b"], True),
        (None, ["user:a", "assistant"], False),
    ],
)
def test_the_model_has_answered_when_there_is_more_from_it(
    before: list[str] | None, now: list[str], answered: bool
) -> None:
    earlier = None if before is None else position(said(*before))
    assert position(said(*now)).answered_after(earlier) is answered


def test_anything_can_be_in_a_message() -> None:
    assert position([{}, {"role": None}, {"role": ["x"], "content": 3}]).users == 0
