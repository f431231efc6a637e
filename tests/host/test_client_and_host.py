"""The client and the real host, with a real server between them."""

import asyncio
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, UnknownSkill
from openskills.host.client.client import Client, HostedSkill
from openskills.host.client.transport import ClientLimits, unwrap
from openskills.host.model import Call, Outcome, success_outcome
from openskills.host.parts import HostOptions
from openskills.settings import Settings
from tests.host.hosting import Waiting, chatty, echo, eventually, manifest, served


def connect(url: str, limits: ClientLimits | None = None) -> Client:
    return Client(url, settings=Settings.from_env({}), limits=limits)


async def test_an_invocation_goes_there_and_back(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        async with connect(host.url) as client:
            result = await client.invoke("echo", {"text": "你好"}, trace_id="demo-123")
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


async def test_what_the_host_refuses_is_a_result(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        async with connect(host.url) as client:
            refused = await client.invoke("echo", {"text": 3})
            unknown = await client.invoke("ecko", {})
    assert (refused.success, refused.status) == (False, 400)
    assert unknown.status == 404
    assert unknown.outcome.failure is not None
    assert unknown.outcome.failure.details["near"] == ["echo"]


async def test_a_stream_shows_what_the_skill_shows(tmp_path: Path) -> None:
    with served(tmp_path, {"chatty": chatty}) as host:
        async with connect(host.url) as client:
            kinds = [event.kind async for event in client.stream("chatty", {})]
            assert kinds == ["start", "stdout", "progress", "result"]


async def test_a_stream_that_is_left_cancels_the_skill(tmp_path: Path) -> None:
    waiting = Waiting()

    with served(tmp_path, {"waiting": waiting}) as host:
        async with connect(host.url) as client:
            stream = client.stream("waiting", {})
            async for _ in stream:
                if waiting.began.is_set():
                    break
                await asyncio.to_thread(waiting.began.wait, 20)
                break
            await stream.aclose()
        assert await asyncio.to_thread(waiting.cancelled.wait, 20)


async def test_signs_of_life_keep_a_silent_stream_open(tmp_path: Path) -> None:
    waiting = Waiting()

    options = HostOptions(watch=False, ping_seconds=0.05)
    with served(tmp_path, {"waiting": waiting}, options=options) as host:
        async with connect(host.url, ClientLimits(silence=3.0)) as client:
            stream = client.stream("waiting", {})
            assert (await anext(stream)).kind == "start"
            # Longer than the silence that this client puts up with.
            asyncio.get_running_loop().call_later(4.0, waiting.may_end.set)
            assert [event.result.success async for event in stream if event.result is not None] == [True]


async def test_a_run_that_was_started_can_be_watched_and_has_a_result(tmp_path: Path) -> None:
    with served(tmp_path, {"chatty": chatty}) as host:
        async with connect(host.url) as client:
            started = await client.start("chatty", {})
            kinds = [event.kind async for event in started.events()]
            assert (await started.status())["state"] == "succeeded"
            assert (await started.result()).success
    assert kinds[-3:] == ["stdout", "progress", "result"]


async def test_a_run_that_was_started_can_be_cancelled(tmp_path: Path) -> None:
    waiting = Waiting()

    with served(tmp_path, {"waiting": waiting}) as host:
        async with connect(host.url) as client:
            started = await client.start("waiting", {})
            await asyncio.to_thread(waiting.began.wait, 20)
            await started.cancel()
            assert not (await started.result()).success
        assert await asyncio.to_thread(waiting.cancelled.wait, 20)


async def test_with_an_idempotency_key_the_skill_runs_once(tmp_path: Path) -> None:
    calls: list[object] = []

    async def count(call: Call) -> Outcome:
        calls.append(call)
        return success_outcome({"n": len(calls)})

    with served(tmp_path, {"count": count}) as host:
        async with connect(host.url) as client:
            assert [unwrap(await client.invoke("count", {}, idempotency_key="k-1"))["n"] for _ in range(2)] == [1, 1]


async def test_the_host_tells_of_its_skills_and_its_health(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo, "chatty": chatty}) as host:
        async with connect(host.url) as client:
            assert {skill.id for skill in await client.skills()} == {"echo", "chatty"}
            found = await client.skill("echo")
        assert (found.description, found.required_fields, found.is_ready) == (
            "Gives back what it gets.",
            ("text",),
            True,
        )
        async with connect(host.url) as client:
            assert (await client.health())["status"] == "ok"
            with pytest.raises(UnknownSkill, match="did you mean 'echo'"):
                await client.skill("ecko")


async def test_many_calls_at_once_are_all_answered(tmp_path: Path) -> None:
    with served(tmp_path, host_queue=200) as host:
        async with connect(host.url) as client:
            calls = (client.invoke("echo", {"text": str(number)}) for number in range(100))
            results = await asyncio.gather(*calls)
            assert {unwrap(result)["echoed"] for result in results} == {str(number) for number in range(100)}
        eventually(lambda: host.parts.host.in_flight == 0)


async def test_an_id_cannot_bend_the_address(tmp_path: Path) -> None:
    with served(tmp_path) as host:
        async with connect(host.url) as client:
            assert (await client.invoke("echo:invoke?x=", {})).status == 404
            with pytest.raises(InvalidArgument):
                await client.invoke("../skills/echo", {})
