"""What a journal's lines say comes back, and a line that is not whole counts as not there."""

import json

import pytest

from openskills.executors.records.journal_lines import BEGAN, ENDED, began, ended, line_in, lines_in

RECORD: dict[str, object] = {"exit_code": 1, "stdout": "a b\n\u2028\x1b[0m ü \udcff"}


def test_lines_come_back_with_their_places() -> None:
    data = began("r:1", "f0", 12.5) + ended("r:1", "f0", RECORD)
    first, second = lines_in(data)
    assert (first.kind, first.request, first.fingerprint, first.rest) == (BEGAN, "r:1", "f0", b"12.500")
    assert (second.kind, json.loads(second.rest)) == (ENDED, RECORD)
    assert line_in(data[second.offset : second.offset + second.length], second.offset) == second
    assert data.count(b"\n") == 2


def test_a_line_that_was_cut_short_or_changed_counts_as_not_there() -> None:
    first, second = began("a", "f", 1.0), ended("b", "f", RECORD)
    for end in range(len(second)):
        assert [line.request for line in lines_in(first + second[:end])] == ["a"]
    for place in range(len(second) - 1):
        broken = second[:place] + bytes([second[place] ^ 1]) + second[place + 1 :]
        assert "b" not in [line.request for line in lines_in(broken)]
    assert [line.request for line in lines_in(b"\0" * 100 + b"\n" + first)] == ["a"]


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), b"bytes"])
def test_what_json_has_no_form_of_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        ended("a", "f", {"value": value})
