"""Admission control: concurrency limits, a bounded queue, and rate limits per key.

A call that finds a free slot proceeds at once, without a task or a lock. Otherwise it waits in a bounded queue, and is
rejected with 429 as soon as it is clear that it cannot be served before its deadline. Within a key calls are served
first in, first out; keys take turns.
"""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any, Protocol

from openskills.errors import InvalidArgument, TooManyRequests
from openskills.host.database import Database
from openskills.host.model import Registration


@dataclass(frozen=True, slots=True)
class LimitedKey:
    """The name of a key and its limits; None means no limit.

    Each further field is an option `openskills keys new --limit FIELD=N`, is stored with the key, and is shown as its
    metadata says.
    """

    name: str
    rate_per_second: float | None = field(default=None, kw_only=True, metadata={"shown": "{:g}/s"})
    burst: int | None = field(default=None, kw_only=True, metadata={"shown": "burst {}"})
    concurrency: int | None = field(default=None, kw_only=True, metadata={"shown": "{} concurrent"})

    @property
    def limits(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in _LIMITS}

    def check_limits(self) -> None:
        """Raises `InvalidArgument` with the name of a limit that is out of range."""
        for name, limit in self.limits.items():
            if limit is not None and not 0 < limit <= 1_000_000:
                raise InvalidArgument(name, f"{limit} is out of range; use more than 0 and at most 1,000,000")

    def describe_limits(self) -> str:
        known = [(one.metadata["shown"], getattr(self, one.name)) for one in _LIMITS]
        return ", ".join(shown.format(limit) for shown, limit in known if limit is not None)


_LIMITS = [one for one in fields(LimitedKey) if one.kw_only]


def parse_limits(given: Iterable[str], field: str = "--limit") -> dict[str, float]:
    """Limits from texts `NAME=N`; a name may be abbreviated. Raises `InvalidArgument` with the name `field`."""
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.partition("=")
        known = [one for one in _LIMITS if name and one.name.startswith(name)]
        if len(known) != 1:
            names = ", ".join(one.name for one in _LIMITS)
            raise InvalidArgument(field, f"unknown limit {name!r}; use NAME=N with one of {names}")
        try:
            found[known[0].name] = (float if "float" in str(known[0].type) else int)(number)
        except ValueError:
            raise InvalidArgument(field, f"{text!r}: expected a number after =") from None
    return found


@dataclass(frozen=True, slots=True)
class RateState:
    """The state of a rate limit: burst size, calls left, seconds until all are available again, and in all."""

    limit: int
    remaining: int
    reset: float
    window: float

    def headers(self) -> list[tuple[str, str]]:
        """`RateLimit` and `RateLimit-Policy` of the IETF draft, and the older `X-RateLimit-*`."""
        reset = str(math.ceil(self.reset))
        return [
            ("RateLimit-Policy", f'"key";q={self.limit};w={max(math.ceil(self.window), 1)}'),
            ("RateLimit", f'"key";r={self.remaining};t={reset}'),
            ("X-RateLimit-Limit", str(self.limit)),
            ("X-RateLimit-Remaining", str(self.remaining)),
            ("X-RateLimit-Reset", reset),
        ]


class TokenBucket:
    """A token bucket of `burst` tokens that refills at `rate` tokens a second. It starts full."""

    __slots__ = ("_at", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = float(burst)
        self._at = now

    def take(self, now: float) -> float:
        """Take a token and return 0.0, or return the seconds until one is available."""
        self._fill(now)
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self.rate

    def state(self, now: float) -> RateState:
        self._fill(now)
        missing = (self.burst - self._tokens) / self.rate
        return RateState(self.burst, int(self._tokens), missing, self.burst / self.rate)

    def _fill(self, now: float) -> None:
        # A clock that stands still or goes back adds nothing.
        self._tokens = min(self._tokens + max(now - self._at, 0.0) * self.rate, float(self.burst))
        self._at = max(now, self._at)


def burst_size(rate: float, burst: int | None, share: float) -> int:
    """The burst of one worker: the configured one, else the calls of one second; at least one."""
    wanted = rate if burst is None else burst
    return max(math.ceil(wanted * share), 1)


# One statement, so that hosts take turns at a bucket. It is full at first; the clock is that of the server.
_FILLED = "least(CAST(? AS DOUBLE PRECISION), b.tokens + greatest(excluded.at - b.at, 0) * CAST(? AS DOUBLE PRECISION))"
_TAKE_TOKEN = f"""
    INSERT INTO rate_buckets AS b (name, tokens, taken, at)
    VALUES (?, CAST(? AS DOUBLE PRECISION) - 1, 1, CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION))
    ON CONFLICT (name) DO UPDATE SET tokens = {_FILLED} - CASE WHEN {_FILLED} >= 1 THEN 1 ELSE 0 END,
        taken = CASE WHEN {_FILLED} >= 1 THEN 1 ELSE 0 END, at = excluded.at
    RETURNING taken, tokens
"""  # noqa: S608 - our own words


class SharedBuckets:
    """Token buckets in PostgreSQL: one for each key, for all hosts together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._states: dict[str, RateState] = {}

    async def take(self, principal: LimitedKey) -> float:
        """Take a token and return 0.0, or return the seconds until one is available. Raises `StoreUnavailable`."""
        rate = principal.rate_per_second
        if rate is None:
            return 0.0
        burst = burst_size(rate, principal.burst, 1.0)
        arguments = (principal.name, burst, *(burst, rate) * 3)
        ((taken, tokens),) = await self._database.run_statement(_TAKE_TOKEN, arguments)
        self._states[principal.name] = RateState(burst, int(tokens), (burst - tokens) / rate, burst / rate)
        return 0.0 if taken else (1.0 - tokens) / rate

    def state(self, principal: LimitedKey) -> RateState | None:
        """The state after the last call that this host has counted; None before that, and without a limit."""
        return None if principal.rate_per_second is None else self._states.get(principal.name)


_MEAN_WEIGHT = 0.1
"""Weight of the latest call in the moving mean."""
_MAX_SKILLS = 1_000


class ServiceTimes:
    """Moving means of the seconds that calls take, overall and per skill."""

    def __init__(self) -> None:
        self._all: float | None = None
        self._of: dict[str, float] = {}

    def record(self, skill: str, seconds: float) -> None:
        self._all = _update_mean(self._all, seconds)
        if skill in self._of or len(self._of) < _MAX_SKILLS:
            self._of[skill] = _update_mean(self._of.get(skill), seconds)

    def mean(self, skill: str | None = None) -> float:
        """The mean of one skill, or of all; 0.0 as long as nothing is known."""
        found = self._all if skill is None else self._of.get(skill, self._all)
        return found or 0.0


def _update_mean(mean: float | None, seconds: float) -> float:
    return seconds if mean is None else mean + _MEAN_WEIGHT * (seconds - mean)


def estimate_wait(ahead: int, slots: int, mean: float) -> float:
    """Estimated seconds until a call starts that has `ahead` calls before it, with `slots` running at a time."""
    return (ahead + 1) * mean / max(slots, 1)


class AdmissionSlot:
    """A slot for one call, an async context manager around it.

    While the call is queued, the future `turn` is done when it may start or is rejected.
    """

    __slots__ = (
        *("_admission", "_entered", "_principal", "deadline", "key", "key_limit", "since", "skill", "skill_limit"),
        *("timer", "turn"),
    )
    turn: "asyncio.Future[None]"

    def __init__(
        self, admission: "Admission", principal: LimitedKey, registration: Registration, deadline: float
    ) -> None:
        self._admission = admission
        self._entered = 0.0
        self._principal = principal
        self.key = principal.name
        self.skill = registration.id
        self.key_limit = admission.share_limit(principal.concurrency)
        self.skill_limit = admission.share_limit(registration.limits.concurrency)
        self.deadline = deadline
        self.since = 0.0
        self.timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "AdmissionSlot":
        if self._principal.rate_per_second is not None:
            await self._admission.take_call_token(self._principal)
        if self._admission.enter(self):
            try:
                await self.turn
            except asyncio.CancelledError:
                self._admission.abandon(self)
                raise
        self._entered = asyncio.get_running_loop().time()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        held = asyncio.get_running_loop().time() - self._entered
        # Cancelled calls are not representative.
        measured = None if kind is not None and issubclass(kind, asyncio.CancelledError) else held
        self._admission.leave(self, measured)


class AdmissionQueue:
    """The queued calls of all keys; keys are served round-robin."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[AdmissionSlot]] = OrderedDict()
        self._skills: dict[str, int] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[AdmissionSlot]:
        return (waiter for line in self._lines.values() for waiter in line)

    def count_key(self, key: str) -> int:
        return len(self._lines.get(key, ()))

    def count_skill(self, skill: str) -> int:
        return self._skills.get(skill, 0)

    def count_ahead(self, key: str) -> int:
        """Queued calls that would be served before another call of this key."""
        mine = self.count_key(key)
        return mine + sum(min(len(line), mine + 1) for other, line in self._lines.items() if other != key)

    def add(self, waiter: AdmissionSlot) -> None:
        """Append a call to those of its key."""
        self._lines.setdefault(waiter.key, deque()).append(waiter)
        self._skills[waiter.skill] = self._skills.get(waiter.skill, 0) + 1
        self._length += 1

    def remove(self, waiter: AdmissionSlot) -> bool:
        """Remove a call; returns whether it was queued."""
        line = self._lines.get(waiter.key)
        if line is None or waiter not in line:
            return False
        line.remove(waiter)
        if not line:
            del self._lines[waiter.key]
        self._skills[waiter.skill] -= 1
        if not self._skills[waiter.skill]:
            del self._skills[waiter.skill]
        self._length -= 1
        return True

    def pop_next(self, may_go: Callable[[AdmissionSlot], bool]) -> AdmissionSlot | None:
        """Remove and return the next call that `may_go`, or None."""
        for key, line in self._lines.items():
            for waiter in line:
                if may_go(waiter):
                    self._lines.move_to_end(key)
                    self.remove(waiter)
                    return waiter
        return None

    def find_displaceable(self, unless: str) -> AdmissionSlot | None:
        """The newest call of the key with the longest queue, if that is at least two calls longer than `unless` has."""
        longest = max(self._lines.values(), key=len, default=None)
        if longest is None or len(longest) <= self.count_key(unless) + 1:
            return None
        return longest[-1]


_MIN_RETRY_AFTER = 0.1
"""Seconds; the smallest `Retry-After`."""


class AdmissionObserver(Protocol):
    """Is told of admission events, for metrics."""

    def on_queue_change(self, length: int) -> None:
        """The queue has this length now."""

    def on_admit(self, waited: float) -> None:
        """A call starts after `waited` seconds."""

    def on_reject(self, reason: str) -> None:
        """A call was rejected: `rate`, `queue_full`, `too_late`, `deadline` or `displaced`."""


class Admission:
    """Admission control of one worker. Belongs to one event loop.

    `capacity` calls run at a time, and up to `queue` more wait. Each of N workers gets `share=1/N` of every limit,
    including those of keys and skills, but at least one slot: together they keep the limits if calls are spread evenly.
    With `shared`, the rate limits of keys are those of all hosts together; the others stay those of this one.
    """

    def __init__(
        self,
        *,
        capacity: int,
        queue: int,
        share: float = 1.0,
        observer: AdmissionObserver | None = None,
        clock: Callable[[], float] | None = None,
        shared: SharedBuckets | None = None,
    ) -> None:
        self._shared = shared
        self._share = share
        self._capacity = self._worker_share(capacity)
        self._queue = math.ceil(queue * share)
        self._observer = observer
        self._clock = clock
        self.active_count = 0
        self._of_key: dict[str, int] = {}
        self._of_skill: dict[str, int] = {}
        self._buckets: dict[str, TokenBucket] = {}
        self._line = AdmissionQueue()
        self._times = ServiceTimes()

    @property
    def capacity(self) -> int:
        """How many calls this worker runs at a time."""
        return self._capacity

    @property
    def queue_length(self) -> int:
        """The number of queued calls."""
        return len(self._line)

    def count_calls(self, key: str) -> tuple[int, int]:
        """How many calls of a key run in this worker, and how many wait."""
        return self._of_key.get(key, 0), self._line.count_key(key)

    def admit(self, principal: LimitedKey, registration: Registration, deadline: float) -> AdmissionSlot:
        """An async context manager around a call. `deadline` is a time of the loop.

        Raises `TooManyRequests` with `limit` (which one it was) and `retry_after` (seconds) in its details.
        """
        return AdmissionSlot(self, principal, registration, deadline)

    def rate_state(self, principal: LimitedKey) -> RateState | None:
        """The state of a key's rate limit; None without one."""
        if self._shared is not None:
            return self._shared.state(principal)
        bucket = self._bucket(principal)
        return None if bucket is None else bucket.state(self._now())

    async def take_call_token(self, principal: LimitedKey) -> None:
        """Count a call as `take_token` does, together with other hosts. Raises `StoreUnavailable`, too."""
        if self._shared is None:
            self.take_token(principal)
        elif principal.rate_per_second is not None:
            self._check_wait(principal, await self._shared.take(principal))

    def take_token(self, principal: LimitedKey) -> None:
        """Count a call against the rate limit of its key. Raises `TooManyRequests`."""
        bucket = self._bucket(principal)
        self._check_wait(principal, 0.0 if bucket is None else bucket.take(self._now()))

    def _check_wait(self, principal: LimitedKey, wait: float) -> None:
        if wait:
            message = f"rate limit of the key {principal.name!r} exceeded: {principal.rate_per_second:g} calls a second"
            raise self._build_refusal("rate", message, wait)

    def enter(self, slot: AdmissionSlot) -> bool:
        """Take a slot and return False, or join the queue. Raises `TooManyRequests`."""
        if self._has_capacity(slot):
            self._grant(slot, 0.0)
            return False
        slot.since = self._now()
        slot.turn = asyncio.get_running_loop().create_future()
        self._check_deadline(slot)
        self._make_room(slot)
        self._line.add(slot)
        self._set_timer(slot)
        self._notify_queue_length()
        return True

    def leave(self, slot: AdmissionSlot, seconds: float | None) -> None:
        """Release a slot after `seconds` of work (None if not measured), and start queued calls."""
        if seconds is not None:
            self._times.record(slot.skill, seconds)
        self.active_count -= 1
        _decrement(self._of_key, slot.key)
        _decrement(self._of_skill, slot.skill)
        self._start_waiters()

    def abandon(self, waiter: AdmissionSlot) -> None:
        """Remove a cancelled call from the queue, or release the slot that it has just got."""
        if waiter.timer is not None:
            waiter.timer.cancel()
        if self._line.remove(waiter):
            self._notify_queue_length()
        elif waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
            self.leave(waiter, None)

    def share_limit(self, limit: int | None) -> int | None:
        """The part of this worker of a limit."""
        return None if limit is None else self._worker_share(limit)

    def _now(self) -> float:
        return (self._clock or asyncio.get_running_loop().time)()

    def _worker_share(self, limit: int) -> int:
        return max(math.ceil(limit * self._share), 1)

    def _bucket(self, principal: LimitedKey) -> TokenBucket | None:
        if principal.rate_per_second is None:
            return None
        rate = principal.rate_per_second * self._share
        burst = burst_size(principal.rate_per_second, principal.burst, self._share)
        found = self._buckets.get(principal.name)
        # The limits of a key may have changed since its last call.
        if found is None or (found.rate, found.burst) != (rate, burst):
            found = self._buckets[principal.name] = TokenBucket(rate, burst, self._now())
        return found

    def _has_capacity(self, slot: AdmissionSlot) -> bool:
        return (
            self.active_count < self._capacity
            and (slot.key_limit is None or self._of_key.get(slot.key, 0) < slot.key_limit)
            and (slot.skill_limit is None or self._of_skill.get(slot.skill, 0) < slot.skill_limit)
        )

    def _can_start(self, one: AdmissionSlot) -> bool:
        # A cancelled call removes itself a moment later.
        return not one.turn.done() and self._has_capacity(one)

    def _grant(self, slot: AdmissionSlot, waited: float) -> None:
        self.active_count += 1
        self._of_key[slot.key] = self._of_key.get(slot.key, 0) + 1
        self._of_skill[slot.skill] = self._of_skill.get(slot.skill, 0) + 1
        if self._observer is not None:
            self._observer.on_admit(waited)

    def _start_waiters(self) -> None:
        if not self._line:
            return
        while self.active_count < self._capacity and (waiter := self._line.pop_next(self._can_start)) is not None:
            if waiter.timer is not None:
                waiter.timer.cancel()
            if self._latest_start(waiter) < self._now():
                waiter.turn.set_exception(self._deadline_error(waiter))
                continue
            self._grant(waiter, self._now() - waiter.since)
            waiter.turn.set_result(None)
        self._notify_queue_length()

    def _estimate(self, waiter: AdmissionSlot) -> float:
        """Estimated seconds until another call like this could start."""
        line, times = self._line, self._times
        waits = [estimate_wait(line.count_ahead(waiter.key), self._capacity, times.mean())]
        if waiter.key_limit is not None:
            waits.append(estimate_wait(line.count_key(waiter.key), waiter.key_limit, times.mean()))
        if waiter.skill_limit is not None:
            waits.append(estimate_wait(line.count_skill(waiter.skill), waiter.skill_limit, times.mean(waiter.skill)))
        return max(waits)

    def _check_deadline(self, waiter: AdmissionSlot) -> None:
        wait = self._estimate(waiter)
        if waiter.since + wait + self._times.mean(waiter.skill) > waiter.deadline:
            message = f"{self.queue_length} calls are queued; this one would not be served before its deadline"
            raise self._build_refusal("too_late", message, wait)

    def _make_room(self, waiter: AdmissionSlot) -> None:
        if self.queue_length < self._queue:
            return
        displaced = self._line.find_displaceable(unless=waiter.key)
        if displaced is None:
            message = f"the host is busy and its queue of {self.queue_length} calls is full"
            raise self._build_refusal("queue_full", message, self._estimate(waiter))
        message = f"the key {displaced.key!r} has too many queued calls; this one was displaced by another key"
        self._reject(displaced, self._build_refusal("displaced", message, self._estimate(displaced)))

    def _latest_start(self, waiter: AdmissionSlot) -> float:
        """When a queued call has to start to finish before its deadline, if it takes as long as others did."""
        return waiter.deadline - self._times.mean(waiter.skill)

    def _set_timer(self, waiter: AdmissionSlot) -> None:
        waiter.timer = asyncio.get_running_loop().call_at(self._latest_start(waiter), self._expire, waiter)

    def _expire(self, waiter: AdmissionSlot) -> None:
        if self._latest_start(waiter) > self._now():
            # Calls have become faster meanwhile.
            self._set_timer(waiter)
        else:
            self._reject(waiter, self._deadline_error(waiter))

    def _deadline_error(self, waiter: AdmissionSlot) -> TooManyRequests:
        now, usual = self._now(), self._times.mean(waiter.skill)
        message = (
            f"the call was not started: it was queued for {now - waiter.since:.3g} s, and the "
            f"{max(waiter.deadline - now, 0):.3g} s left until its timeout are less than the {usual:.3g} s it needs"
        )
        return self._build_refusal("deadline", message, self._estimate(waiter))

    def _reject(self, waiter: AdmissionSlot, error: TooManyRequests) -> None:
        if waiter.timer is not None:
            waiter.timer.cancel()
        if self._line.remove(waiter) and not waiter.turn.done():
            waiter.turn.set_exception(error)
            self._notify_queue_length()

    def _build_refusal(self, reason: str, message: str, wait: float) -> TooManyRequests:
        if self._observer is not None:
            self._observer.on_reject(reason)
        seconds = round(max(wait, _MIN_RETRY_AFTER), 3)
        return TooManyRequests(f"{message}; try again in {seconds:g} s", limit=reason, retry_after=seconds)

    def _notify_queue_length(self) -> None:
        if self._observer is not None:
            self._observer.on_queue_change(self.queue_length)


def _decrement(counts: dict[str, int], name: str) -> None:
    if counts[name] == 1:
        del counts[name]
    else:
        counts[name] -= 1
