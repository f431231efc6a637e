"""The long form of tests, which `make hostile` runs: more rounds, more examples, larger inputs."""

import os

LONG = os.environ.get("OPENSKILL_HOSTILE") == "long"
"""Whether the long forms run: hours, not minutes."""


def examples(in_long_form: int) -> int:
    """How many examples of a property are tried: a third of those in the long form."""
    return in_long_form if LONG else max(in_long_form // 3, 1)
