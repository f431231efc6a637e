"""Lines of JSON on stderr."""

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Any

import pytest

from openskills.skillkit import artifact, log, progress
from openskills.skillkit.events import Lines


def told(tell: Callable[[], None]) -> list[dict[str, Any]]:
    stream = io.StringIO()
    with redirect_stderr(stream):
        tell()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_with_its_fields() -> None:
    assert told(lambda: progress(3, 10, "reading")) == [
        {"event": "progress", "done": 3, "total": 10, "message": "reading"}
    ]
    assert told(lambda: progress(0.5)) == [{"event": "progress", "done": 0.5}]
    assert told(lambda: artifact("data/out/x.csv", bytes=7)) == [
        {"event": "artifact", "path": "data/out/x.csv", "bytes": 7}
    ]
    assert told(lambda: log("a\nb\u2028c", when=object)) == [
        {"event": "log", "message": "a\nb\u2028c", "when": "<class 'object'>"}
    ]


def test_prints_become_events_line_by_line() -> None:
    stream = io.StringIO()
    lines = Lines(stream, "stdout")
    print("one\ntwo", file=lines)
    lines.write("three ")
    print("x" * 10_000, end="", file=lines)
    lines.finish()
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["event"] for event in found] == ["stdout"] * 4
    assert [event["text"][:9] for event in found] == ["one", "two", "three xxx", "xxxxxxxxx"]
    assert sum(len(event["text"]) for event in found) == 3 + 3 + 6 + 10_000


def test_events_reach_the_real_stderr_while_prints_are_caught() -> None:
    stream = io.StringIO()
    with redirect_stderr(Lines(stream, "stderr")):
        progress(1)
        sys.stderr.write("beside\n")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["progress", "stderr"]


@pytest.mark.parametrize("stream", [None, "closed"])
def test_nobody_has_to_listen(stream: str | None) -> None:
    gone = io.StringIO()
    gone.close()
    with redirect_stderr(None if stream is None else gone):
        progress(1)
