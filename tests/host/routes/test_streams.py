"""`POST /skills/{id}:stream`: what a skill shows, while it works."""

from pathlib import Path
from typing import Any

import pytest

from openskills.host.calling.server_events import EventReader
from openskills.host.options import HostOptions
from openskills.host.result import Failure, Outcome, failed
from openskills.host.runner import Call
from tests.host.hosting import Served, Waiting, chatty, echo, eventually, served
from tests.host.test_app import check_normalised


def events_of(host: Served, skill_id: str, value: dict[str, Any] | None = None) -> list[tuple[str, Any]]:
    import json

    reader = EventReader()
    with host.client.stream("POST", f"/skills/{skill_id}:stream", json={"input": value or {}}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [(event.kind, json.loads(event.data)) for part in answer.iter_raw() for event in reader.feed(part)]


def test_what_a_skill_shows_comes_in_order_and_the_result_last(tmp_path: Path) -> None:
    with served(tmp_path, {"chatty": chatty}) as host:
        found = events_of(host, "chatty")
    assert [kind for kind, _ in found] == ["start", "stdout", "progress", "result"]
    assert found[1][1] == {"text": "working\n"}
    assert found[3][1]["data"] == {"done": True}
    assert found[0][1]["trace_id"] == found[3][1]["trace_id"]


def test_a_failure_is_told_twice_for_those_who_wait_for_errors_only(tmp_path: Path) -> None:
    async def failing(call: Call) -> Outcome:
        return failed(Failure(502, "no JSON", {"reason": "BAD_SKILL_OUTPUT"}))

    with served(tmp_path, {"failing": failing}) as host:
        found = events_of(host, "failing")
    assert [kind for kind, _ in found] == ["start", "error", "result"]
    assert found[1][1] == found[2][1]["error"]


@pytest.mark.parametrize(("skill", "value", "status"), [("echo", {"text": 1}, 400), ("nope", {}, 404)])
def test_what_cannot_begin_is_refused_in_json(tmp_path: Path, skill: str, value: dict[str, Any], status: int) -> None:
    with served(tmp_path, {"echo": echo}) as host:
        answer = host.client.post(f"/skills/{skill}:stream", json={"input": value})
        assert answer.status_code == status
        check_normalised(answer)
    assert [line["error.code"] for line in host.lines()] == [status]


def test_when_nothing_happens_a_comment_keeps_the_connection_open(tmp_path: Path) -> None:
    waiting = Waiting()
    options = HostOptions(watch=False, ping_seconds=0.02)
    with (
        served(tmp_path, {"waiting": waiting}, options=options) as host,
        host.client.stream("POST", "/skills/waiting:stream", json={"input": {}}) as answer,
    ):
        text = ""
        for part in answer.iter_text():
            text += part
            if text.partition("event: start")[2].count(": ping\n\n") >= 2:
                waiting.may_end.set()
    assert ": ping" in text.partition("event: start")[2].partition("event: result")[0]


def test_who_hangs_up_ends_the_skill(tmp_path: Path) -> None:
    waiting = Waiting()
    with served(tmp_path, {"waiting": waiting}) as host:
        with host.client.stream("POST", "/skills/waiting:stream", json={"input": {}}):
            assert waiting.began.wait(20)
        assert waiting.cancelled.wait(20)
        eventually(lambda: host.parts.host.running == 0)
