"""What a run shows, bounded."""

import json

from openskills.host.books.run_output import RunOutput, encoded
from openskills.host.runner import Emitted


def shown(text: str) -> Emitted:
    return Emitted("stdout", {"text": text})


def test_what_is_shown_waits_in_its_order_until_it_is_taken() -> None:
    output = RunOutput()
    output.add(shown("one"))
    output.add(Emitted("progress", {"done": 1}))
    assert [(one.kind, json.loads(one.data)) for one in output.take()] == [
        ("stdout", {"text": "one"}),
        ("progress", {"done": 1}),
    ]
    assert output.take() == []
    assert output.cut == 0


def test_what_could_not_be_written_comes_before_what_came_later() -> None:
    output = RunOutput()
    output.add(shown("one"))
    first = output.take()
    output.add(shown("two"))
    output.put_back(first)
    assert [json.loads(one.data)["text"] for one in output.take()] == ["one", "two"]


def test_too_many_bytes_are_cut_and_that_is_said_once() -> None:
    output = RunOutput(most_bytes=100)
    for _ in range(10):
        output.add(shown("x" * 30))
    kinds = [one.kind for one in output.take()]
    assert kinds == ["stdout", "stdout", "cut"]
    assert output.cut == 8 * len(encoded({"text": "x" * 30}))


def test_too_many_events_are_cut_too() -> None:
    output = RunOutput(most_events=3)
    for number in range(5):
        output.add(shown(str(number)))
    *kept, cut = output.take()
    assert [json.loads(one.data)["text"] for one in kept] == ["0", "1", "2"]
    assert cut.kind == "cut"
    assert json.loads(cut.data)["kept_events"] == 3


def test_whatever_a_skill_shows_becomes_json() -> None:
    for strange in ({"text": "half \ud800"}, {"number": 10**40}, {"what": object}, {"nan": float("nan")}):
        json.loads(encoded(strange))
