"""Who may call now: limits, turns, deadlines, overload."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from openskills.errors import TooManyRequests
from openskills.host.books.admission import Admission
from openskills.host.books.keys import Principal
from openskills.host.registration import HostLimits, Registration
from tests.host.admission_calls import ECHO, FAR, Calls, Watch


def limited(concurrency: int, skill: str = "echo") -> Registration:
    return Registration(skill, "inproc", "x:y", "1", limits=HostLimits(concurrency=concurrency))


def with_calls(test: Callable[[Calls], Awaitable[None]], *, capacity: int, queue: int, share: float = 1.0) -> Watch:
    watch = Watch()

    async def body() -> None:
        calls = Calls(Admission(capacity=capacity, queue=queue, share=share, watch=watch))
        await test(calls)
        await calls.end_all()
        assert (calls.admission.running, calls.admission.waiting) == (0, 0)

    asyncio.run(body())
    return watch


def test_a_place_that_is_free_is_taken_without_giving_the_loop_away() -> None:
    async def body() -> None:
        admission = Admission(capacity=1, queue=0)
        entering = admission.admitted(Principal("k"), ECHO, FAR).__aenter__()
        # A coroutine that awaits nothing is done with its first step.
        with pytest.raises(StopIteration) as done:
            entering.send(None)
        assert done.value.value.waited >= 0.0
        assert admission.running == 1

    asyncio.run(body())


def test_who_comes_when_all_is_taken_waits_and_goes_in_order() -> None:
    async def body(calls: Calls) -> None:
        for name in ("a", "b", "c", "d"):
            await calls.begin(name)
        assert calls.inside == ["a", "b"]
        await calls.end("b")
        assert calls.inside == ["a", "c"]
        await calls.end("a")
        assert calls.inside == ["c", "d"]

    watch = with_calls(body, capacity=2, queue=10)
    assert watch.admissions == 4
    assert max(watch.lengths) == 2
    assert watch.lengths[-1] == 0


def test_when_the_line_is_full_the_next_is_sent_away_at_once() -> None:
    async def body(calls: Calls) -> None:
        for name in ("a", "b", "c"):
            await calls.begin(name)
        error = await calls.refusal("c")
        assert error.details["limit"] == "queue_full"
        assert float(str(error.details["retry_after"])) > 0
        await calls.end("a")
        assert calls.inside == ["b"]

    assert with_calls(body, capacity=1, queue=1).reasons == {"queue_full": 1}


def test_without_a_line_nobody_waits() -> None:
    async def body(calls: Calls) -> None:
        await calls.begin("a")
        await calls.begin("b")
        await calls.refusal("b")

    with_calls(body, capacity=1, queue=0)


def test_a_key_with_many_calls_does_not_keep_others_out() -> None:
    async def body(calls: Calls) -> None:
        await calls.begin("busy-0", "busy")
        for number in (1, 2, 3):
            await calls.begin(f"busy-{number}", "busy")
        await calls.begin("rare", "rare")
        assert (await calls.refusal("busy-3")).details["limit"] == "displaced"
        await calls.end("busy-0")
        await calls.end("busy-1")
        assert calls.inside == ["rare"]

    with_calls(body, capacity=1, queue=3)


def test_a_key_has_no_more_places_than_its_own() -> None:
    async def body(calls: Calls) -> None:
        for name in ("a", "b", "c"):
            await calls.begin(name, "small", concurrency=1)
        await calls.begin("other", "other")
        assert calls.inside == ["a", "other"]
        await calls.end("a")
        assert calls.inside == ["other", "b"]

    with_calls(body, capacity=10, queue=10)


def test_a_skill_has_no_more_places_than_its_own_and_holds_up_no_other_skill() -> None:
    async def body(calls: Calls) -> None:
        await calls.begin("slow-1", skill=limited(1, "slow"))
        await calls.begin("slow-2", skill=limited(1, "slow"))
        await calls.begin("echo-1")
        await calls.begin("echo-2")
        assert calls.inside == ["slow-1", "echo-1"]
        await calls.end("echo-1")
        # The first in the line may not go; the one behind it may.
        assert calls.inside == ["slow-1", "echo-2"]
        await calls.end("slow-1")
        assert calls.inside == ["echo-2", "slow-2"]

    with_calls(body, capacity=2, queue=10)


def test_who_is_cancelled_in_the_line_frees_its_place_there() -> None:
    async def body(calls: Calls) -> None:
        for name in ("a", "b", "c"):
            await calls.begin(name)
        assert calls.admission.waiting == 2
        await calls.cancel("b")
        assert calls.admission.waiting == 1
        await calls.begin("d")
        await calls.end("a")
        assert calls.inside == ["c"]

    assert with_calls(body, capacity=1, queue=2).reasons == {}


def test_who_is_cancelled_in_the_moment_it_is_let_in_gives_the_place_on() -> None:
    async def body() -> None:
        admission = Admission(capacity=1, queue=5)
        done: list[str] = []

        async def call(name: str) -> None:
            async with admission.admitted(Principal("k"), ECHO, FAR + asyncio.get_running_loop().time()):
                done.append(name)

        holder = admission.admitted(Principal("k"), ECHO, FAR)
        await holder.__aenter__()
        first, second = asyncio.create_task(call("first")), asyncio.create_task(call("second"))
        await Calls.settle()
        await holder.__aexit__(None, None, None)
        # It has the place already, and does not know.
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        assert done == ["second"]
        assert admission.running == 0

    asyncio.run(body())


def test_a_waiter_that_is_cancelled_while_a_place_becomes_free_is_passed_over() -> None:
    async def body() -> None:
        admission = Admission(capacity=1, queue=5)
        holder = admission.admitted(Principal("k"), ECHO, FAR)
        await holder.__aenter__()

        async def call() -> None:
            async with admission.admitted(Principal("k"), ECHO, FAR + asyncio.get_running_loop().time()):
                pass

        waiting = [asyncio.create_task(call()) for _ in range(2)]
        await Calls.settle()
        waiting[0].cancel()
        await holder.__aexit__(None, None, None)
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError, type(None)]
        assert (admission.running, admission.waiting) == (0, 0)

    asyncio.run(body())


def test_who_waits_until_its_deadline_is_sent_away() -> None:
    async def body(calls: Calls) -> None:
        await calls.begin("a")
        await calls.begin("b", wait=0.01)
        assert (await calls.refusal("b")).details["limit"] == "deadline"
        assert calls.admission.waiting == 0

    with_calls(body, capacity=1, queue=5)


def test_who_cannot_be_served_before_its_deadline_does_not_wait_for_it() -> None:
    async def body() -> None:
        watch = Watch()
        admission = Admission(capacity=1, queue=100, watch=watch)
        admission.leave(*entered(admission), seconds=10.0)
        loop = asyncio.get_running_loop()
        holder = admission.admitted(Principal("k"), ECHO, loop.time() + FAR)
        await holder.__aenter__()
        with pytest.raises(TooManyRequests, match="would not be served") as caught:
            await admission.admitted(Principal("k"), ECHO, loop.time() + 15.0).__aenter__()
        # Ten seconds until there is a place, ten more for the call itself.
        assert caught.value.details == {"limit": "too_late", "retry_after": 10.0}
        waiting = asyncio.create_task(admission.admitted(Principal("k"), ECHO, loop.time() + 25.0).__aenter__())
        await Calls.settle()
        assert admission.waiting == 1
        waiting.cancel()
        await asyncio.wait([waiting])
        assert watch.reasons == {"too_late": 1}

    asyncio.run(body())


def entered(admission: Admission) -> tuple[str, str]:
    """A place that was taken; what gives it back."""
    place = admission.admitted(Principal("k"), ECHO, FAR)
    assert admission.enter(place) is None
    return place.principal.name, place.registration.id


def test_the_rate_of_a_key_is_kept_and_said() -> None:
    now = [100.0]

    async def body() -> None:
        watch = Watch()
        admission = Admission(capacity=10, queue=10, watch=watch, clock=lambda: now[0])
        principal = Principal("k", rate_per_second=2.0, burst=2)
        for _ in range(2):
            async with admission.admitted(principal, ECHO, FAR):
                pass
        with pytest.raises(TooManyRequests, match="2 times a second") as caught:
            await admission.admitted(principal, ECHO, FAR).__aenter__()
        assert caught.value.details == {"limit": "rate", "retry_after": 0.5}
        state = admission.rate(principal)
        assert state is not None
        assert (state.limit, state.remaining) == (2, 0)
        async with admission.admitted(Principal("other"), ECHO, FAR):
            assert admission.rate(Principal("other")) is None
        now[0] += 0.5
        async with admission.admitted(principal, ECHO, FAR):
            pass
        assert watch.reasons == {"rate": 1}
        assert admission.running == 0

    asyncio.run(body())


def test_a_new_rate_of_a_key_counts_at_once() -> None:
    async def body() -> None:
        admission = Admission(capacity=10, queue=10, clock=lambda: 0.0)
        slow, quick = Principal("k", rate_per_second=1.0), Principal("k", rate_per_second=5.0)
        admission.take_token(slow)
        with pytest.raises(TooManyRequests):
            admission.take_token(slow)
        for _ in range(5):
            admission.take_token(quick)
        with pytest.raises(TooManyRequests):
            admission.take_token(quick)

    asyncio.run(body())


def test_each_of_several_workers_has_its_share_of_every_limit() -> None:
    async def body(calls: Calls) -> None:
        for name in ("a", "b", "c"):
            await calls.begin(name, "k", concurrency=4)
        assert calls.inside == ["a", "b"]
        await calls.begin("d", "other", limited(1))
        await calls.begin("e", "other", limited(1))
        assert calls.inside == ["a", "b"]
        state = calls.admission.rate(Principal("k", rate_per_second=10.0, burst=20))
        assert state is not None
        assert (state.limit, state.window) == (10, 2.0)
        await calls.begin("f", "third")
        assert calls.admission.waiting == 3

    with_calls(body, capacity=4, queue=6, share=0.5)


def test_a_call_that_fails_gives_its_place_back() -> None:
    async def body() -> None:
        admission = Admission(capacity=1, queue=0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                async with admission.admitted(Principal("k"), ECHO, FAR):
                    raise ZeroDivisionError
        assert admission.running == 0

    asyncio.run(body())
