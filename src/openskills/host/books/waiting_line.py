"""Who waits for a place: first in, first out for each key, and the keys take turns. Decides; waits for nothing."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Waiter:
    """One call that waits: `turn` is done when it may go, or is sent away."""

    key: str
    skill: str
    key_limit: int | None
    skill_limit: int | None
    deadline: float
    since: float
    turn: "asyncio.Future[None]"
    timer: asyncio.TimerHandle | None = None


class WaitingLine:
    """The waiting calls of every key. The key that is served goes behind the others."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[Waiter]] = OrderedDict()
        self._skills: dict[str, int] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Waiter]:
        return (waiter for line in self._lines.values() for waiter in line)

    def of_key(self, key: str) -> int:
        """How many calls of a key wait."""
        return len(self._lines.get(key, ()))

    def of_skill(self, skill: str) -> int:
        """How many calls of a skill wait."""
        return self._skills.get(skill, 0)

    def ahead(self, key: str) -> int:
        """How many of those that wait now would go before one more call of this key."""
        mine = self.of_key(key)
        return mine + sum(min(len(line), mine + 1) for other, line in self._lines.items() if other != key)

    def add(self, waiter: Waiter) -> None:
        """Put a call behind those of its key."""
        self._lines.setdefault(waiter.key, deque()).append(waiter)
        self._skills[waiter.skill] = self._skills.get(waiter.skill, 0) + 1
        self._length += 1

    def remove(self, waiter: Waiter) -> bool:
        """Take a call out; whether it was there."""
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

    def next(self, may_go: Callable[[Waiter], bool]) -> Waiter | None:
        """Take out the call whose turn it is: the first that may go, of the first key that has one."""
        for key, line in self._lines.items():
            for waiter in line:
                if may_go(waiter):
                    self._lines.move_to_end(key)
                    self.remove(waiter)
                    return waiter
        return None

    def last_of_longest(self, unless: str) -> Waiter | None:
        """Who came last of the key with most waiting calls, if those are more than one more than of `unless`.

        When there is no place left, a key that has many gives one to a key that has few.
        """
        longest = max(self._lines.values(), key=len, default=None)
        if longest is None or len(longest) <= self.of_key(unless) + 1:
            return None
        return longest[-1]
