"""What the host counts, for Prometheus. Labels are bounded: nobody outside can make new series.

With several workers each writes its numbers to a file of a directory once a second, and who is asked adds up all files.
Counts of a worker that has died stay; what it had under way does not.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openskills.host.books.counters import Counters
from openskills.host.books.exposition import CONTENT_TYPE as CONTENT_TYPE
from openskills.host.books.exposition import exposition
from openskills.host.books.shared_numbers import SharedNumbers
from openskills.host.result import InvokeResult

UNKNOWN = "unknown"
_MOST_SKILLS = 1_000
_CODES = range(100, 600)


class Metrics:
    """The numbers of one worker. `directory` is where all workers of a host put theirs; `None`: there is only one.

    `history_lost` says how many rows the history has lost.
    """

    def __init__(self, directory: Path | None = None, *, history_lost: Callable[[], int] = lambda: 0) -> None:
        self._counters = Counters()
        self._skills: set[str] = set()
        self._in_flight: dict[str, int] = {}
        self._waiting = 0
        self._history_lost = history_lost
        self._shared = None if directory is None else SharedNumbers(directory, self._plain)

    def began(self, skill: str) -> None:
        """An invocation of a skill that is registered has begun; `ended` must follow."""
        self._in_flight[skill] = self._in_flight.get(skill, 0) + 1

    def ended(
        self, result: InvokeResult, runner_type: str, *, skill: str = "", bytes_in: int = 0, bytes_out: int = 0
    ) -> None:
        """An invocation has ended. `runner_type` is empty where no skill was found: all those are counted as one.

        `skill` is the id of the registration, where the result has what was asked for.
        """
        runner = runner_type or "none"
        if runner_type:
            self._less(skill or result.skill_id)
            skill = self._label(skill or result.skill_id)
        else:
            skill = UNKNOWN
        code = str(result.status) if result.status in _CODES else "other"
        self._counters.add("openskills_invocations", (skill, runner, code))
        self._counters.observe("openskills_invocation_seconds", (skill, runner), result.latency_ms / 1000.0)
        if bytes_in:
            self._counters.add("openskills_bytes", (skill, "in"), bytes_in)
        if bytes_out:
            self._counters.add("openskills_bytes", (skill, "out"), bytes_out)

    def queued(self, length: int) -> None:
        """So many calls wait now."""
        self._waiting = length

    def admitted(self, waited: float) -> None:
        """A call has got its place after so many seconds."""
        self._counters.observe("openskills_queue_wait_seconds", (), waited)

    def shed(self, reason: str) -> None:
        """A call was sent away."""
        self._counters.add("openskills_shed", (reason,))

    def render(self) -> bytes:
        """The text for Prometheus (`CONTENT_TYPE`), of all workers."""
        parts = [self._plain()] if self._shared is None else self._shared.parts()
        return exposition(parts)

    def close(self) -> None:
        """Write the numbers a last time. What was under way is over."""
        self._in_flight.clear()
        self._waiting = 0
        if self._shared is not None:
            self._shared.close()

    def _label(self, skill: str) -> str:
        if skill in self._skills:
            return skill
        # Skills come and go when manifests are edited; a host that runs for months must not keep a series for each.
        if len(self._skills) >= _MOST_SKILLS:
            return "other"
        self._skills.add(skill)
        return skill

    def _less(self, skill: str) -> None:
        left = self._in_flight.get(skill, 0) - 1
        if left > 0:
            self._in_flight[skill] = left
        else:
            self._in_flight.pop(skill, None)

    def _plain(self) -> dict[str, Any]:
        lost = self._history_lost()
        plain = self._counters.plain()
        plain["counts"]["openskills_history_lost"] = [[lost]]
        return {**plain, "in_flight": dict(self._in_flight), "waiting": self._waiting, "at": time.time()}
