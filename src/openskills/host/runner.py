"""How a hosted skill is called. One protocol; `runners.py` has the table from `type:runtime` to who does it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from openskills.host.registration import Registration
from openskills.host.result import Outcome


@dataclass(frozen=True, slots=True)
class Emitted:
    """Something that a skill shows while it works. `kind` is `stdout`, `stderr`, `progress` or `artifact`."""

    kind: str
    data: Mapping[str, Any]


Listener = Callable[[Emitted], None]


@dataclass(frozen=True, slots=True)
class Call:
    """One invocation: the input, already checked against the schema, and until when (the loop's time) it may take.

    With a `listener` the runner tells what the skill shows while it works; without one it need not.
    """

    input: Mapping[str, Any]
    trace_id: str
    deadline: float
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    listener: Listener | None = None
    traceparent: str | None = None


class Runner(Protocol):
    """Calls skills of one kind. It belongs to one event loop."""

    async def prepare(self, registration: Registration) -> None:
        """Make ready for the first call: start an interpreter, look whether the entry is there.

        Raises a `SkillError` that says what is missing; the host then shows the skill as unavailable with it.
        """
        ...

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """Call the skill once, and adapt whatever comes back.

        What the skill did wrong is an outcome with its evidence, also that it did not end before the deadline. Raises
        `SkillError` for what the host could not do. A cancelled call ends what it started before the cancellation is
        passed on.
        """
        ...

    async def forget(self, skill_id: str) -> None:
        """Give back what is kept for this skill: it was removed, or its registration has changed.

        Calls that have begun go on; what serves them is given back behind the last.
        """
        ...

    async def close(self) -> None:
        """End everything."""
        ...
