"""Asking again when an attempt came to nothing. What a caller has seen is never said twice."""

import asyncio
import logging
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from openskills.agent.model import ModelEvent
from openskills.errors import InvalidArgument, ModelUnavailable, SkillError
from openskills.trace import count

_LOG = logging.getLogger("openskills")

Attempt: TypeAlias = Callable[[], AsyncGenerator[ModelEvent]]
"""Asks once, from the beginning; raises `AttemptFailed`."""

Wait: TypeAlias = Callable[[float], Awaitable[None]]


class AttemptFailed(Exception):
    """One attempt came to nothing: what to tell the caller, whether another may do better, and after how long.

    `again` is only said of a `ModelUnavailable`. `after` is what the server asked for, in seconds. `said` is the whole
    text of a refusal, for those who can tell from it what to leave out; it is shown to nobody.
    """

    def __init__(self, error: SkillError, *, again: bool = False, after: float | None = None, said: str = "") -> None:
        super().__init__(error.message)
        self.error = error
        self.again = again
        self.after = after
        self.said = said


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is tried, and how many seconds pass in between.

    The pauses double from `pause` to `longest_pause`, and each is shortened by chance, by up to a half: many who failed
    together should not come back together. A server that says when to come back (`Retry-After`) is obeyed up to
    `longest_retry_after`; one that asks for more is not asked again.
    """

    attempts: int = 4
    pause: float = 1.0
    longest_pause: float = 30.0
    longest_retry_after: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidArgument("retries.attempts", "is less than 1")

    def before_next(self, tried: int, chance: float) -> float:
        """The pause after so many attempts; `chance` is a number from 0 to 1."""
        # Beyond this power everything is longer than any longest pause, and large powers overflow.
        full = min(self.longest_pause, self.pause * 2 ** min(tried - 1, 32))
        return full * (1 - chance / 2)


class Retrying:
    """Makes attempts until one succeeds. `wait` and `chance` are there for tests."""

    def __init__(
        self,
        policy: Retries | None = None,
        *,
        wait: Wait = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy or Retries()
        self._wait = wait
        self._chance = chance

    async def stream(self, attempt: Attempt, name: str = "the model") -> AsyncGenerator[ModelEvent]:
        """The events of the first attempt that succeeds.

        Raises the error of an attempt that no other can mend, and `ModelUnavailable` after the last one, when the
        server wants us to stay away for longer than we would, and when an answer broke off that had begun to arrive.
        """
        tried = 0
        while True:
            tried += 1
            begun = False
            try:
                async with aclosing(attempt()) as events:
                    async for event in events:
                        begun = True
                        yield event
            except AttemptFailed as failure:
                pause = self._pause(failure, tried, begun=begun)
                why = failure.error.details.get("status") or "no whole answer"
            else:
                return
            count("openskills.model.retries", model=name)
            # What the provider said stays out: it may repeat what it was asked.
            _LOG.warning("%s: attempt %d came to nothing (%s); again in %.1f seconds", name, tried, why, pause)
            await self._wait(pause)

    def _pause(self, failure: AttemptFailed, tried: int, *, begun: bool) -> float:
        policy = self._policy
        if not failure.again:
            raise failure.error from None
        if begun:
            raise _given_up(failure, tried, "the answer broke off in the middle") from None
        if failure.after is not None and failure.after > policy.longest_retry_after:
            raise _given_up(failure, tried, f"it asks to wait for {failure.after:.0f} seconds") from None
        if tried >= policy.attempts:
            times = "once" if tried == 1 else f"{tried} times"
            raise _given_up(failure, tried, f"tried {times}") from None
        if failure.after is not None:
            return failure.after
        return policy.before_next(tried, self._chance())


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a server asks us to wait; None when it does not say, or says nothing that can be read.

    `headers` are looked up in lower case. A date is compared with the server's own clock when it sends its time, and
    with `now` otherwise.
    """
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None or said is None:
        return seconds
    then, there = _moment(said), _moment(headers.get("date"))
    return None if then is None else max(0.0, then - (now if there is None else there))


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return max(0.0, found) if math.isfinite(found) else None


def _moment(text: str | None) -> float | None:
    try:
        found: datetime = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _given_up(failure: AttemptFailed, tried: int, why: str) -> ModelUnavailable:
    details = {**failure.error.details, "attempts": tried}
    if failure.after is not None:
        details["retry_after"] = failure.after
    return ModelUnavailable(f"{failure.error.message}; {why}", **details)
