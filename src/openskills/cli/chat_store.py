"""Where the conversations of the command line are kept, and whose they are."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import Protocol, runtime_checkable

from openskills.artifacts.choose import artifact_store
from openskills.artifacts.ref import USER_PREFIX
from openskills.artifacts.store import ArtifactStore, Scope
from openskills.cli.chat_story import title
from openskills.errors import UnknownSession
from openskills.session.choose import session_store
from openskills.session.store import Session, SessionInfo, SessionKey, SessionStore
from openskills.settings import Settings


def me() -> str:
    """The user of the command line, the same as for `openskills run`."""
    return f"user-{os.getuid()}"


@asynccontextmanager
async def store_at(url: str | None, settings: Settings) -> AsyncGenerator[SessionStore]:
    """The store at an address, by default a file in the state directory; closed in the end.

    Raises `InvalidArgument` for what is no address, and `MissingExtra`.
    """
    store = session_store(url, settings)
    # Some stores have connections to give back; that is no part of what every store can do.
    close: Callable[[], Awaitable[None]] | None = getattr(store, "close", None)
    try:
        yield store
    finally:
        if close is not None:
            await close()


def artifacts_at(url: str | None, settings: Settings) -> ArtifactStore:
    """The store of artifacts at an address, by default what is kept on this machine.

    Raises `InvalidArgument` for what is no address, and `MissingExtra`.
    """
    return artifact_store(url, settings)


async def listed(
    url: str | None, settings: Settings, app: str, user: str, limit: int
) -> tuple[list[tuple[SessionInfo, str]], int]:
    """The last conversations of a user, each with what was said first, and how many more there are."""
    async with store_at(url, settings) as store:
        infos = await store.list(app, user)
        found: list[tuple[SessionInfo, str]] = []
        for info in infos[:limit]:
            session = await store.get(info.key)
            found.append((info, title(session.events) if session else ""))
        return found, len(infos) - len(found)


async def read(url: str | None, settings: Settings, key: SessionKey) -> Session:
    """A conversation; raises `UnknownSession` with names that are like it."""
    async with store_at(url, settings) as store:
        return await _found(store, key)


async def deleted(
    url: str | None, settings: Settings, keys: Sequence[SessionKey], *, artifacts: ArtifactStore | None = None
) -> int:
    """Delete conversations, all or, when one is not there, none; with `artifacts` also what they kept there.

    Gives how many artifacts went with them.
    """
    async with store_at(url, settings) as store:
        for key in keys:
            await _found(store, key)
        count = 0
        for key in keys:
            count += await _without_artifacts(key, artifacts) if artifacts is not None else 0
            await store.delete(key)
        return count


async def _found(store: SessionStore, key: SessionKey) -> Session:
    session = await store.get(key)
    if session is None:
        others = [info.key.session for info in await store.list(key.app, key.user)]
        raise UnknownSession(key.session, get_close_matches(key.session, others, n=2, cutoff=0.7))
    return session


@runtime_checkable
class _Sweeps(Protocol):
    """A store that can be rid of bytes that no artifact has any more."""

    async def sweep(self) -> object: ...


async def _without_artifacts(key: SessionKey, store: ArtifactStore) -> int:
    scope = Scope(key.app, key.user, key.session)
    names = [one.name for one in await store.list(scope) if not one.name.startswith(USER_PREFIX)]
    for name in names:
        await store.delete(scope, name)
    if names and isinstance(store, _Sweeps):
        await store.sweep()
    return len(names)
