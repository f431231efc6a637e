"""The client against a real server that answers well, badly, or not at all."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from openskills import host, trace
from openskills.agent.retrying import Retries
from openskills.errors import (
    BadSkillOutput,
    DeadlineExceeded,
    HostUnavailable,
    InvalidArgument,
    Unauthorized,
    UnknownSkill,
)
from openskills.host.calling.client import Client
from openskills.host.calling.connection import ClientLimits
from openskills.host.calling.stream_events import StreamEvent
from openskills.settings import Settings
from openskills.sync import run
from tests.host.scripted_server import Reply, Request, Scripted, as_json, event, events, failure, normal

T = TypeVar("T")

QUICK = ClientLimits(retries=Retries(attempts=3, pause=0.01, longest_pause=0.05))


def using(url: str, work: Callable[[Client], Awaitable[T]], **options: Any) -> T:
    async def whole() -> T:
        async with Client(url, settings=Settings.from_env({}), limits=QUICK, **options) as client:
            return await work(client)

    return run(whole())


def seen(url: str, **options: Any) -> list[StreamEvent]:
    async def work(client: Client) -> list[StreamEvent]:
        return [event async for event in client.stream("echo", {"text": "hi"}, **options)]

    return using(url, work)


def echoing(request: Request) -> Reply:
    said = {"echoed": request.input["text"]}
    return as_json(normal(data=said, trace_id=request.headers["x-trace-id"]))


def test_an_invocation_is_what_the_document_says(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(echoing)
    result = using(scripted_host.url, lambda client: client.invoke("echo", {"text": "你好"}, trace_id="demo-123"))
    assert host.unwrap(result) == {"echoed": "你好"}
    assert result.trace_id == "demo-123"
    (request,) = scripted_host.requests
    assert (request.method, request.path) == ("POST", "/skills/echo:invoke")
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers
    assert "idempotency-key" not in request.headers


def test_a_skill_that_fails_is_a_result(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(failure(403, "not there", reason="FORBIDDEN_PATH"))
    result = using(scripted_host.url, lambda client: client.invoke("echo", {}))
    assert not result.success
    assert result.status == 403
    assert result.outcome.failure is not None
    assert result.outcome.failure.details["reason"] == "FORBIDDEN_PATH"


def test_every_call_has_a_trace_id_of_its_own(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(as_json(normal()))
    for _ in range(2):
        using(scripted_host.url, lambda client: client.invoke("echo", {}))
    first, second = (request.headers["x-trace-id"] for request in scripted_host.requests)
    assert len(first) == len(second) == 32
    assert first != second


def test_a_trace_id_that_is_bound_is_passed_on(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(as_json(normal()))
    with trace.bind("of-the-caller"):
        using(scripted_host.url, lambda client: client.invoke("echo", {}))
    assert scripted_host.requests[0].headers["x-trace-id"] == "of-the-caller"


def test_a_bound_trace_id_that_no_header_can_have_is_not_sent(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(as_json(normal()))
    with trace.bind("a\r\nX-Evil: 1"):
        using(scripted_host.url, lambda client: client.invoke("echo", {}))
    assert len(scripted_host.requests[0].headers["x-trace-id"]) == 32
    assert "x-evil" not in scripted_host.requests[0].headers


def test_the_key_and_the_address_may_come_from_the_settings(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(as_json(normal()))
    settings = Settings.from_env({"OPENSKILL_HTTP_BASE_URL": scripted_host.url, "OPENSKILL_API_KEY": "sk-1"})

    async def work() -> None:
        async with Client(settings=settings) as client:
            assert client.base_url == scripted_host.url
            await client.invoke("echo", {})

    run(work())
    assert scripted_host.requests[0].headers["authorization"] == "Bearer sk-1"


def test_a_host_below_a_path_is_found_there(scripted_host: Scripted) -> None:
    scripted_host.on("POST /tools/skills/echo:invoke", as_json(normal()))
    assert using(f"{scripted_host.url}/tools/", lambda client: client.invoke("echo", {})).success


@pytest.mark.parametrize(
    "reply", [Reply([b"<html>oops</html>"], 500, "text/html"), as_json({"detail": "Not Found"}, 404)]
)
def test_an_answer_that_is_no_result_is_an_error_with_an_excerpt(scripted_host: Scripted, reply: Reply) -> None:
    scripted_host.on_invoke(reply)
    with pytest.raises(BadSkillOutput, match="no Normalized Skill Result") as caught:
        using(scripted_host.url, lambda client: client.invoke("echo", {}))
    assert caught.value.details["excerpt"] == reply.pieces[0].decode()
    assert caught.value.details["status"] == reply.status


def test_a_timeout_bounds_the_whole_call(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(Reply([b"{"], hold=True))
    with pytest.raises(DeadlineExceeded):
        using(scripted_host.url, lambda client: client.invoke("echo", {}), timeout=0.05)


def test_a_cancelled_call_leaves_the_host(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(Reply([b"{"], hold=True))

    async def work(client: Client) -> None:
        call = asyncio.ensure_future(client.invoke("echo", {}))
        while not scripted_host.requests:
            await asyncio.sleep(0.005)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    using(scripted_host.url, work)
    assert scripted_host.gone.wait(10)


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
def test_what_cannot_be_sent_is_refused_before_anything_is(scripted_host: Scripted, options: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        using(scripted_host.url, lambda client: client.invoke("echo", {}, **options))
    assert scripted_host.requests == []


def test_a_stream_shows_what_happens_and_ends_with_the_result(scripted_host: Scripted) -> None:
    pieces = (event("start", {}, 1), b": ping\n\n", event("stdout", {"text": "hi\n"}, 2), event("result", normal(), 3))
    scripted_host.on_invoke(events(*pieces), verb="stream")
    found = seen(scripted_host.url, idempotency_key="k-1")
    assert [one.kind for one in found] == ["start", "stdout", "result"]
    assert found[1].data == {"text": "hi\n"}
    assert found[2].result is not None
    assert found[2].result.success
    (request,) = scripted_host.requests
    assert (request.headers["accept"], request.headers["idempotency-key"]) == ("text/event-stream", "k-1")


def test_a_stream_ends_with_the_result_even_if_the_host_says_more(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(events(event("result", normal()), hold=True), verb="stream")
    assert [one.kind for one in seen(scripted_host.url)] == ["result"]


def test_a_refusal_instead_of_a_stream_is_the_result(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(failure(404, "no such skill"), verb="stream")
    (only,) = seen(scripted_host.url)
    assert only.result is not None
    assert only.result.status == 404


@pytest.mark.parametrize("cut", [True, False])
def test_a_stream_that_ends_before_the_result_is_an_error(scripted_host: Scripted, cut: bool) -> None:
    scripted_host.on_invoke(events(event("start", {}), cut=cut), verb="stream")
    with pytest.raises(HostUnavailable, match="may have run"):
        seen(scripted_host.url)


def test_a_stream_that_is_left_ends_the_run(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(events(event("start", {}), hold=True), verb="stream")

    async def work(client: Client) -> str:
        stream = client.stream("echo", {})
        first = await anext(stream)
        await stream.aclose()
        return first.kind

    assert using(scripted_host.url, work) == "start"
    assert scripted_host.gone.wait(10)


def test_a_run_is_started_watched_and_has_a_result(scripted_host: Scripted) -> None:
    scripted_host.on_invoke(as_json(normal(data={"run_id": "r1"}), 202, Location="/runs/r1"))
    scripted_host.on("GET /runs/r1/events", events(event("start", {}, 1), event("result", normal(), 2)))

    async def work(client: Client) -> tuple[str, bool]:
        started = await client.start("echo", {})
        return started.id, (await started.result()).success

    assert using(scripted_host.url, work) == ("r1", True)
    assert scripted_host.requests[0].headers["prefer"] == "respond-async"


def test_the_skills_of_a_host_are_listed(scripted_host: Scripted) -> None:
    listed = [{"id": "echo", "description": "Says it again."}, {"id": "bad", "status": "broken"}]
    scripted_host.on("GET /skills", as_json(normal(data={"skills": listed})))
    echo, bad = using(scripted_host.url, lambda client: client.skills())
    assert (echo.id, echo.description, echo.ready, bad.ready) == ("echo", "Says it again.", True, False)


def test_one_skill_is_told_of_or_is_unknown(scripted_host: Scripted) -> None:
    error = {"code": 404, "message": "no", "details": {"near": ["echo"]}}
    scripted_host.on("GET /skills/echo", as_json(normal(data={"id": "echo"})))
    scripted_host.on("GET /skills/ecko", as_json(normal(success=False, data=None, error=error), 404))
    assert using(scripted_host.url, lambda client: client.skill("echo")).id == "echo"
    with pytest.raises(UnknownSkill, match="did you mean 'echo'"):
        using(scripted_host.url, lambda client: client.skill("ecko"))


def test_the_health_of_a_host_is_what_it_says(scripted_host: Scripted) -> None:
    scripted_host.on("GET /healthz", Reply([b"<html>"], 502, "text/html"), as_json(normal(data={"status": "ok"})))
    # Asking is safe, so that a gateway is asked again.
    assert using(scripted_host.url, lambda client: client.health()) == {"status": "ok"}


def test_a_missing_key_is_said_with_the_variable(scripted_host: Scripted) -> None:
    scripted_host.on("GET /skills", failure(401, "a key is needed"))
    with pytest.raises(Unauthorized, match="OPENSKILL_API_KEY"):
        using(scripted_host.url, lambda client: client.skills())
