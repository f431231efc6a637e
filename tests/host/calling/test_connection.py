"""HTTP against a server that misbehaves: bounded in time and size, and nothing is sent twice that must not be."""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from openskills.agent.retrying import Retries
from openskills.errors import BadSkillOutput, DeadlineExceeded, HostUnavailable, LimitExceeded
from openskills.host.calling.connection import Answered, ClientLimits, Connection
from openskills.host.calling.request import Ask
from openskills.sync import run
from tests.host.scripted_server import Reply, Scripted, as_json, failure, normal, scripted

T = TypeVar("T")

QUICK = ClientLimits(answer_bytes=100_000, silence=0.2, retries=Retries(attempts=3, pause=0.01, longest_pause=0.05))
SLOW = ClientLimits(retries=Retries(pause=60.0, longest_pause=60.0))
POST = Ask("POST", "/x", content=b"{}")
KEYED = Ask("POST", "/x", {"Idempotency-Key": "k"}, b"{}", repeatable=True)


def connected(url: str, limits: ClientLimits = QUICK) -> Connection:
    return Connection(url, {"Authorization": "Bearer k"}, limits, named="OPENSKILL_HTTP_BASE_URL")


def closing(connection: Connection, work: Coroutine[Any, Any, T]) -> T:
    async def whole() -> T:
        try:
            return await work
        finally:
            await connection.close()

    return run(whole())


def fetch(url: str, ask: Ask = POST, seconds: float | None = None, limits: ClientLimits = QUICK) -> Answered[bytes]:
    connection = connected(url, limits)

    async def work() -> Answered[bytes]:
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        return await connection.fetch(ask, deadline)

    return closing(connection, work())


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_an_answer_has_its_status_headers_and_bytes(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"a", b"b"], 418, headers={"X-Some": "thing"}))
    answer = fetch(scripted_host.url)
    assert (answer.status, answer.headers["x-some"], answer.body) == (418, "thing", b"ab")
    (request,) = scripted_host.requests
    assert (request.body, request.headers["authorization"]) == (b"{}", "Bearer k")
    assert request.headers["user-agent"].startswith("openskills/")


def test_nobody_there_is_said_with_the_variable_and_the_command() -> None:
    with pytest.raises(HostUnavailable) as caught:
        fetch(f"http://127.0.0.1:{unused_port()}")
    assert "OPENSKILL_HTTP_BASE_URL" in str(caught.value)
    assert "openskills serve" in str(caught.value)
    assert "(Connection refused)" in str(caught.value)
    assert caught.value.details["attempts"] == 3


def test_a_host_that_comes_up_meanwhile_is_found() -> None:
    port = unused_port()
    patient = ClientLimits(retries=Retries(attempts=50, pause=0.02, longest_pause=0.02))
    connection = connected(f"http://127.0.0.1:{port}", patient)

    async def work() -> Answered[bytes]:
        asked = asyncio.ensure_future(connection.fetch(POST, None))
        await asyncio.sleep(0)
        with scripted(port) as server:
            server.on("POST /x", as_json({}))
            return await asked

    assert closing(connection, work()).status == 200


def test_a_pause_beyond_the_deadline_is_not_begun_when_nobody_is_there() -> None:
    with pytest.raises(HostUnavailable) as caught:
        fetch(f"http://127.0.0.1:{unused_port()}", seconds=10, limits=SLOW)
    assert caught.value.details["attempts"] == 1


def test_a_busy_host_is_asked_again_when_it_says_so(scripted_host: Scripted) -> None:
    busy = failure(429, "later", Retry_After="0")
    scripted_host.on("POST /x", busy, busy, as_json(normal()))
    assert fetch(scripted_host.url).status == 200
    assert len(scripted_host.requests) == 3


def test_a_host_that_stays_busy_has_the_last_word(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", failure(503, "later", Retry_After="0"))
    assert fetch(scripted_host.url).status == 503
    assert len(scripted_host.requests) == 3


def test_a_pause_beyond_the_deadline_is_not_begun(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", failure(429, "later", Retry_After="20"))
    assert fetch(scripted_host.url, seconds=10).status == 429
    assert len(scripted_host.requests) == 1


def test_a_gateway_is_asked_once_without_an_idempotency_key(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"<html>"], 502, "text/html"), as_json(normal()))
    assert fetch(scripted_host.url).status == 502
    assert len(scripted_host.requests) == 1


def test_a_gateway_is_asked_again_with_one(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"<html>"], 502, "text/html"), as_json(normal()))
    assert fetch(scripted_host.url, KEYED).status == 200
    assert [request.headers["idempotency-key"] for request in scripted_host.requests] == ["k", "k"]


def test_an_answer_that_breaks_off_is_not_asked_for_again(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b'{"succ'], cut=True), as_json(normal()))
    with pytest.raises(HostUnavailable, match="the skill may have run"):
        fetch(scripted_host.url)
    assert len(scripted_host.requests) == 1


def test_an_answer_that_breaks_off_is_asked_for_again_with_a_key(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b'{"succ'], cut=True), as_json(normal()))
    assert fetch(scripted_host.url, KEYED).status == 200


def test_an_answer_without_end_is_stopped(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"x" * 60_000] * 100))
    with pytest.raises(LimitExceeded, match="larger than 100,000 bytes"):
        fetch(scripted_host.url)


def test_an_answer_that_does_not_come_ends_at_the_deadline(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"{"], hold=True))
    with pytest.raises(DeadlineExceeded, match="did not answer in time"):
        fetch(scripted_host.url, seconds=0.05)


def test_a_packed_answer_that_nobody_asked_for_is_refused(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"\x1f\x8b"], headers={"Content-Encoding": "gzip"}))
    with pytest.raises(BadSkillOutput, match="packed with 'gzip'"):
        fetch(scripted_host.url)
    assert scripted_host.requests[0].headers["accept-encoding"] == "identity"


def test_a_redirect_within_the_host_is_followed_with_everything(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply(status=307, headers={"Location": "/y"}))
    scripted_host.on("POST /y", as_json(normal()))
    assert fetch(scripted_host.url).status == 200
    assert [(one.path, one.body) for one in scripted_host.requests] == [("/x", b"{}"), ("/y", b"{}")]
    assert scripted_host.requests[1].headers["authorization"] == "Bearer k"


def test_a_redirect_to_another_host_is_not_followed(scripted_host: Scripted) -> None:
    with scripted() as other:
        scripted_host.on("POST /x", Reply(status=307, headers={"Location": f"{other.url}/x"}))
        with pytest.raises(HostUnavailable, match="which is not followed; set OPENSKILL_HTTP_BASE_URL"):
            fetch(scripted_host.url)
        assert other.requests == []


def test_a_redirect_that_would_lose_the_input_is_not_followed(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply(status=303, headers={"Location": "/page"}))
    with pytest.raises(HostUnavailable, match="to a page"):
        fetch(scripted_host.url)


def test_redirects_in_a_circle_end(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply(status=308, headers={"Location": "/x"}))
    with pytest.raises(HostUnavailable, match="more than 3 times"):
        fetch(scripted_host.url)


def pieces_of(url: str, most: int = 100) -> list[bytes]:
    connection = connected(url)

    async def work() -> list[bytes]:
        found: list[bytes] = []
        async with connection.opened(POST, None) as answer:
            async for piece in answer.body:
                found.append(piece)
                if len(found) >= most:
                    break
        return found

    return closing(connection, work())


def test_an_opened_answer_comes_in_pieces(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"one", b"two"]))
    assert b"".join(pieces_of(scripted_host.url)) == b"onetwo"


def test_an_opened_answer_may_be_left_and_the_server_hears_of_it(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"one"], hold=True))
    assert pieces_of(scripted_host.url, most=1) == [b"one"]
    assert scripted_host.gone.wait(10)


def test_silence_in_an_opened_answer_has_an_end(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"one"], hold=True))
    with pytest.raises(DeadlineExceeded):
        pieces_of(scripted_host.url)


def test_an_opened_answer_that_breaks_off_is_noticed(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", Reply([b"one"], cut=True))
    with pytest.raises(HostUnavailable, match="broke off"):
        pieces_of(scripted_host.url)


def test_a_busy_host_is_asked_again_before_an_answer_is_opened(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", failure(429, "later", Retry_After="0"), Reply([b"one"]))
    assert pieces_of(scripted_host.url) == [b"one"]


def test_every_loop_has_connections_of_its_own(scripted_host: Scripted) -> None:
    scripted_host.on("POST /x", as_json(normal()))
    connection = connected(scripted_host.url)

    async def work() -> int:
        try:
            return (await connection.fetch(POST, None)).status
        finally:
            await connection.close()

    assert [asyncio.run(work()), run(work()), asyncio.run(work())] == [200, 200, 200]
