"""A conversation that a library holds in the middle of a turn, whose next request is built over and over. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from context_talk import LOAD, of_data


def held(request: Sequence[Any], turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the last request is like: how many messages, and of how many of the loaded skills it has the text."""
    names = [step.skill for turn in of_data(turns) for step in turn.steps if step.kind == LOAD]
    text = json.dumps(request, ensure_ascii=False, default=str)
    # Every text of the corpus begins with its name as a heading, which nothing else of a request has.
    return {"messages": len(request), "loaded": sum(f"# {name}" in text for name in names)}
