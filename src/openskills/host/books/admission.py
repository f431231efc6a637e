"""Who may call now, who waits, and who is sent away: limits for each key, each skill, and in all.

A call that finds a place goes on at once: no task, no lock, nothing awaited. One that finds none waits in a bounded
line, and is sent away with 429 as soon as it is clear that it cannot be served before its deadline. So whatever comes
in, those that are let in wait no longer than a full line takes.
"""

import asyncio
import math
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from openskills.errors import TooManyRequests
from openskills.host.books.keys import Principal
from openskills.host.books.rate_limit import Bucket, RateState, burst_of
from openskills.host.books.service_times import ServiceTimes, waiting_time
from openskills.host.books.waiting_line import Waiter, WaitingLine
from openskills.host.registration import Registration

_SOONEST = 0.1
"""Seconds; nobody is told to come back earlier."""


class AdmissionWatch(Protocol):
    """Who wants to know, for metrics."""

    def queued(self, length: int) -> None:
        """So many calls wait now."""
        ...

    def admitted(self, waited: float) -> None:
        """A call goes on, after so many seconds."""
        ...

    def shed(self, reason: str) -> None:
        """A call was sent away: `rate`, `queue_full`, `too_late`, `deadline` or `displaced`."""
        ...


class Admission:
    """The places of one host. It belongs to one event loop.

    `capacity` calls run at a time, and `queue` more may wait. With N worker processes each gets `share=1/N` of every
    limit, of keys and skills too, at least one place: what is promised for a key holds for all of them together when
    its calls are spread evenly.
    """

    def __init__(
        self,
        *,
        capacity: int,
        queue: int,
        share: float = 1.0,
        watch: AdmissionWatch | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._share = share
        self._capacity = self._part(capacity)
        self._queue = math.ceil(queue * share)
        self._watch = watch
        self._clock = clock
        self._running = 0
        self._of_key: dict[str, int] = {}
        self._of_skill: dict[str, int] = {}
        self._buckets: dict[str, Bucket] = {}
        self._line = WaitingLine()
        self._times = ServiceTimes()

    @property
    def running(self) -> int:
        """How many calls have a place."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many calls wait for one."""
        return len(self._line)

    def admitted(self, principal: Principal, registration: Registration, deadline: float) -> "Place":
        """`async with` this around a call. `deadline` is in the loop's time.

        Raises `TooManyRequests` with `retry_after` (seconds) in its details, and `limit`: which one it was.
        """
        return Place(self, principal, registration, deadline)

    def rate(self, principal: Principal) -> RateState | None:
        """How the rate limit of a key stands, for the header fields of a response; `None` where there is none."""
        bucket = self._bucket(principal)
        return None if bucket is None else bucket.state(self._now())

    def take_token(self, principal: Principal) -> None:
        """Count a call against the rate of its key; raises `TooManyRequests` when it comes too early."""
        bucket = self._bucket(principal)
        wait = 0.0 if bucket is None else bucket.take(self._now())
        if wait:
            message = f"the key {principal.name!r} may call {principal.rate_per_second:g} times a second; slow down"
            raise self._refusal("rate", message, wait)

    def enter(self, place: "Place") -> Waiter | None:
        """Take a place: `None` when there is one, else who waits for it. Raises `TooManyRequests`."""
        key, skill = place.principal.name, place.registration.id
        key_limit = self._maybe_part(place.principal.concurrency)
        skill_limit = self._maybe_part(place.registration.limits.concurrency)
        if self._has_place(key, key_limit, skill, skill_limit):
            self._grant(key, skill, 0.0)
            return None
        loop = asyncio.get_running_loop()
        waiter = Waiter(key, skill, key_limit, skill_limit, place.deadline, self._now(), loop.create_future())
        self._check_hope(waiter)
        self._make_room(waiter)
        self._line.add(waiter)
        waiter.timer = loop.call_at(waiter.deadline, self._expire, waiter)
        self._tell_length()
        return waiter

    def leave(self, key: str, skill: str, seconds: float | None) -> None:
        """Give a place back, after so many seconds of work (`None`: there was none), and let the next ones go."""
        if seconds is not None:
            self._times.measured(skill, seconds)
        self._running -= 1
        _less(self._of_key, key)
        _less(self._of_skill, skill)
        self._go_on()

    def give_up(self, waiter: Waiter) -> None:
        """Who waits was cancelled: it leaves the line, or the place that it has just been given."""
        if waiter.timer is not None:
            waiter.timer.cancel()
        if self._line.remove(waiter):
            self._tell_length()
        elif waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
            self.leave(waiter.key, waiter.skill, None)

    def _now(self) -> float:
        return (self._clock or asyncio.get_running_loop().time)()

    def _part(self, limit: int) -> int:
        return max(math.ceil(limit * self._share), 1)

    def _maybe_part(self, limit: int | None) -> int | None:
        return None if limit is None else self._part(limit)

    def _bucket(self, principal: Principal) -> Bucket | None:
        if principal.rate_per_second is None:
            return None
        rate = principal.rate_per_second * self._share
        burst = burst_of(principal.rate_per_second, principal.burst, self._share)
        found = self._buckets.get(principal.name)
        # The limits of a key may have been changed since its last call.
        if found is None or (found.rate, found.burst) != (rate, burst):
            found = self._buckets[principal.name] = Bucket(rate, burst, self._now())
        return found

    def _has_place(self, key: str, key_limit: int | None, skill: str, skill_limit: int | None) -> bool:
        return (
            self._running < self._capacity
            and (key_limit is None or self._of_key.get(key, 0) < key_limit)
            and (skill_limit is None or self._of_skill.get(skill, 0) < skill_limit)
        )

    def _may_go(self, waiter: Waiter) -> bool:
        # One that was cancelled leaves the line by itself, a moment later.
        return not waiter.turn.done() and self._has_place(
            waiter.key, waiter.key_limit, waiter.skill, waiter.skill_limit
        )

    def _grant(self, key: str, skill: str, waited: float) -> None:
        self._running += 1
        self._of_key[key] = self._of_key.get(key, 0) + 1
        self._of_skill[skill] = self._of_skill.get(skill, 0) + 1
        if self._watch is not None:
            self._watch.admitted(waited)

    def _go_on(self) -> None:
        if not self._line:
            return
        while self._running < self._capacity and (waiter := self._line.next(self._may_go)) is not None:
            if waiter.timer is not None:
                waiter.timer.cancel()
            self._grant(waiter.key, waiter.skill, self._now() - waiter.since)
            waiter.turn.set_result(None)
        self._tell_length()

    def _estimate(self, waiter: Waiter) -> float:
        """Seconds until one more call like this could begin, by what calls took lately."""
        line, times = self._line, self._times
        waits = [waiting_time(line.ahead(waiter.key), self._capacity, times.mean())]
        if waiter.key_limit is not None:
            waits.append(waiting_time(line.of_key(waiter.key), waiter.key_limit, times.mean()))
        if waiter.skill_limit is not None:
            waits.append(waiting_time(line.of_skill(waiter.skill), waiter.skill_limit, times.mean(waiter.skill)))
        return max(waits)

    def _check_hope(self, waiter: Waiter) -> None:
        wait = self._estimate(waiter)
        if waiter.since + wait + self._times.mean(waiter.skill) > waiter.deadline:
            message = f"{len(self._line)} calls wait already; this one would not be served before its deadline"
            raise self._refusal("too_late", message, wait)

    def _make_room(self, waiter: Waiter) -> None:
        if len(self._line) < self._queue:
            return
        displaced = self._line.last_of_longest(unless=waiter.key)
        if displaced is None:
            message = f"every place is taken, and {len(self._line)} calls wait already"
            raise self._refusal("queue_full", message, self._estimate(waiter))
        message = f"the key {displaced.key!r} has too many waiting calls; another key needed the place"
        self._send_away(displaced, "displaced", message)

    def _expire(self, waiter: Waiter) -> None:
        self._send_away(waiter, "deadline", "no place became free before the deadline of this call")

    def _send_away(self, waiter: Waiter, reason: str, message: str) -> None:
        if waiter.timer is not None:
            waiter.timer.cancel()
        if self._line.remove(waiter) and not waiter.turn.done():
            waiter.turn.set_exception(self._refusal(reason, message, self._estimate(waiter)))
            self._tell_length()

    def _refusal(self, reason: str, message: str, wait: float) -> TooManyRequests:
        if self._watch is not None:
            self._watch.shed(reason)
        seconds = round(max(wait, _SOONEST), 3)
        return TooManyRequests(f"{message}; try again in {seconds:g} s", limit=reason, retry_after=seconds)

    def _tell_length(self) -> None:
        if self._watch is not None:
            self._watch.queued(len(self._line))


class Place:
    """A place in the host for the time of one call. `waited` are the seconds that it took to get it."""

    __slots__ = ("_admission", "_entered", "deadline", "principal", "registration", "waited")

    def __init__(self, admission: Admission, principal: Principal, registration: Registration, deadline: float) -> None:
        self._admission = admission
        self._entered = 0.0
        self.principal = principal
        self.registration = registration
        self.deadline = deadline
        self.waited = 0.0

    async def __aenter__(self) -> "Place":
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._admission.take_token(self.principal)
        waiter = self._admission.enter(self)
        if waiter is not None:
            try:
                await waiter.turn
            except asyncio.CancelledError:
                self._admission.give_up(waiter)
                raise
        self._entered = loop.time()
        self.waited = self._entered - began
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        held = asyncio.get_running_loop().time() - self._entered
        # A call that was cancelled says nothing about how long calls take.
        measured = None if kind is not None and issubclass(kind, asyncio.CancelledError) else held
        self._admission.leave(self.principal.name, self.registration.id, measured)


def _less(counts: dict[str, int], name: str) -> None:
    if counts[name] == 1:
        del counts[name]
    else:
        counts[name] -= 1
