"""What Anthropic's API refuses, as far as it is documented; a request that breaks none of it is taken."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_IN_RESULTS = {"text", "image", "document"}
_PLACES = {"user": {"text", "image", "document", "tool_result"}, "assistant": {"text", "tool_use", "thinking"}}


def faults(body: Mapping[str, Any]) -> list[str]:
    """What is wrong with a request; empty when the API would take it."""
    found = [*_of_turns(body["messages"]), *_of_calls(body["messages"]), *_of_blocks(body)]
    marks = str(body).count("'cache_control'")
    return [*found, *(["more than four marks"] if marks > 4 else []), *_refused_fields(body)]


def _refused_fields(body: Mapping[str, Any]) -> list[str]:
    return [f"{name} is refused" for name in ("temperature", "top_p", "top_k") if name in body]


def _of_turns(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not turns or turns[0]["role"] != "user":
        yield "no user begins"
    for before, after in itertools.pairwise(turns):
        if before["role"] == after["role"]:
            yield f"{before['role']} speaks twice"
    for turn in turns:
        if not turn["content"]:
            yield "an empty turn"
        if any(block["type"] not in _PLACES[turn["role"]] for block in turn["content"]):
            yield f"a block that is not for {turn['role']}"


def _of_calls(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    made: list[str] = []
    for number, turn in enumerate(turns):
        calls = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
        made += calls
        after: list[dict[str, Any]] = turns[number + 1]["content"] if number + 1 < len(turns) else []
        results = [block["tool_use_id"] for block in after if block["type"] == "tool_result"]
        if turn["role"] == "assistant" and sorted(calls) != sorted(results):
            yield f"calls {calls} have results {results}"
        kinds = [block["type"] == "tool_result" for block in turn["content"]]
        if kinds != sorted(kinds, reverse=True):
            yield "a result after something else"
    if len(set(made)) != len(made):
        yield "an id twice"
    if turns and turns[0]["content"] and turns[0]["content"][0]["type"] == "tool_result":
        yield "a result without a call"


def _of_blocks(body: Mapping[str, Any]) -> Iterator[str]:
    blocks = [block for turn in body["messages"] for block in turn["content"]] + list(body.get("system", []))
    inner = [part for block in blocks if block["type"] == "tool_result" for part in block["content"]]
    for block in [*blocks, *inner]:
        if block["type"] == "text" and not block["text"].strip():
            yield "empty text"
        if block["type"] == "tool_use" and not (_NAME.fullmatch(block["name"]) and _NAME.fullmatch(block["id"])):
            yield f"a name or id that is none: {block}"
        if block["type"] == "tool_use" and not isinstance(block["input"], dict):
            yield "input that is not an object"
    if any(part["type"] not in _IN_RESULTS for part in inner):
        yield "a block that no result has"
