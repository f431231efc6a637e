"""A conversation without its events, and what the next event makes of it. Pure; the same for every store."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from openskills.errors import SessionConflict, SkillError
from openskills.session.events import Event, from_json
from openskills.session.store import Appended, AppendEventHook, Session, SessionInfo, SessionKey, appended


@dataclass(frozen=True, slots=True)
class Head:
    """How far a conversation has come: its revision, the times of its first and its last event, its state."""

    key: SessionKey
    revision: int
    begun: datetime
    updated: datetime
    state: Mapping[str, str]

    @property
    def info(self) -> SessionInfo:
        """The same as an entry of a list."""
        return SessionInfo(self.key, self.revision, self.begun, self.updated)

    def session(self, events: Sequence[Event], *, after: int = 0) -> Session:
        """The conversation with its events behind `after`; raises `SkillError` when some of them are missing."""
        expected = list(range(max(after, 0) + 1, self.revision + 1))
        if [event.seq for event in events] != expected:
            raise SkillError(
                f"the log of session {self.key.session!r} is damaged: of {len(expected)} events {len(events)} are"
                " there, or they are out of order; restore it from a backup, or delete the session"
            )
        return Session(self.key, self.state, tuple(events), self.revision)


def advanced(
    key: SessionKey, head: Head | None, event: Event, *, expected: int | None, hook: AppendEventHook | None
) -> tuple[Appended, Head]:
    """What appending an event to a conversation comes to, and its head afterwards; a head of None: it begins.

    Raises `SessionConflict` when another revision was expected, and what `appended` raises.
    """
    revision = head.revision if head else 0
    if expected is not None and expected != revision:
        raise SessionConflict(key.session, expected, revision)
    done = appended(event, head.state if head else {}, revision, hook)
    begun = head.begun if head else done.event.at
    return done, Head(key, done.revision, begun, done.event.at, done.state)


def repeated(head: Head, stored: str | bytes) -> Appended:
    """The answer for an event that the log has already."""
    return Appended(from_json(stored), head.revision, head.state)


def digest(*parts: str) -> str:
    """Ids as one short word that no other ids have: whatever their length and characters, it fits into any index."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def state_text(state: Mapping[str, str]) -> str:
    """A state as one line of ASCII."""
    return json.dumps(dict(state), separators=(",", ":"))
