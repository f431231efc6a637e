"""One invocation: what is asked for, and what is told of it when it is over. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from openskills.host.books.keys import Principal
from openskills.host.registration import Registration
from openskills.host.result import InvokeResult
from openskills.host.runner import Listener


class Asked(NamedTuple):
    """What somebody asks for. `began` is when, by `time.perf_counter`; `body` is the request as it came.

    `parent` is the caller's `traceparent`, `traceparent` the one that goes on to the skill.
    """

    skill_id: str
    input: Mapping[str, Any]
    trace_id: str
    principal: Principal
    began: float
    body: bytes = b""
    listener: Listener | None = None
    traceparent: str | None = None
    parent: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Invocation:
    """An invocation that is over. `registration` is None when there is no skill of that id.

    `at` is when it began, in seconds since 1970. `request` is what came over the wire, `body` what goes.
    """

    at: float
    result: InvokeResult
    body: bytes
    principal: str
    registration: Registration | None = None
    request: bytes = field(default=b"", repr=False)
    run_id: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class Watcher(Protocol):
    """Who keeps books of invocations: log, metrics, history. It never waits and never fails."""

    def began(self, registration: Registration) -> None:
        """A skill is about to be called; `ended` follows."""
        ...

    def ended(self, invocation: Invocation) -> None:
        """An invocation is over; `began` was told of those that have a registration."""
        ...
