"""The client and the real host, with a real server between them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from openskills.errors import InvalidArgument, UnknownSkill
from openskills.host.client.client import Client, HostedSkill
from openskills.host.client.transport import ClientLimits, unwrap
from openskills.host.model import Call, Outcome, success_outcome
from openskills.host.parts import HostOptions
from openskills.settings import Settings
from openskills.sync import run
from tests.host.hosting import Waiting, chatty, echo, eventually, manifest, served

T = TypeVar("T")


def using(url: str, work: Callable[[Client], Awaitable[T]], limits: ClientLimits | None = None) -> T:
    async def whole() -> T:
        async with Client(url, settings=Settings.from_env({}), limits=limits) as client:
            return await work(client)

    return run(whole())


def test_an_invocation_goes_there_and_back(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        result = using(host.url, lambda client: client.invoke("echo", {"text": "你好"}, trace_id="demo-123"))
        assert unwrap(result) == {"echoed": "你好"}
        assert (result.trace_id, result.skill_id) == ("demo-123", "echo")


class AskingClient(Client):
    """Lets the skill end when it asks the host for the timeout of the skill."""

    waiting: Waiting

    async def skill(self, skill_id: str) -> HostedSkill:
        found = await super().skill(skill_id)
        self.waiting.may_end.set()
        return found


@pytest.mark.parametrize(("timeout_ms", "status"), [(60_000, 200), (100, 504)])
async def test_without_a_timeout_of_its_own_a_client_waits_as_long_as_the_skill_may_take(
    tmp_path: Path, timeout_ms: int, status: int
) -> None:
    waiting = Waiting()
    manifest(tmp_path, "waiting", f"timeout_ms: {timeout_ms}\n")
    with served(tmp_path, {"waiting": waiting}) as host:
        # Much less than the skill takes.
        settings = Settings.from_env({"OPENSKILL_TIMEOUT_MS": "1"})
        async with AskingClient(host.url, settings=settings) as client:
            client.waiting = waiting
            assert (await client.invoke("waiting", {})).status == status


def test_what_the_host_refuses_is_a_result(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        refused = using(host.url, lambda client: client.invoke("echo", {"text": 3}))
        unknown = using(host.url, lambda client: client.invoke("ecko", {}))
    assert (refused.success, refused.status) == (False, 400)
    assert unknown.status == 404
    assert unknown.outcome.failure is not None
    assert unknown.outcome.failure.details["near"] == ["echo"]


def test_a_stream_shows_what_the_skill_shows(tmp_path: Path) -> None:
    async def kinds(client: Client) -> list[str]:
        return [event.kind async for event in client.stream("chatty", {})]

    with served(tmp_path, {"chatty": chatty}) as host:
        assert using(host.url, kinds) == ["start", "stdout", "progress", "result"]


def test_a_stream_that_is_left_cancels_the_skill(tmp_path: Path) -> None:
    waiting = Waiting()

    async def leave(client: Client) -> None:
        stream = client.stream("waiting", {})
        async for _ in stream:
            if waiting.began.is_set():
                break
            await asyncio.to_thread(waiting.began.wait, 20)
            break
        await stream.aclose()

    with served(tmp_path, {"waiting": waiting}) as host:
        using(host.url, leave)
        assert waiting.cancelled.wait(20)


def test_signs_of_life_keep_a_silent_stream_open(tmp_path: Path) -> None:
    waiting = Waiting()

    async def until_the_end(client: Client) -> bool:
        stream = client.stream("waiting", {})
        assert (await anext(stream)).kind == "start"
        # Longer than the silence that this client puts up with.
        asyncio.get_running_loop().call_later(4.0, waiting.may_end.set)
        return [event.result.success async for event in stream if event.result is not None] == [True]

    options = HostOptions(watch=False, ping_seconds=0.05)
    with served(tmp_path, {"waiting": waiting}, options=options) as host:
        assert using(host.url, until_the_end, ClientLimits(silence=3.0))


def test_a_run_that_was_started_can_be_watched_and_has_a_result(tmp_path: Path) -> None:
    async def work(client: Client) -> tuple[list[str], object, bool]:
        started = await client.start("chatty", {})
        kinds = [event.kind async for event in started.events()]
        return kinds, (await started.status())["state"], (await started.result()).success

    with served(tmp_path, {"chatty": chatty}) as host:
        kinds, state, success = using(host.url, work)
    assert kinds[-3:] == ["stdout", "progress", "result"]
    assert (state, success) == ("succeeded", True)


def test_a_run_that_was_started_can_be_cancelled(tmp_path: Path) -> None:
    waiting = Waiting()

    async def work(client: Client) -> bool:
        started = await client.start("waiting", {})
        await asyncio.to_thread(waiting.began.wait, 20)
        await started.cancel()
        return (await started.result()).success

    with served(tmp_path, {"waiting": waiting}) as host:
        assert not using(host.url, work)
        assert waiting.cancelled.wait(20)


def test_with_an_idempotency_key_the_skill_runs_once(tmp_path: Path) -> None:
    calls: list[object] = []

    async def count(call: Call) -> Outcome:
        calls.append(call)
        return success_outcome({"n": len(calls)})

    async def twice(client: Client) -> list[object]:
        return [unwrap(await client.invoke("count", {}, idempotency_key="k-1"))["n"] for _ in range(2)]

    with served(tmp_path, {"count": count}) as host:
        assert using(host.url, twice) == [1, 1]


def test_the_host_tells_of_its_skills_and_its_health(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo, "chatty": chatty}) as host:
        assert {skill.id for skill in using(host.url, lambda client: client.skills())} == {"echo", "chatty"}
        found = using(host.url, lambda client: client.skill("echo"))
        assert (found.description, found.required_fields, found.is_ready) == (
            "Gives back what it gets.",
            ("text",),
            True,
        )
        assert using(host.url, lambda client: client.health())["status"] == "ok"
        with pytest.raises(UnknownSkill, match="did you mean 'echo'"):
            using(host.url, lambda client: client.skill("ecko"))


def test_many_calls_at_once_are_all_answered(tmp_path: Path) -> None:
    async def many(client: Client) -> set[object]:
        calls = (client.invoke("echo", {"text": str(number)}) for number in range(100))
        return {unwrap(result)["echoed"] for result in await asyncio.gather(*calls)}

    with served(tmp_path, host_queue=200) as host:
        assert using(host.url, many) == {str(number) for number in range(100)}
        eventually(lambda: host.parts.host.in_flight == 0)


def test_an_id_cannot_bend_the_address(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        assert using(host.url, lambda client: client.invoke("echo:invoke?x=", {})).status == 404
        with pytest.raises(InvalidArgument):
            using(host.url, lambda client: client.invoke("../skills/echo", {}))
