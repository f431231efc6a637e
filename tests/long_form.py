"""The long form of tests, which `make hostile` runs: more rounds, more examples, larger inputs."""

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

LONG = os.environ.get("OPENSKILL_HOSTILE") == "long"
"""Whether the long forms run: hours, not minutes."""

ROUNDS = int(os.environ.get("OPENSKILL_HOSTILE_ROUNDS", "100" if LONG else "0"))
"""How many random faults a test causes on all machines together; 0 without the long form."""


def cases(short: Iterable[T], more: Iterable[T]) -> list[T]:
    """The cases of a test: `short`, and in the long form `more` besides."""
    return [*short, *(more if LONG else ())]


def examples(in_long_form: int) -> int:
    """How many examples of a property are tried: a fifth of those in the long form, of few a third."""
    return in_long_form if LONG else max(in_long_form // 5, min(in_long_form // 3, 10), 1)
