"""What a skill writes while it works."""

from hypothesis import given
from hypothesis import strategies as st

from openskills.host.runner import Emitted
from openskills.host.running.live_lines import LiveLines


def told(stream: str, *parts: bytes, secrets: dict[str, str] | None = None) -> list[Emitted]:
    """The events of a stream that comes in these parts."""
    found: list[Emitted] = []
    lines = LiveLines(found.append, secrets or {})
    for part in parts:
        lines.heard(stream, part)
    lines.end()
    return found


def test_a_line_is_told_when_it_is_whole_and_the_rest_at_the_end() -> None:
    assert told("stdout", b"a", b"b\r\nc\n", b"d") == [Emitted("stdout", {"text": text}) for text in ("ab", "c", "d")]


def test_events_on_stderr_are_events() -> None:
    line = b'{"event": "artifact", "name": "a", "size": 1}\n{"event": "other"}\n{"event": 5}\n{broken\n'
    events = told("stderr", line)
    assert events[0] == Emitted("artifact", {"name": "a", "size": 1})
    assert [event.kind for event in events] == ["artifact", "stderr", "stderr", "stderr"]


def test_events_on_stdout_are_lines() -> None:
    assert told("stdout", b'{"event": "progress"}\n')[0].kind == "stdout"


def test_secrets_are_masked() -> None:
    assert told("stderr", b"key sesame\n", secrets={"TOKEN": "sesame"}) == [
        Emitted("stderr", {"text": "key [secret TOKEN]"})
    ]


def test_a_line_without_an_end_is_told_in_pieces() -> None:
    events = told("stdout", b"x" * 200_000)
    assert sum(len(event.data["text"]) for event in events) == 200_000
    assert len(events) == 4


@given(st.lists(st.binary(max_size=50), max_size=10))
def test_nothing_but_ends_of_lines_is_lost(parts: list[bytes]) -> None:
    text = "".join(event.data["text"] for event in told("stdout", *parts))
    assert text.count("a") == b"".join(parts).count(b"a")
