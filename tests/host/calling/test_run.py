"""A run that goes on at the host: watched through broken connections, waited for, cancelled."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from openskills.agent.retrying import Retries
from openskills.errors import BadSkillOutput, HostUnavailable
from openskills.host.calling.connection import Answered, ClientLimits, Connection
from openskills.host.calling.reading import SkillFailed
from openskills.host.calling.run import StartedRun, started
from openskills.sync import run
from tests.host.scripted_server import Scripted, as_json, event, events, failure, normal

T = TypeVar("T")
RESULT = event("result", normal(), 9)


def watching(server: Scripted, work: Callable[[StartedRun], Awaitable[T]]) -> T:
    limits = ClientLimits(retries=Retries(attempts=1, pause=0.01))

    async def whole() -> T:
        connection = Connection(server.url, {}, limits, named="OPENSKILL_HTTP_BASE_URL")
        try:
            return await work(StartedRun(connection, "r1", "t-1", None))
        finally:
            await connection.close()

    return run(whole())


async def kinds(one: StartedRun) -> list[str]:
    return [f"{event.kind}{event.id or ''}" async for event in one.events()]


def test_a_stream_that_breaks_off_is_taken_up_where_it_was(scripted_host: Scripted) -> None:
    first = events(event("start", {}, 1), event("stdout", {"text": "a"}, 2), cut=True)
    scripted_host.on("GET /runs/r1/events", first, events(event("stdout", {"text": "b"}, 3), RESULT))
    assert watching(scripted_host, kinds) == ["start1", "stdout2", "stdout3", "result9"]
    assert [one.headers.get("last-event-id") for one in scripted_host.requests] == [None, "2"]
    assert scripted_host.requests[0].headers["x-trace-id"] == "t-1"


def test_a_stream_that_always_breaks_off_has_an_end(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1/events", events(event("start", {}, 1)), events())
    with pytest.raises(HostUnavailable, match="r1 before its result"):
        watching(scripted_host, kinds)


def test_events_without_ids_are_never_told_twice(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1/events", events(event("start", {}), cut=True))
    with pytest.raises(HostUnavailable):
        watching(scripted_host, kinds)
    assert len(scripted_host.requests) == 1


def test_the_result_is_waited_for_once(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1/events", events(RESULT))

    async def work(one: StartedRun) -> list[bool]:
        return [(await one.result()).success, (await one.result()).success, await kinds(one) == ["result"]]

    assert watching(scripted_host, work) == [True, True, True]
    assert len(scripted_host.requests) == 1


def test_a_run_that_the_host_has_forgotten_says_so(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1/events", failure(404, "there is no run r1"))
    scripted_host.on("GET /runs/r1", failure(404, "there is no run r1"))
    assert watching(scripted_host, lambda one: one.result()).status == 404
    with pytest.raises(SkillFailed, match="no run r1"):
        watching(scripted_host, lambda one: one.status())


def test_the_state_of_a_run_is_what_the_host_says(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1", as_json(normal(data={"status": "running"})))
    assert watching(scripted_host, lambda one: one.status()) == {"status": "running"}


def test_a_run_is_cancelled_unless_it_has_ended(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1/events", events(RESULT))
    scripted_host.on("POST /runs/r1:cancel", as_json(normal(data={"status": "cancelled"}), 202))

    async def work(one: StartedRun) -> None:
        await one.cancel()
        await one.result()
        await one.cancel()

    watching(scripted_host, work)
    assert [one.path for one in scripted_host.requests] == ["/runs/r1:cancel", "/runs/r1/events"]


def begun(body: bytes, status: int = 202, **headers: str) -> StartedRun:
    connection = Connection("http://host", {}, ClientLimits(), named="URL")
    return started(connection, Answered(status, headers, body), None)


def test_which_run_was_started_stands_in_the_answer_or_in_its_location() -> None:
    assert begun(as_json(normal(data={"run_id": "r1"})).pieces[0]).id == "r1"
    assert begun(as_json(normal(data={})).pieces[0], location="/runs/r2").id == "r2"
    with pytest.raises(BadSkillOutput, match="did not say which"):
        begun(as_json(normal(data={})).pieces[0])


def test_a_host_may_answer_with_the_result_itself() -> None:
    at_once = begun(as_json(normal()).pieces[0], 200)
    assert at_once.id == ""
    assert run(at_once.result()).success
    assert run(kinds(at_once)) == ["result"]
