"""What is true of everything that happens here: a trace id, and on whose behalf it happens."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from openskills.trace import otel
from openskills.trace.values import Plain, Value, plain, whole

T = TypeVar("T")

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Bound:
    """What spans and lines are marked with. `content` says that what was written by others may be in them.

    `secrets` are values by name that are never in them.
    """

    fields: Mapping[str, Plain] = field(default_factory=dict[str, Plain])
    content: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    _known: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def trace_id(self) -> str:
        """The one that was given; else that of the first OpenTelemetry span; else a new one, as 32 hex digits."""
        known = self._known.get("id")
        return known or self.adopt(otel.current_trace_id() or os.urandom(16).hex())

    def adopt(self, trace_id: str) -> str:
        """Have this trace id unless there is one; returns the one that counts."""
        # One step, whatever other threads do.
        return self._known.setdefault("id", trace_id)

    def but(
        self, trace_id: str | None, content: bool | None, masked: Mapping[str, str], fields: Mapping[str, Value]
    ) -> "Bound":
        """The same with more fields. A new trace id is for the new one only; without it both share one."""
        return Bound(
            {**self.fields, **plain(fields)},
            self.content if content is None else content,
            {**self.secrets, **masked} if masked else self.secrets,
            {"id": whole(trace_id)} if trace_id else self._known,
        )


BOUND: ContextVar[Bound | None] = ContextVar("openskills_bound", default=None)


@contextmanager
def bind(
    trace_id: str | None = None,
    *,
    content: bool | None = None,
    masked: Mapping[str, str] = _NONE,
    **fields: Value,
) -> Generator[Bound]:
    """Mark everything that happens in this block, and in the tasks and threads that it starts.

    Without a trace id it is that of the block around it, or a new one. Known fields are `session`, `agent`, `tool` and
    `skill`; any others may be added. `content` allows what models, skills and users wrote in spans and lines; it is
    not allowed until somebody does. `masked` are secrets, values by name: where one would be in content or in a line,
    its name is there instead, in this block and in those inside it.
    """
    token = BOUND.set(bound().but(trace_id, content, masked, fields))
    try:
        yield bound()
    finally:
        restore(BOUND, token)


def bound() -> Bound:
    """What is bound here; nothing, with a trace id of its own, outside of every block."""
    return BOUND.get() or Bound()


def trace_id() -> str:
    """The trace id here; empty outside of every block."""
    here = BOUND.get()
    return here.trace_id if here is not None else otel.current_trace_id()


def restore(variable: ContextVar[T], token: Token[T]) -> None:
    """Undo a `set`, wherever that was done."""
    # A block that another task ends than began it has nothing to undo there.
    with suppress(ValueError):
        variable.reset(token)
