"""Events of the wire, as a client sees them."""

import json

import pytest

from openskills.errors import BadSkillOutput
from openskills.host.calling.reading import from_plain
from openskills.host.calling.server_events import ServerEvent
from openskills.host.calling.stream_events import StreamEvent, ended, read_event
from tests.host.scripted_server import normal


def test_an_event_has_its_data() -> None:
    event = read_event(ServerEvent("stdout", '{"text": "hi"}', "3"))
    assert event == StreamEvent("stdout", {"text": "hi"}, "3", None)
    assert event.plain() == {"event": "stdout", "data": {"text": "hi"}}


def test_the_last_event_has_the_result() -> None:
    event = read_event(ServerEvent("result", json.dumps(normal())))
    assert event.result is not None
    assert event.result.success


@pytest.mark.parametrize("data", ["no json", "[1]", "{}", '{"success": true}'])
def test_a_result_that_is_none_is_refused_with_an_excerpt(data: str) -> None:
    with pytest.raises(BadSkillOutput, match="'result' of the host cannot be read") as caught:
        read_event(ServerEvent("result", data))
    assert caught.value.details["excerpt"] == data


def test_a_result_without_a_stream_is_one_event() -> None:
    result = from_plain(normal())
    assert ended(result) == StreamEvent("result", result.plain(), None, result)
