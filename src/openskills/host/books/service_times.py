"""How long calls take, measured: what a waiting time is computed from. Pure."""

_NEW = 0.1
"""How much the last call counts against all before it."""

_MOST_SKILLS = 1_000


class ServiceTimes:
    """A moving mean of the seconds that calls held their place: over all, and of each skill."""

    def __init__(self) -> None:
        self._all: float | None = None
        self._of: dict[str, float] = {}

    def measured(self, skill: str, seconds: float) -> None:
        """One call of this skill has ended."""
        self._all = _moved(self._all, seconds)
        if skill in self._of or len(self._of) < _MOST_SKILLS:
            self._of[skill] = _moved(self._of.get(skill), seconds)

    def mean(self, skill: str | None = None) -> float:
        """What a call takes, of one skill or of any; 0.0 as long as nothing is known."""
        found = self._all if skill is None else self._of.get(skill, self._all)
        return found or 0.0


def _moved(mean: float | None, seconds: float) -> float:
    return seconds if mean is None else mean + _NEW * (seconds - mean)


def waiting_time(ahead: int, places: int, mean: float) -> float:
    """Seconds until a call may go that has `ahead` calls before it, where `places` calls run at a time."""
    return (ahead + 1) * mean / max(places, 1)
