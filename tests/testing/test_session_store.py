"""The shipped checks let good stores pass, and say of a bad one which promise it broke."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from openskills.errors import InvalidArgument, SessionConflict
from openskills.session.events import Event, from_json, new_event, to_json
from openskills.session.memory import MemorySessionStore
from openskills.session.store import Appended, AppendEventHook, Session, SessionInfo, SessionKey
from openskills.sync import run
from openskills.testing import check_session_store


class Generous(MemorySessionStore):
    """Gives a conversation to whoever asks."""

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        return await super().get(key, after=after) or Session(key, {}, (), 0)


class Latin(MemorySessionStore):
    """Keeps only what a table of Western letters has."""

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        text = to_json(event).replace("\\u56fe", "?")
        return await super().append(key, from_json(text), expected=expected)


class FromZero(MemorySessionStore):
    """Counts as programmers do."""

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        done = await super().append(key, event, expected=expected)
        return replace(done, event=replace(done.event, seq=done.event.seq - 1))


class ByTime(MemorySessionStore):
    """Believes the clocks of its callers."""

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        session = await super().get(key, after=after)
        return session and replace(session, events=tuple(sorted(session.events, key=lambda event: event.at)))


class Everything(MemorySessionStore):
    """Does not know what `after` is for."""

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        return await super().get(key, after=after * 0)


class Tombs(MemorySessionStore):
    """Keeps keys that are gone, with an empty value."""

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        done = await super().append(key, event, expected=expected)
        tombs = dict.fromkeys((name for name, value in event.delta.items() if value is None), "")
        self._logs[key].state |= tombs
        return replace(done, state={**done.state, **tombs})


class Racing(MemorySessionStore):
    """Reads, waits for something, and writes: what was appended meanwhile is lost."""

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        logs = {name: replace(log, events=[*log.events], places={**log.places}) for name, log in self._logs.items()}
        await asyncio.sleep(0)
        self._logs = logs
        return await super().append(key, event, expected=expected)


class Unlocked(MemorySessionStore):
    """Looks at the revision first, and appends a little later."""

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        session = await self.get(key)
        revision = session.revision if session else 0
        if expected is not None and expected != revision and not (session and event.id in _ids(session)):
            raise SessionConflict(key.session, expected, revision)
        await asyncio.sleep(0)
        return await super().append(key, event)


def _ids(session: Session) -> set[str]:
    return {event.id for event in session.events}


class Optimist(MemorySessionStore):
    """Expects nothing."""

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        return await super().append(key, event, expected=None if expected else expected)


class Repeating(MemorySessionStore):
    """Does not know an event again."""

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        session = await self.get(key)
        known = session is not None and event.id in _ids(session)
        if not known:
            return await super().append(key, event, expected=expected)
        return await super().append(key, replace(event, id=f"{event.id}-again"))


class OneUser(MemorySessionStore):
    """Joins the parts of a key with a slash."""

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        return await super().get(_joined(key), after=after)

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        return await super().append(_joined(key), event, expected=expected)


def _joined(key: SessionKey) -> SessionKey:
    return SessionKey("all", "all", f"{key.app}/{key.user}/{key.session}")


class Trimming(MemorySessionStore):
    """Thinks that blanks around an id mean nothing."""

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        return await super().append(replace(key, session=key.session.strip()), event, expected=expected)

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        return await super().get(replace(key, session=key.session.strip()), after=after)


class Undying(MemorySessionStore):
    """Does not delete."""

    async def delete(self, key: SessionKey) -> bool:
        return await self.get(key) is not None


class Alphabetical(MemorySessionStore):
    """Lists by name."""

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        return sorted(await super().list(app, user), key=lambda info: info.key)


class Sharing(MemorySessionStore):
    """Gives away what it keeps."""

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        log = self._logs.get(key)
        return log and Session(key, log.state, tuple(log.events[max(after, 0) :]), len(log.events))


class Hookless(MemorySessionStore):
    """Forgets its hook."""

    def __init__(self, hook: AppendEventHook | None = None) -> None:
        super().__init__()
        self.forgotten = hook


class EarlyHook(Hookless):
    """Asks the hook before it waits for its turn."""

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        session = await self.get(key)
        hooked = self.forgotten(event, session.state if session else {}) if self.forgotten else event
        await asyncio.sleep(0)
        return await super().append(key, hooked, expected=expected)


class Stubborn(MemorySessionStore):
    """Stores an event although its hook refuses it."""

    async def append(self, key: SessionKey, event: Event, *, expected: int | None = None) -> Appended:
        try:
            return await super().append(key, event, expected=expected)
        except InvalidArgument:
            self._hook = None
            return await super().append(key, event, expected=expected)


class Failing(MemorySessionStore):
    """Breaks with an error of its own."""

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        raise ConnectionError(f"no route to {user} of {app}")


@pytest.mark.parametrize(
    ("store", "promise"),
    [
        (Generous, "A conversation that has not begun is None.* that nobody began"),
        (Latin, "An event comes back as it was"),
        (FromZero, "An event comes back as it was.* with seq 1"),
        (ByTime, r"Events are in the order in which they were appended.* read \[4, 3, 2, 1, 0\]"),
        (Everything, "`after` gives the newer ones.* the events after 3 of five are"),
        (Tombs, "A delta sets what it names, removes what it names with None"),
        (Racing, "Appends at the same time are stored one after the other, none is lost"),
        (Optimist, "an event is stored only at that revision.* is at revision 1"),
        (
            Unlocked,
            "an event is stored only at that revision.* of eight appends that expected revision 2, 0 were refused",
        ),
        (Repeating, "An event that is in the log is not stored again.* the second append"),
        (OneUser, "Nobody sees the conversation of another session, user or application"),
        (Trimming, "Any printable text is an id"),
        (Undying, "forgets a conversation and nothing else.* a second delete"),
        (Alphabetical, "every conversation of the user once, the latest first.* listed"),
        (Sharing, "does not change what is stored"),
        (Hookless, "The event that the hook gives is stored.*"),
        (EarlyHook, "it sees the state as it is, also when many append at once.* sees an old state"),
        (Stubborn, "What a hook raises, or an id that it changes.* a refused event is stored"),
    ],
)
def test_a_store_that_breaks_a_promise_is_told_which(store: Callable[..., MemorySessionStore], promise: str) -> None:
    with pytest.raises(AssertionError, match=f"broken promise: (?s:.)*{promise}"):
        run(check_session_store(store))


def test_an_error_of_the_store_itself_says_what_was_being_checked() -> None:
    with pytest.raises(ConnectionError) as raised:
        run(check_session_store(Failing))
    (note,) = raised.value.__notes__
    assert note.startswith("while checking the promise: A conversation that has not begun")


def test_a_good_store_passes_also_when_it_is_not_empty() -> None:
    store = MemorySessionStore()
    run(store.append(SessionKey("check", "somebody", "one"), new_event("a", "message")))
    run(check_session_store(lambda hook: MemorySessionStore(hook) if hook else store))
