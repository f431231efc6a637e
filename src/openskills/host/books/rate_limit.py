"""How often a key may call: a bucket of tokens that fills at a steady rate. Pure: who asks brings the time."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateState:
    """What a caller may know about its limit: how many calls at once, how many are left, seconds until all are back."""

    limit: int
    remaining: int
    reset: float
    window: float

    def headers(self) -> list[tuple[str, str]]:
        """The header fields of the IETF draft (RateLimit, RateLimit-Policy), and the older ones that clients know."""
        reset = str(math.ceil(self.reset))
        return [
            ("RateLimit-Policy", f'"key";q={self.limit};w={max(math.ceil(self.window), 1)}'),
            ("RateLimit", f'"key";r={self.remaining};t={reset}'),
            ("X-RateLimit-Limit", str(self.limit)),
            ("X-RateLimit-Remaining", str(self.remaining)),
            ("X-RateLimit-Reset", reset),
        ]


class Bucket:
    """`burst` tokens at most, `rate` new ones each second. It begins full."""

    __slots__ = ("_at", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = float(burst)
        self._at = now

    def take(self, now: float) -> float:
        """Take a token: 0.0 when there was one, else the seconds until there is; then nothing was taken."""
        self._fill(now)
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self.rate

    def state(self, now: float) -> RateState:
        """How it stands."""
        self._fill(now)
        missing = (self.burst - self._tokens) / self.rate
        return RateState(self.burst, int(self._tokens), missing, self.burst / self.rate)

    def _fill(self, now: float) -> None:
        # Time that stands still or goes back fills nothing.
        self._tokens = min(self._tokens + max(now - self._at, 0.0) * self.rate, float(self.burst))
        self._at = max(now, self._at)


def burst_of(rate: float, burst: int | None, share: float) -> int:
    """How many calls at once: what was asked for, else those of one second; at least one."""
    wanted = rate if burst is None else burst
    return max(math.ceil(wanted * share), 1)
