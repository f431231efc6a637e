"""The shipped checks let good stores pass, and say of a bad one which promise it broke.

The shipped checks let good stores pass, and say of a bad one which promise it broke.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import BINARY, Artifact, ArtifactReader, ArtifactStore, Content, Scope
from openskills.errors import InvalidArgument, LeaseLost, SessionConflict
from openskills.session.events import Event, event_from_json, event_to_json, new_event
from openskills.session.memory import MemorySessionStore
from openskills.session.store import AppendEventHook, AppendResult, Session, SessionInfo, SessionKey, SessionLease
from openskills.testing.stores import check_artifact_store, check_session_store


class TextOnly(MemoryArtifactStore):
    """Thinks that everything is text, as the systems do in which a PNG arrives empty."""

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        content = data.decode("utf-8", "replace").encode() if isinstance(data, bytes) else data
        return await super().put(scope, name, content, mime_type=mime_type)


class FirstPieceOnly(MemoryArtifactStore):
    """Takes the first piece for the whole."""

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[ArtifactReader]:
        async with super().open(scope, name, version) as reading:
            yield ArtifactReader(reading.artifact, first_of(reading))


async def first_of(reading: ArtifactReader) -> AsyncGenerator[bytes]:
    async for chunk in reading.chunks:
        yield chunk
        return


class FromOne(MemoryArtifactStore):
    """Counts as people do."""

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        made = await super().put(scope, name, data, mime_type=mime_type)
        return replace(made, version=made.version + 1)

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[ArtifactReader]:
        async with super().open(scope, name, version - 1 if version else version) as reading:
            yield reading


class OneSession(MemoryArtifactStore):
    """Forgets that sessions are apart."""

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        return await super().list(Scope(scope.app, scope.user, "one"))


class NobodysUser(MemoryArtifactStore):
    """Gives `user:` names to the session."""

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        own = Scope(scope.app, f"{scope.user}{scope.session}", scope.session) if name.startswith("user:") else scope
        return await super().put(own, name, data, mime_type=mime_type)


class Unsorted(MemoryArtifactStore):
    """Lists in whatever order."""

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        return tuple(reversed(await super().list(scope)))


class Undying(MemoryArtifactStore):
    """Does not delete."""

    async def delete(self, scope: Scope, name: str) -> bool:
        return bool(await self.versions(scope, name))


class Forgetful(MemoryArtifactStore):
    """Begins at 0 again after a delete."""

    async def delete(self, scope: Scope, name: str) -> bool:
        found = await super().delete(scope, name)
        self._names.get(scope.owner(name), {}).pop(name, None)
        return found


class Eager(MemoryArtifactStore):
    """Reserves a number before the content has come."""

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        if not isinstance(data, bytes):
            await super().put(scope, name, b"reserved", mime_type=mime_type)
        return await super().put(scope, name, data, mime_type=mime_type)


class Trusting(MemoryArtifactStore):
    """Takes any MIME type."""

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        return await super().put(scope, name, data, mime_type=mime_type if "/" in mime_type else BINARY)


class Cutting(MemoryArtifactStore):
    """Makes a name out of everything."""

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        return await super().put(scope, name.replace("..", "").strip("/") or "x", data, mime_type=mime_type)


class WrongDigest(MemoryArtifactStore):
    """Digests the name."""

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        made = await super().put(scope, name, data, mime_type=mime_type)
        return replace(made, sha256=hashlib.sha256(name.encode()).hexdigest())


class Failing(MemoryArtifactStore):
    """Breaks with an error of its own."""

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        raise ConnectionError(f"no route to {name} of {scope}")


@pytest.mark.parametrize(
    ("store", "promise"),
    [
        (TextOnly, "Bytes come back unchanged.* read b"),
        (FirstPieceOnly, "What comes in pieces of any size is kept whole.* put 3,?"),
        (FromOne, "An artifact says its name, version.* put gave"),
        (WrongDigest, "An artifact says its name, version, size, MIME type, SHA-256"),
        (OneSession, "Artifacts of other sessions, users and applications are invisible.* lists what"),
        (NobodysUser, "Names that begin with `user:` belong to all sessions of a user.* does not list it"),
        (Unsorted, "has the latest version of every name once, sorted by name.* listed"),
        (Undying, "removes all versions and nothing else.* a second delete"),
        (Forgetful, "version numbers are not reused.* the next one is 0, not 2"),
        (Eager, "Content that fails halfway.* an incomplete artifact was stored"),
        (
            Trusting,
            "invalid MIME types are refused.* 'png' is accepted|invalid MIME types are refused.* '' is accepted",
        ),
        (Cutting, "Invalid names and names with `..` are refused.* is accepted"),
    ],
)
async def test_a_store_that_breaks_a_promise_is_told_which(store: type[ArtifactStore], promise: str) -> None:
    with pytest.raises(AssertionError, match=f"broken promise: .*{promise}"):
        await check_artifact_store(store)


async def test_an_error_of_the_store_itself_says_what_was_being_checked() -> None:
    with pytest.raises(ConnectionError) as raised:
        await check_artifact_store(Failing)
    (note,) = raised.value.__notes__
    assert note.startswith("while checking the promise: An artifact says its name")


async def test_a_good_store_passes_also_when_it_is_not_empty() -> None:
    store = MemoryArtifactStore()
    await store.put(Scope("check", "somebody", "one"), "user:a", b"x")
    await check_artifact_store(lambda: store)


class Generous(MemorySessionStore):
    """Gives a conversation to whoever asks."""

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        return await super().get(key, after=after) or Session(key, {}, (), 0)


class Latin(MemorySessionStore):
    """Keeps only what a table of Western letters has."""

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        text = event_to_json(event).replace("\\u56fe", "?")
        return await super().append(key, event_from_json(text), expected=expected, epoch=epoch)


class FromZero(MemorySessionStore):
    """Counts as programmers do."""

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        done = await super().append(key, event, expected=expected, epoch=epoch)
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

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        done = await super().append(key, event, expected=expected, epoch=epoch)
        tombs = dict.fromkeys((name for name, value in event.delta.items() if value is None), "")
        self._logs[key].state |= tombs
        return replace(done, state={**done.state, **tombs})


class Racing(MemorySessionStore):
    """Reads, waits for something, and writes: what was appended meanwhile is lost."""

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        logs = {
            name: replace(log, events=[*log.events], positions={**log.positions}) for name, log in self._logs.items()
        }
        await asyncio.sleep(0)
        self._logs = logs
        return await super().append(key, event, expected=expected, epoch=epoch)


class Unlocked(MemorySessionStore):
    """Looks at the revision first, and appends a little later."""

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        session = await self.get(key)
        revision = session.revision if session else 0
        if expected is not None and expected != revision and not (session and event.id in _ids(session)):
            raise SessionConflict(key.session, expected, revision)
        await asyncio.sleep(0)
        return await super().append(key, event, epoch=epoch)


def _ids(session: Session) -> set[str]:
    return {event.id for event in session.events}


class Optimist(MemorySessionStore):
    """Expects nothing."""

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        return await super().append(key, event, expected=None if expected else expected, epoch=epoch)


class Repeating(MemorySessionStore):
    """Does not know an event again."""

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        session = await self.get(key)
        known = session is not None and event.id in _ids(session)
        if not known:
            return await super().append(key, event, expected=expected, epoch=epoch)
        return await super().append(key, replace(event, id=f"{event.id}-again"), epoch=epoch)


class OneUser(MemorySessionStore):
    """Joins the parts of a key with a slash."""

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        return await super().get(_joined(key), after=after)

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        return await super().append(_joined(key), event, expected=expected, epoch=epoch)


def _joined(key: SessionKey) -> SessionKey:
    return SessionKey("all", "all", f"{key.app}/{key.user}/{key.session}")


class Trimming(MemorySessionStore):
    """Thinks that blanks around an id mean nothing."""

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        return await super().append(replace(key, session=key.session.strip()), event, expected=expected, epoch=epoch)

    async def get(self, key: SessionKey, *, after: int = 0) -> Session | None:
        return await super().get(replace(key, session=key.session.strip()), after=after)


class SessionStoreUndying(MemorySessionStore):
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

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        session = await self.get(key)
        hooked = self.forgotten(event, session.state if session else {}) if self.forgotten else event
        await asyncio.sleep(0)
        return await super().append(key, hooked, expected=expected, epoch=epoch)


class Stubborn(MemorySessionStore):
    """Stores an event although its hook refuses it."""

    async def append(
        self, key: SessionKey, event: Event, *, expected: int | None = None, epoch: int | None = None
    ) -> AppendResult:
        try:
            return await super().append(key, event, expected=expected, epoch=epoch)
        except InvalidArgument:
            self._hook = None
            return await super().append(key, event, expected=expected, epoch=epoch)


class Doubtful(MemorySessionStore):
    """Gives a lease to everybody."""

    async def acquire_lease(self, key: SessionKey, holder: str, *, ttl: float) -> tuple[SessionLease, Session | None]:
        self._leases.pop(key, None)
        return await super().acquire_lease(key, holder, ttl=ttl)


class Recounting(MemorySessionStore):
    """Counts from the beginning after a deletion."""

    async def delete(self, key: SessionKey) -> bool:
        self._last_epoch = 0
        return await super().delete(key)


class Unfenced(MemorySessionStore):
    """Does not look at epochs."""

    async def append(
        self,
        key: SessionKey,
        event: Event,
        *,
        expected: int | None = None,
        epoch: int | None = None,  # noqa: ARG002
    ) -> AppendResult:
        return await super().append(key, event, expected=expected)


class Strict(MemorySessionStore):
    """Ends a lease as soon as it has expired, although nobody wants it."""

    async def renew_lease(self, lease: SessionLease, *, ttl: float) -> None:
        if self._leases[lease.key].expires < time.monotonic() * 1000:
            raise LeaseLost(lease.key.session, lease.epoch)
        await super().renew_lease(lease, ttl=ttl)


class SessionStoreFailing(MemorySessionStore):
    """Breaks with an error of its own."""

    async def list(self, app: str, user: str) -> Sequence[SessionInfo]:
        raise ConnectionError(f"no route to {user} of {app}")


@pytest.mark.parametrize(
    ("store", "promise"),
    [
        (Generous, "A conversation that has not begun is None.* that was never started"),
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
        (Repeating, "An event in the log is not stored again.* the second append"),
        (OneUser, "Conversations of other sessions, users and applications are invisible, however"),
        (Trimming, "Any printable text is a distinct"),
        (SessionStoreUndying, "removes a conversation and nothing else.* a second delete"),
        (Alphabetical, "every conversation of the user once, the latest first.* listed"),
        (Sharing, "does not change what is stored"),
        (Doubtful, "A lease excludes other holders.* two holders have the lease"),
        (Recounting, "epochs grow, also after a release.* the epochs of four leases are"),
        (Unfenced, "appends and renewals of the old lease are refused.* an event is stored with the epoch"),
        (Strict, "A lease that has expired still counts"),
        (Hookless, "The event that the hook gives is stored.*"),
        (EarlyHook, "it sees the state as it is, also when many append at once.* got an old state"),
        (Stubborn, "What a hook raises, or an id that it changes.* a refused event is stored"),
    ],
)
async def test_a_store_that_breaks_a_promise_is_told_which_in_session_store(
    store: Callable[..., MemorySessionStore], promise: str
) -> None:
    with pytest.raises(AssertionError, match=f"broken promise: (?s:.)*{promise}"):
        await check_session_store(store)


async def test_an_error_of_the_store_itself_says_what_was_being_checked_in_session_store() -> None:
    with pytest.raises(ConnectionError) as raised:
        await check_session_store(SessionStoreFailing)
    (note,) = raised.value.__notes__
    assert note.startswith("while checking the promise: A conversation that has not begun")


async def test_a_good_store_passes_also_when_it_is_not_empty_in_session_store() -> None:
    store = MemorySessionStore()
    await store.append(SessionKey("check", "somebody", "one"), new_event("a", "message"))
    await check_session_store(lambda hook: MemorySessionStore(hook) if hook else store)
