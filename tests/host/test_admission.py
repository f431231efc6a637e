"""Who may call now: limits, turns, deadlines, overload.

A bucket of tokens, with a time that the test brings.

What calls took, and what follows for those that wait.

Who goes next.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from openskills.errors import TooManyRequests
from openskills.host.admission import (
    Admission,
    AdmissionQueue,
    AdmissionSlot,
    RateState,
    ServiceTimes,
    TokenBucket,
    burst_size,
    estimate_wait,
)
from openskills.host.auth import Principal
from openskills.host.model import HostLimits, Registration
from tests.host.admission_calls import ECHO, FAR, Calls, Watch


def limited(concurrency: int, skill: str = "echo") -> Registration:
    return Registration(skill, "inproc", "x:y", "1", limits=HostLimits(concurrency=concurrency))


@asynccontextmanager
async def admission_calls(
    *, capacity: int, queue: int, share: float = 1.0, watch: Watch | None = None
) -> AsyncGenerator[Calls]:
    """Calls of an admission that has nobody left at the end."""
    calls = Calls(Admission(capacity=capacity, queue=queue, share=share, observer=watch or Watch()))
    yield calls
    await calls.end_all()
    assert (calls.admission.active_count, calls.admission.queue_length) == (0, 0)


async def test_a_place_that_is_free_is_taken_without_giving_the_loop_away() -> None:
    admission = Admission(capacity=1, queue=0)
    slot = admission.admit(Principal("k"), ECHO, FAR)
    entering = slot.__aenter__()
    # A coroutine that awaits nothing is done with its first step.
    with pytest.raises(StopIteration) as done:
        entering.send(None)
    assert done.value.value is slot
    assert admission.active_count == 1


async def test_who_comes_when_all_is_taken_waits_and_goes_in_order() -> None:
    watch = Watch()
    async with admission_calls(capacity=2, queue=10, watch=watch) as calls:
        for name in ("a", "b", "c", "d"):
            await calls.begin(name)
        assert calls.inside == ["a", "b"]
        await calls.end("b")
        assert calls.inside == ["a", "c"]
        await calls.end("a")
        assert calls.inside == ["c", "d"]
    assert watch.admissions == 4
    assert max(watch.lengths) == 2
    assert watch.lengths[-1] == 0


async def test_when_the_line_is_full_the_next_is_sent_away_at_once() -> None:
    watch = Watch()
    async with admission_calls(capacity=1, queue=1, watch=watch) as calls:
        for name in ("a", "b", "c"):
            await calls.begin(name)
        error = await calls.refusal("c")
        assert error.details["limit"] == "queue_full"
        assert float(str(error.details["retry_after"])) > 0
        await calls.end("a")
        assert calls.inside == ["b"]
    assert watch.reasons == {"queue_full": 1}


async def test_without_a_line_nobody_waits() -> None:
    async with admission_calls(capacity=1, queue=0) as calls:
        await calls.begin("a")
        await calls.begin("b")
        await calls.refusal("b")


async def test_a_key_with_many_calls_does_not_keep_others_out() -> None:
    async with admission_calls(capacity=1, queue=3) as calls:
        await calls.begin("busy-0", "busy")
        for number in (1, 2, 3):
            await calls.begin(f"busy-{number}", "busy")
        await calls.begin("rare", "rare")
        assert (await calls.refusal("busy-3")).details["limit"] == "displaced"
        await calls.end("busy-0")
        await calls.end("busy-1")
        assert calls.inside == ["rare"]


async def test_a_key_has_no_more_places_than_its_own() -> None:
    async with admission_calls(capacity=10, queue=10) as calls:
        for name in ("a", "b", "c"):
            await calls.begin(name, "small", concurrency=1)
        await calls.begin("other", "other")
        assert calls.inside == ["a", "other"]
        await calls.end("a")
        assert calls.inside == ["other", "b"]


async def test_a_skill_has_no_more_places_than_its_own_and_holds_up_no_other_skill() -> None:
    async with admission_calls(capacity=2, queue=10) as calls:
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


async def test_who_is_cancelled_in_the_line_frees_its_place_there() -> None:
    watch = Watch()
    async with admission_calls(capacity=1, queue=2, watch=watch) as calls:
        for name in ("a", "b", "c"):
            await calls.begin(name)
        assert calls.admission.queue_length == 2
        await calls.cancel("b")
        assert calls.admission.queue_length == 1
        await calls.begin("d")
        await calls.end("a")
        assert calls.inside == ["c"]
    assert watch.reasons == {}


async def test_who_is_cancelled_in_the_moment_it_is_let_in_gives_the_place_on() -> None:
    admission = Admission(capacity=1, queue=5)
    done: list[str] = []

    async def call(name: str) -> None:
        async with admission.admit(Principal("k"), ECHO, FAR + asyncio.get_running_loop().time()):
            done.append(name)

    holder = admission.admit(Principal("k"), ECHO, FAR)
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
    assert admission.active_count == 0


async def test_a_waiter_that_is_cancelled_while_a_place_becomes_free_is_passed_over() -> None:
    admission = Admission(capacity=1, queue=5)
    holder = admission.admit(Principal("k"), ECHO, FAR)
    await holder.__aenter__()

    async def call() -> None:
        async with admission.admit(Principal("k"), ECHO, FAR + asyncio.get_running_loop().time()):
            pass

    waiting = [asyncio.create_task(call()) for _ in range(2)]
    await Calls.settle()
    waiting[0].cancel()
    await holder.__aexit__(None, None, None)
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError, type(None)]
    assert (admission.active_count, admission.queue_length) == (0, 0)


async def test_who_waits_until_its_deadline_is_sent_away() -> None:
    async with admission_calls(capacity=1, queue=5) as calls:
        await calls.begin("a")
        await calls.begin("b", wait=0.01)
        assert (await calls.refusal("b")).details["limit"] == "deadline"
        assert calls.admission.queue_length == 0


async def test_who_cannot_be_served_before_its_deadline_does_not_wait_for_it() -> None:
    watch = Watch()
    admission = Admission(capacity=1, queue=100, observer=watch)
    admission.leave(entered(admission), seconds=10.0)
    loop = asyncio.get_running_loop()
    holder = admission.admit(Principal("k"), ECHO, loop.time() + FAR)
    await holder.__aenter__()
    with pytest.raises(TooManyRequests, match="would not be served") as caught:
        await admission.admit(Principal("k"), ECHO, loop.time() + 15.0).__aenter__()
    # Ten seconds until there is a place, ten more for the call itself.
    assert caught.value.details == {"limit": "too_late", "retry_after": 10.0}
    waiting = asyncio.create_task(admission.admit(Principal("k"), ECHO, loop.time() + 25.0).__aenter__())
    await Calls.settle()
    assert admission.queue_length == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    assert watch.reasons == {"too_late": 1}


def entered(admission: Admission) -> AdmissionSlot:
    """A place that was taken; what gives it back."""
    place = admission.admit(Principal("k"), ECHO, FAR)
    assert not admission.enter(place)
    return place


async def test_the_rate_of_a_key_is_kept_and_said() -> None:
    now = [100.0]

    watch = Watch()
    admission = Admission(capacity=10, queue=10, observer=watch, clock=lambda: now[0])
    principal = Principal("k", rate_per_second=2.0, burst=2)
    for _ in range(2):
        async with admission.admit(principal, ECHO, FAR):
            pass
    with pytest.raises(TooManyRequests, match="2 calls a second") as caught:
        await admission.admit(principal, ECHO, FAR).__aenter__()
    assert caught.value.details == {"limit": "rate", "retry_after": 0.5}
    state = admission.rate_state(principal)
    assert state is not None
    assert (state.limit, state.remaining) == (2, 0)
    async with admission.admit(Principal("other"), ECHO, FAR):
        assert admission.rate_state(Principal("other")) is None
    now[0] += 0.5
    async with admission.admit(principal, ECHO, FAR):
        pass
    assert watch.reasons == {"rate": 1}
    assert admission.active_count == 0


async def test_a_new_rate_of_a_key_counts_at_once() -> None:
    admission = Admission(capacity=10, queue=10, clock=lambda: 0.0)
    slow, quick = Principal("k", rate_per_second=1.0), Principal("k", rate_per_second=5.0)
    admission.take_token(slow)
    with pytest.raises(TooManyRequests):
        admission.take_token(slow)
    for _ in range(5):
        admission.take_token(quick)
    with pytest.raises(TooManyRequests):
        admission.take_token(quick)


async def test_each_of_several_workers_has_its_share_of_every_limit() -> None:
    async with admission_calls(capacity=4, queue=6, share=0.5) as calls:
        for name in ("a", "b", "c"):
            await calls.begin(name, "k", concurrency=4)
        assert calls.inside == ["a", "b"]
        await calls.begin("d", "other", limited(1))
        await calls.begin("e", "other", limited(1))
        assert calls.inside == ["a", "b"]
        state = calls.admission.rate_state(Principal("k", rate_per_second=10.0, burst=20))
        assert state is not None
        assert (state.limit, state.window) == (10, 2.0)
        await calls.begin("f", "third")
        assert calls.admission.queue_length == 3


async def test_a_call_that_fails_gives_its_place_back() -> None:
    admission = Admission(capacity=1, queue=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            async with admission.admit(Principal("k"), ECHO, FAR):
                raise ZeroDivisionError
    assert admission.active_count == 0


def test_a_full_bucket_gives_its_burst_and_then_says_how_long_to_wait() -> None:
    bucket = TokenBucket(rate=2.0, burst=3, now=100.0)
    assert [bucket.take(100.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 0.5]


def test_it_fills_with_time_and_never_beyond_its_burst() -> None:
    bucket = TokenBucket(rate=2.0, burst=3, now=0.0)
    for _ in range(3):
        bucket.take(0.0)
    assert bucket.take(0.25) == pytest.approx(0.25)
    assert bucket.take(0.5) == 0.0
    assert [bucket.take(1_000.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_time_that_goes_back_fills_nothing() -> None:
    bucket = TokenBucket(rate=1.0, burst=1, now=100.0)
    assert bucket.take(100.0) == 0.0
    assert bucket.take(50.0) == 1.0
    assert bucket.take(100.0) == 1.0
    assert bucket.take(101.0) == 0.0


def test_over_a_long_time_the_rate_is_kept() -> None:
    bucket = TokenBucket(rate=10.0, burst=5, now=0.0)
    taken = sum(bucket.take(step / 1000.0) == 0.0 for step in range(10_000))
    assert taken == 5 + 99


def test_the_header_fields_say_how_it_stands() -> None:
    bucket = TokenBucket(rate=2.0, burst=10, now=0.0)
    for _ in range(3):
        bucket.take(0.0)
    state = bucket.state(0.0)
    assert state == RateState(limit=10, remaining=7, reset=1.5, window=5.0)
    assert dict(state.headers()) == {
        "RateLimit-Policy": '"key";q=10;w=5',
        "RateLimit": '"key";r=7;t=2',
        "X-RateLimit-Limit": "10",
        "X-RateLimit-Remaining": "7",
        "X-RateLimit-Reset": "2",
    }


@pytest.mark.parametrize(
    ("rate", "burst", "share", "expected"),
    [(10.0, None, 1.0, 10), (10.0, 30, 1.0, 30), (10.0, 30, 0.25, 8), (0.1, None, 1.0, 1), (1.0, 1, 0.125, 1)],
)
def test_a_burst_is_at_least_one(rate: float, burst: int | None, share: float, expected: int) -> None:
    assert burst_size(rate, burst, share) == expected


def test_nothing_is_known_before_the_first_call() -> None:
    assert ServiceTimes().mean() == ServiceTimes().mean("echo") == 0.0


def test_the_mean_follows_what_is_measured() -> None:
    times = ServiceTimes()
    for _ in range(100):
        times.record("slow", 2.0)
    assert times.mean("slow") == pytest.approx(2.0)
    for _ in range(100):
        times.record("quick", 0.01)
    assert times.mean("slow") == pytest.approx(2.0)
    assert times.mean("quick") == pytest.approx(0.01)
    assert times.mean() == pytest.approx(0.01, rel=0.1)


def test_a_skill_that_was_never_called_is_expected_to_be_like_the_others() -> None:
    times = ServiceTimes()
    times.record("echo", 0.5)
    assert times.mean("other") == 0.5


def test_however_many_skills_there_are_only_some_are_remembered() -> None:
    times = ServiceTimes()
    for number in range(3_000):
        times.record(f"skill-{number}", 1.0 if number < 1_000 else 3.0)
    assert times.mean("skill-0") == 1.0
    assert times.mean("skill-2999") == pytest.approx(3.0, rel=0.01)


def test_who_waits_longer_has_more_before_it_or_fewer_places() -> None:
    assert estimate_wait(ahead=0, slots=1, mean=0.5) == 0.5
    assert estimate_wait(ahead=9, slots=2, mean=0.5) == 2.5
    assert estimate_wait(ahead=9, slots=0, mean=0.5) == 5.0


def waiter(key: str, skill: str = "echo") -> AdmissionSlot:
    return Admission(capacity=1, queue=1).admit(Principal(key), replace(ECHO, id=skill), 0.0)


def line_of(keys: str) -> AdmissionQueue:
    line = AdmissionQueue()
    for number, key in enumerate(keys):
        line.add(waiter(key, str(number)))
    return line


def order(line: AdmissionQueue) -> str:
    found = ""
    while (one := line.pop_next(lambda _: True)) is not None:
        found += one.key
    return found


@pytest.mark.parametrize(
    ("waiting", "served"), [("", ""), ("aaa", "aaa"), ("aaab", "abaa"), ("aaabbc", "abcaba"), ("abcabc", "abcabc")]
)
def test_keys_take_turns(waiting: str, served: str) -> None:
    assert order(line_of(waiting)) == served


def test_of_one_key_who_came_first_goes_first() -> None:
    line = line_of("abab")
    served = [one.skill for _ in range(4) if (one := line.pop_next(lambda _: True))]
    assert served == ["0", "1", "2", "3"]
    assert len(line) == 0


def test_a_key_that_was_just_served_goes_behind_a_new_one() -> None:
    line = line_of("aa")
    assert line.pop_next(lambda _: True)
    line.add(waiter("b"))
    assert order(line) == "ab"


def test_who_may_not_go_is_passed_over_and_keeps_its_place() -> None:
    line = line_of("aab")
    second = line.pop_next(lambda one: one.skill != "0")
    assert second is not None
    assert second.skill == "1"
    assert line.pop_next(lambda _: False) is None
    assert order(line) == "ba"


def test_the_number_ahead_is_the_number_that_is_served_before() -> None:
    for waiting in ("", "a", "aaab", "bbbb", "aabbccd", "dcba"):
        line = line_of(waiting)
        expected = line.count_ahead("a")
        mine = waiter("a", "mine")
        line.add(mine)
        before = 0
        while line.pop_next(lambda _: True) is not mine:
            before += 1
        # Whose turn comes first among keys is not foreseen exactly.
        assert before <= expected <= before + 3, waiting


def test_counts_follow_what_is_added_and_removed() -> None:
    line = AdmissionQueue()
    first, second = waiter("a", "echo"), waiter("a", "sum")
    line.add(first)
    line.add(second)
    assert (len(line), line.count_key("a"), line.count_skill("echo"), line.count_skill("sum")) == (2, 2, 1, 1)
    assert line.remove(first)
    assert not line.remove(first)
    assert (len(line), line.count_key("a"), line.count_skill("echo")) == (1, 1, 0)
    assert list(line) == [second]


@pytest.mark.parametrize(
    ("waiting", "newcomer", "gives"),
    [("", "x", None), ("a", "x", None), ("aa", "x", "1"), ("aab", "b", None), ("aaab", "b", "2"), ("aaa", "a", None)],
)
def test_only_a_key_that_has_clearly_more_gives_a_place_away(waiting: str, newcomer: str, gives: str | None) -> None:
    found = line_of(waiting).find_displaceable(unless=newcomer)
    assert (found and found.skill) == gives


async def test_a_queued_call_that_cannot_finish_any_more_is_not_started() -> None:
    now = [100.0]
    admission = Admission(capacity=1, queue=10, clock=lambda: now[0])
    held = entered(admission)
    loop = asyncio.get_running_loop()
    waiting = asyncio.create_task(admission.admit(Principal("k"), ECHO, 130.0 + loop.time()).__aenter__())
    short = asyncio.create_task(admission.admit(Principal("k"), ECHO, 130.0).__aenter__())
    await Calls.settle()
    # The call before it took ten seconds, and only nine are left.
    now[0] = 121.0
    admission.leave(held, seconds=10.0)
    held = await waiting
    admission.leave(held, seconds=10.0)
    with pytest.raises(TooManyRequests, match="was not started: it was queued for 21 s, and the 9 s left") as caught:
        await short
    assert caught.value.details["limit"] == "deadline"
    assert (admission.active_count, admission.queue_length) == (0, 0)


CAPACITY, QUEUE, STEPS, TAKES = 4, 8, 300, 5


class Load:
    """In each step come seven calls of one key and one of another; each takes five steps."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.step = 0
        self.running = 0
        self.most = 0
        self.waits: list[int] = []
        self.served: Counter[str] = Counter()
        self.refusals: list[TooManyRequests] = []

    async def run(self) -> int:
        """How many calls there were; all have ended."""
        tasks: list[asyncio.Task[None]] = []
        while self.step < STEPS or not all(task.done() for task in tasks):
            if self.step < STEPS:
                tasks += [asyncio.create_task(self._call(key)) for key in [*["greedy"] * 7, "modest"]]
            await Calls.settle()
            self.step += 1
        await asyncio.gather(*tasks)
        return len(tasks)

    async def _call(self, key: str) -> None:
        came = self.step
        try:
            async with self.admission.admit(Principal(key), ECHO, asyncio.get_running_loop().time() + FAR):
                self.waits.append(self.step - came)
                self.running += 1
                self.most = max(self.most, self.running)
                until = self.step + TAKES
                while self.step < until:
                    await asyncio.sleep(0)
                self.running -= 1
                self.served[key] += 1
        except TooManyRequests as error:
            self.refusals.append(error)


async def test_at_ten_times_the_capacity_load_is_shed_and_nobody_waits_behind_more_than_the_line() -> None:
    watch = Watch()

    load = Load(Admission(capacity=CAPACITY, queue=QUEUE, observer=watch))
    calls = await load.run()
    served = load.served.total()
    assert served + len(load.refusals) == calls == 8 * STEPS
    assert load.most == CAPACITY
    # What could be served was: four calls in five steps, and the line at the end.
    assert served >= CAPACITY * STEPS // TAKES
    assert served <= CAPACITY * (STEPS // TAKES + 1) + QUEUE
    # A full line is served in ten steps; nobody who is let in waits much longer than that.
    assert max(load.waits) <= (QUEUE // CAPACITY + 1) * TAKES
    # The key that sends an eighth of the calls gets about half of the places.
    assert load.served["modest"] >= served * 0.4
    assert max(watch.lengths) <= QUEUE
    assert watch.reasons.total() == len(load.refusals)
    assert all(float(str(error.details["retry_after"])) > 0 for error in load.refusals)
    assert (load.admission.active_count, load.admission.queue_length) == (0, 0)
