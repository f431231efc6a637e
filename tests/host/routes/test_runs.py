"""Runs that go on without their caller."""

from pathlib import Path
from typing import Any

import pytest

from openskills.host.calling.server_events import EventReader
from tests.host.hosting import Served, Waiting, chatty, echo, eventually, served
from tests.host.test_app import check_normalised


def started(host: Served, skill_id: str, **more: Any) -> str:
    """The address of a run that was begun."""
    answer = host.invoke(skill_id, {}, headers={"Prefer": "respond-async", "X-Trace-Id": "t-1"}, **more)
    assert answer.status_code == 202
    result = check_normalised(answer)
    assert answer.headers["location"] == f"/runs/{result['data']['id']}"
    assert result["data"]["state"] == "queued"
    assert result["trace_id"] == "t-1"
    return answer.headers["location"]


def state(host: Served, run: str) -> str:
    return check_normalised(host.client.get(run))["data"]["state"]


def events_of(host: Served, run: str, after: str | None = None) -> list[tuple[str, str | None]]:
    reader = EventReader()
    headers = {"Last-Event-ID": after} if after is not None else {}
    with host.client.stream("GET", f"{run}/events", headers=headers) as answer:
        return [(event.kind, event.id) for part in answer.iter_raw() for event in reader.feed(part)]


def test_a_run_can_be_looked_at_until_it_has_its_result(tmp_path: Path) -> None:
    with served(tmp_path, {"chatty": chatty}) as host:
        run = started(host, "chatty")
        eventually(lambda: state(host, run) == "succeeded")
        found = check_normalised(host.client.get(run))
        assert found["data"]["result"]["data"] == {"done": True}
        assert found["data"]["result"]["trace_id"] == "t-1"
        assert found["skill_id"] == "chatty"


def test_its_events_can_be_read_later_and_from_where_one_left_off(tmp_path: Path) -> None:
    with served(tmp_path, {"chatty": chatty}) as host:
        run = started(host, "chatty")
        found = events_of(host, run)
        assert [kind for kind, _ in found] == ["start", "stdout", "progress", "result"]
        assert events_of(host, run, found[1][1]) == found[2:]
        assert host.client.head(f"{run}/events").status_code == 200


def test_a_run_can_be_cancelled(tmp_path: Path) -> None:
    waiting = Waiting()
    with served(tmp_path, {"waiting": waiting}) as host:
        run = started(host, "waiting")
        assert waiting.began.wait(20)
        assert host.client.post(f"{run}:cancel").status_code == 200
        assert waiting.cancelled.wait(20)
        eventually(lambda: state(host, run) == "cancelled")
        assert check_normalised(host.client.get(run))["data"]["result"]["error"]["code"] == 499


def test_the_mode_can_also_stand_in_the_address(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo}) as host:
        assert host.client.post("/skills/echo:invoke?mode=async", json={"input": {"text": "a"}}).status_code == 202
        assert host.client.post("/skills/echo:invoke?mode=sync", json={"input": {"text": "a"}}).status_code == 200
        assert host.client.post("/skills/echo:invoke?mode=later", json={"input": {"text": "a"}}).status_code == 400


def test_what_cannot_begin_is_refused_at_once(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo}) as host:
        answer = host.client.post("/skills/echo:invoke?mode=async", json={"input": {}})
        assert answer.status_code == 400
        check_normalised(answer)


@pytest.mark.parametrize("after", ["x", "-1", "1" * 30, "١"])
def test_an_id_that_no_event_has_is_refused(tmp_path: Path, after: str) -> None:
    with served(tmp_path, {"chatty": chatty}) as host:
        run = started(host, "chatty")
        answer = host.client.get(f"{run}/events", headers={b"Last-Event-ID": after.encode()})
        assert answer.status_code == 400
        check_normalised(answer)
