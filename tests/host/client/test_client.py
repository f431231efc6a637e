"""The client against a real server that answers well, badly, or not at all.

What a host says of its skills, read without trusting it.

A run that goes on at the host: watched through broken connections, waited for, cancelled.

The events of an answer, whatever the answer is.

Events of the wire, as a client sees them.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from openskills import host, telemetry
from openskills.agent.models.http import RetryPolicy
from openskills.errors import (
    BadSkillOutput,
    DeadlineExceeded,
    HostUnavailable,
    InvalidArgument,
    Unauthorized,
    UnknownSkill,
)
from openskills.host.client.client import (
    Client,
    ClientRun,
    HostedSkill,
    StreamEvent,
    read_data,
    read_event,
    read_events,
    read_skill,
    read_skills,
    result_event,
    run_from_response,
)
from openskills.host.client.transport import (
    ClientLimits,
    ClientResponse,
    ClientTransport,
    ServerEvent,
    SkillFailed,
    result_from_dict,
)
from openskills.host.model import InvokeResult
from openskills.settings import Settings
from tests.host.scripted_server import EVENTS, JSON, Reply, Request, Scripted, as_json, event, events, failure, normal

QUICK = ClientLimits(retries=RetryPolicy(attempts=3, pause=0.01, longest_pause=0.05))


def connect(url: str, **options: Any) -> Client:
    return Client(url, settings=Settings.from_env({}), limits=QUICK, **options)


async def seen(url: str, **options: Any) -> list[StreamEvent]:
    async with connect(url) as client:
        return [event async for event in client.stream("echo", {"text": "hi"}, **options)]


def echoing(request: Request) -> Reply:
    said = {"echoed": request.input["text"]}
    return as_json(normal(data=said, trace_id=request.headers["x-trace-id"]))


async def test_an_invocation_is_what_the_document_says(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(echoing)
    async with connect(scripted_host.url) as client:
        result = await client.invoke("echo", {"text": "你好"}, trace_id="demo-123")
    assert host.unwrap(result) == {"echoed": "你好"}
    assert result.trace_id == "demo-123"
    (request,) = scripted_host.requests
    assert (request.method, request.path) == ("POST", "/skills/echo:invoke")
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers
    assert "idempotency-key" not in request.headers


async def test_a_skill_that_fails_is_a_result(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(failure(403, "not there", reason="FORBIDDEN_PATH"))
    async with connect(scripted_host.url) as client:
        result = await client.invoke("echo", {})
    assert not result.success
    assert result.status == 403
    assert result.outcome.failure is not None
    assert result.outcome.failure.details["reason"] == "FORBIDDEN_PATH"


async def test_every_call_has_a_trace_id_of_its_own(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(as_json(normal()))
    for _ in range(2):
        async with connect(scripted_host.url) as client:
            await client.invoke("echo", {})
    first, second = (request.headers["x-trace-id"] for request in scripted_host.requests)
    assert len(first) == len(second) == 32
    assert first != second


async def test_a_trace_id_that_is_bound_is_passed_on(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(as_json(normal()))
    with telemetry.bind("of-the-caller"):
        async with connect(scripted_host.url) as client:
            await client.invoke("echo", {})
    assert scripted_host.requests[0].headers["x-trace-id"] == "of-the-caller"


async def test_a_bound_trace_id_that_no_header_can_have_is_not_sent(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(as_json(normal()))
    with telemetry.bind("a\r\nX-Evil: 1"):
        async with connect(scripted_host.url) as client:
            await client.invoke("echo", {})
    assert len(scripted_host.requests[0].headers["x-trace-id"]) == 32
    assert "x-evil" not in scripted_host.requests[0].headers


async def test_the_key_and_the_address_may_come_from_the_settings(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(as_json(normal()))
    settings = Settings.from_env({"OPENSKILL_HTTP_BASE_URL": scripted_host.url, "OPENSKILL_API_KEY": "sk-1"})

    async with Client(settings=settings) as client:
        assert client.base_url == scripted_host.url
        await client.invoke("echo", {})

    assert scripted_host.requests[0].headers["authorization"] == "Bearer sk-1"


async def test_a_host_below_a_path_is_found_there(scripted_host: Scripted) -> None:
    scripted_host.on("POST /tools/skills/echo:invoke", as_json(normal()))
    async with connect(f"{scripted_host.url}/tools/") as client:
        assert (await client.invoke("echo", {})).success


@pytest.mark.parametrize(
    "reply", [Reply([b"<html>oops</html>"], 500, "text/html"), as_json({"detail": "Not Found"}, 404)]
)
async def test_an_answer_that_is_not_a_result_is_an_error_with_an_excerpt(
    scripted_host: Scripted, reply: Reply
) -> None:
    scripted_host.on_invoke(reply)
    async with connect(scripted_host.url) as client:
        with pytest.raises(BadSkillOutput, match="not a Normalized Skill Result") as caught:
            await client.invoke("echo", {})
    assert caught.value.details["excerpt"] == reply.pieces[0].decode()
    assert caught.value.details["status"] == reply.status


async def test_a_timeout_bounds_the_whole_call(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(Reply([b"{"], hold=True))
    async with connect(scripted_host.url, timeout=0.05) as client:
        with pytest.raises(DeadlineExceeded):
            await client.invoke("echo", {})


async def test_a_cancelled_call_leaves_the_host(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(Reply([b"{"], hold=True))

    async with connect(scripted_host.url) as client:
        call = asyncio.ensure_future(client.invoke("echo", {}))
        while not scripted_host.requests:
            await asyncio.sleep(0.005)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert await asyncio.to_thread(scripted_host.gone.wait, 10)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"timeout": 0.0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"base_url": "nowhere"}, "base_url"),
        ({"api_key": "a b"}, "api_key"),
    ],
)
def test_what_cannot_be_used_is_refused_when_the_client_is_made(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument, match=field):
        Client(settings=Settings.from_env({}), **options)


@pytest.mark.parametrize("options", [{"trace_id": "a\nb"}, {"trace_id": "x" * 129}, {"idempotency_key": ""}])
async def test_what_cannot_be_sent_is_refused_before_anything_is(
    scripted_host: Scripted, options: dict[str, str]
) -> None:
    async with connect(scripted_host.url) as client:
        with pytest.raises(InvalidArgument, match=next(iter(options))):
            await client.invoke("echo", {}, **options)
    assert scripted_host.requests == []


async def test_a_stream_shows_what_happens_and_ends_with_the_result(scripted_host: Scripted) -> None:
    pieces = (event("start", {}, 1), b": ping\n\n", event("stdout", {"text": "hi\n"}, 2), event("result", normal(), 3))
    scripted_host.on_invoke(events(*pieces), verb="stream")
    found = await seen(scripted_host.url, idempotency_key="k-1")
    assert [one.kind for one in found] == ["start", "stdout", "result"]
    assert found[1].data == {"text": "hi\n"}
    assert found[2].result is not None
    assert found[2].result.success
    (request,) = scripted_host.requests
    assert (request.headers["accept"], request.headers["idempotency-key"]) == ("text/event-stream", "k-1")


async def test_a_stream_ends_with_the_result_even_if_the_host_says_more(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(events(event("result", normal()), hold=True), verb="stream")
    assert [one.kind for one in await seen(scripted_host.url)] == ["result"]


async def test_a_refusal_instead_of_a_stream_is_the_result(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(failure(404, "no such skill"), verb="stream")
    (only,) = await seen(scripted_host.url)
    assert only.result is not None
    assert only.result.status == 404


@pytest.mark.parametrize("cut", [True, False])
async def test_a_stream_that_ends_before_the_result_is_an_error(scripted_host: Scripted, cut: bool) -> None:
    scripted_host.on_invoke(events(event("start", {}), cut=cut), verb="stream")
    with pytest.raises(HostUnavailable, match="may have run"):
        await seen(scripted_host.url)


async def test_a_stream_that_is_left_ends_the_run(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(events(event("start", {}), hold=True), verb="stream")

    async with connect(scripted_host.url) as client:
        stream = client.stream("echo", {})
        first = await anext(stream)
        await stream.aclose()
        assert first.kind == "start"
    assert await asyncio.to_thread(scripted_host.gone.wait, 10)


async def test_a_run_is_started_watched_and_has_a_result(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(as_json(normal(data={"run_id": "r1"}), 202, Location="/runs/r1"))
    scripted_host.on("GET /runs/r1/events", events(event("start", {}, 1), event("result", normal(), 2)))

    async with connect(scripted_host.url) as client:
        started = await client.start("echo", {})
        assert (started.id, (await started.result()).success) == ("r1", True)
    assert scripted_host.requests[0].headers["prefer"] == "respond-async"


async def test_the_skills_of_a_host_are_listed(scripted_host: Scripted) -> None:
    listed = [{"id": "echo", "description": "Says it again."}, {"id": "bad", "status": "broken"}]
    scripted_host.on("GET /skills", as_json(normal(data={"skills": listed})))
    async with connect(scripted_host.url) as client:
        echo, bad = await client.skills()
    assert (echo.id, echo.description, echo.is_ready, bad.is_ready) == ("echo", "Says it again.", True, False)


async def test_one_skill_is_told_of_or_is_unknown(scripted_host: Scripted) -> None:
    error = {"code": 404, "message": "no", "details": {"near": ["echo"]}}
    scripted_host.on("GET /skills/echo", as_json(normal(data={"id": "echo"})))
    scripted_host.on("GET /skills/ecko", as_json(normal(success=False, data=None, error=error), 404))
    async with connect(scripted_host.url) as client:
        assert (await client.skill("echo")).id == "echo"
        with pytest.raises(UnknownSkill, match="did you mean 'echo'"):
            await client.skill("ecko")


async def test_the_health_of_a_host_is_what_it_says(scripted_host: Scripted) -> None:
    scripted_host.on("GET /healthz", Reply([b"<html>"], 502, "text/html"), as_json(normal(data={"status": "ok"})))
    # Asking is safe, so that a gateway is asked again.
    async with connect(scripted_host.url) as client:
        assert await client.health() == {"status": "ok"}


async def test_a_missing_key_is_said_with_the_variable(scripted_host: Scripted) -> None:
    scripted_host.on("GET /skills", failure(401, "a key is needed"))
    async with connect(scripted_host.url) as client:
        with pytest.raises(Unauthorized, match="OPENSKILL_API_KEY"):
            await client.skills()


def document(data: Any) -> InvokeResult:
    return result_from_dict(normal(data=data))


def refusal(code: int, **details: Any) -> InvokeResult:
    return result_from_dict(normal(success=False, data=None, error={"code": code, "message": "no", "details": details}))


def test_a_skill_has_what_the_host_says() -> None:
    schema = {"type": "object", "required": ["query"]}
    plain = {"id": "s", "description": "Looks.", "status": "ready", "kind": "cli:python", "version": "1", "more": 2}
    (skill,) = read_skills(document({"skills": [{**plain, "input_schema": schema}]}))
    assert skill.plain["more"] == 2
    assert skill.required_fields == ("query",)
    assert (skill.description, skill.kind, skill.version, skill.is_ready) == ("Looks.", "cli:python", "1", True)


def test_fields_of_a_strange_type_are_as_good_as_none() -> None:
    assert read_skill(document({"id": "s", "description": 3, "input_schema": []}), "s") == HostedSkill(
        "s", plain={"id": "s", "description": 3, "input_schema": []}
    )
    assert HostedSkill("s", input_schema={"required": "query"}).required_fields == ()


NO_LISTS: list[Any] = [{}, {"skills": {}}, {"skills": [{}]}, {"skills": ["echo"]}]


@pytest.mark.parametrize("data", NO_LISTS)
def test_a_list_that_is_none_is_refused(data: Any) -> None:
    with pytest.raises(BadSkillOutput):
        read_skills(document(data))


def test_an_unknown_skill_has_the_nearest_names() -> None:
    with pytest.raises(UnknownSkill) as caught:
        read_skill(refusal(404, near=["echo"]), "ecko")
    assert caught.value.near == ("echo",)
    with pytest.raises(UnknownSkill):
        read_skill(refusal(404, near="echo"), "ecko")


def test_what_kept_a_document_back_is_raised() -> None:
    with pytest.raises(Unauthorized, match="OPENSKILL_API_KEY"):
        read_data(refusal(401))
    with pytest.raises(SkillFailed):
        read_data(refusal(500))


RESULT = event("result", normal(), 9)


@asynccontextmanager
async def watch(server: Scripted) -> AsyncGenerator[ClientRun]:
    limits = ClientLimits(retries=RetryPolicy(attempts=1, pause=0.01))
    connection = ClientTransport(server.url, {}, limits, named="OPENSKILL_HTTP_BASE_URL")
    try:
        yield ClientRun(connection, "r1", "t-1", None)
    finally:
        await connection.close()


async def kinds(one: ClientRun) -> list[str]:
    return [f"{event.kind}{event.id or ''}" async for event in one.events()]


async def test_a_stream_that_is_cut_off_is_taken_up_where_it_was(scripted_host: Scripted) -> None:
    first = events(event("start", {}, 1), event("stdout", {"text": "a"}, 2), cut=True)
    scripted_host.on("GET /runs/r1/events", first, events(event("stdout", {"text": "b"}, 3), RESULT))
    async with watch(scripted_host) as one:
        assert await kinds(one) == ["start1", "stdout2", "stdout3", "result9"]
    assert [one.headers.get("last-event-id") for one in scripted_host.requests] == [None, "2"]
    assert scripted_host.requests[0].headers["x-trace-id"] == "t-1"


async def test_a_stream_that_always_is_cut_off_has_an_end(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1/events", events(event("start", {}, 1)), events())
    async with watch(scripted_host) as one:
        with pytest.raises(HostUnavailable, match="r1 before its result"):
            await kinds(one)


async def test_events_without_ids_are_never_told_twice(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1/events", events(event("start", {}), cut=True))
    async with watch(scripted_host) as one:
        with pytest.raises(HostUnavailable):
            await kinds(one)
    assert len(scripted_host.requests) == 1


async def test_the_result_is_waited_for_once(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1/events", events(RESULT))

    async with watch(scripted_host) as one:
        assert [(await one.result()).success, (await one.result()).success, await kinds(one) == ["result"]] == [
            True,
            True,
            True,
        ]
    assert len(scripted_host.requests) == 1


async def test_a_run_that_the_host_has_forgotten_says_so(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1/events", failure(404, "there is no run r1"))
    scripted_host.on("GET /runs/r1", failure(404, "there is no run r1"))
    async with watch(scripted_host) as one:
        assert (await one.result()).status == 404
        with pytest.raises(SkillFailed, match="no run r1"):
            await one.status()


async def test_the_state_of_a_run_is_what_the_host_says(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1", as_json(normal(data={"status": "running"})))
    async with watch(scripted_host) as one:
        assert await one.status() == {"status": "running"}


async def test_a_run_is_cancelled_unless_it_has_ended(scripted_host: Scripted) -> None:
    scripted_host.on("GET /runs/r1/events", events(RESULT))
    scripted_host.on("POST /runs/r1:cancel", as_json(normal(data={"status": "cancelled"}), 202))

    async with watch(scripted_host) as one:
        await one.cancel()
        await one.result()
        await one.cancel()
    assert [one.path for one in scripted_host.requests] == ["/runs/r1:cancel", "/runs/r1/events"]


def begun(body: bytes, status: int = 202, **headers: str) -> ClientRun:
    connection = ClientTransport("http://host", {}, ClientLimits(), named="URL")
    return run_from_response(connection, ClientResponse(status, headers, body, AsyncExitStack().aclose), None)


def test_which_run_was_started_stands_in_the_answer_or_in_its_location() -> None:
    assert begun(as_json(normal(data={"run_id": "r1"})).pieces[0]).id == "r1"
    assert begun(as_json(normal(data={})).pieces[0], location="/runs/r2").id == "r2"
    with pytest.raises(BadSkillOutput, match="without returning its id"):
        begun(as_json(normal(data={})).pieces[0])


async def test_a_host_may_answer_with_the_result_itself() -> None:
    at_once = begun(as_json(normal()).pieces[0], 200)
    assert at_once.id == ""
    assert (await at_once.result()).success
    assert await kinds(at_once) == ["result"]


async def read(body: bytes, kind: str, status: int = 200) -> list[StreamEvent]:
    async def pieces() -> AsyncGenerator[bytes]:
        for start in range(0, len(body), 7):
            yield body[start : start + 7]

    connection = ClientTransport("http://host", {}, ClientLimits(), named="URL")
    return [
        one
        async for one in read_events(
            connection, ClientResponse(status, {"content-type": kind}, pieces(), AsyncExitStack().aclose)
        )
    ]


async def test_events_are_read_from_pieces_of_any_size() -> None:
    body = event("progress", {"done": 1}, 1) + event("result", normal(), 2)
    assert [(one.kind, one.id) for one in await read(body, f"{EVENTS}; charset=utf-8")] == [
        ("progress", "1"),
        ("result", "2"),
    ]


async def test_a_result_in_json_is_the_only_event() -> None:
    (only,) = await read(json.dumps(normal()).encode(), JSON)
    assert only.result is not None


@pytest.mark.parametrize(("kind", "status"), [("text/html", 200), ("", 200), (EVENTS, 500)])
async def test_an_answer_that_is_not_a_stream_is_refused_with_an_excerpt(kind: str, status: int) -> None:
    with pytest.raises(BadSkillOutput, match="expected an event stream") as caught:
        await read(b"<html>", kind, status)
    assert caught.value.details["excerpt"] == "<html>"


def test_an_event_has_its_data() -> None:
    event = read_event(ServerEvent("stdout", '{"text": "hi"}', "3"))
    assert event == StreamEvent("stdout", {"text": "hi"}, "3", None)
    assert event.to_dict() == {"event": "stdout", "data": {"text": "hi"}}


def test_the_last_event_has_the_result() -> None:
    event = read_event(ServerEvent("result", json.dumps(normal())))
    assert event.result is not None
    assert event.result.success


@pytest.mark.parametrize("data", ["no json", "[1]", "{}", '{"success": true}'])
def test_a_result_that_is_none_is_refused_with_an_excerpt(data: str) -> None:
    with pytest.raises(BadSkillOutput, match="invalid event 'result' from the host") as caught:
        read_event(ServerEvent("result", data))
    assert caught.value.details["excerpt"] == data


def test_a_result_without_a_stream_is_one_event() -> None:
    result = result_from_dict(normal())
    assert result_event(result) == StreamEvent("result", result.to_dict(), None, result)
