"""The shipped checks let good stores pass, and say of a bad one which promise it broke."""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import BINARY, Artifact, ArtifactStore, Content, Reading, Scope
from openskills.sync import run
from openskills.testing import check_artifact_store


class TextOnly(MemoryArtifactStore):
    """Thinks that everything is text, as the systems do in which a PNG arrives empty."""

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        content = data.decode("utf-8", "replace").encode() if isinstance(data, bytes) else data
        return await super().put(scope, name, content, mime_type=mime_type)


class FirstPieceOnly(MemoryArtifactStore):
    """Takes the first piece for the whole."""

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[Reading]:
        async with super().open(scope, name, version) as reading:
            yield Reading(reading.artifact, first_of(reading))


async def first_of(reading: Reading) -> AsyncGenerator[bytes]:
    async for chunk in reading.chunks:
        yield chunk
        return


class FromOne(MemoryArtifactStore):
    """Counts as people do."""

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        made = await super().put(scope, name, data, mime_type=mime_type)
        return replace(made, version=made.version + 1)

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[Reading]:
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
        self._shelves.get(scope.owner(name), {}).pop(name, None)
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
        (OneSession, "Nobody sees the artifacts of another session, user or application.* lists what"),
        (NobodysUser, "Names that begin with `user:` belong to all sessions of a user.* does not list it"),
        (Unsorted, "has the latest version of every name once, sorted by name.* listed"),
        (Undying, "forgets every version and nothing else.* a second delete"),
        (Forgetful, "numbers are not used again.* the next one is 0, not 2"),
        (Eager, "Content that fails halfway.* half of something was stored"),
        (Trusting, "a MIME type that is none.* 'png' is accepted|a MIME type that is none.* '' is accepted"),
        (Cutting, "Names that are no names, or that climb out, are refused.* is accepted"),
    ],
)
def test_a_store_that_breaks_a_promise_is_told_which(store: type[ArtifactStore], promise: str) -> None:
    with pytest.raises(AssertionError, match=f"broken promise: .*{promise}"):
        run(check_artifact_store(store))


def test_an_error_of_the_store_itself_says_what_was_being_checked() -> None:
    with pytest.raises(ConnectionError) as raised:
        run(check_artifact_store(Failing))
    (note,) = raised.value.__notes__
    assert note.startswith("while checking the promise: An artifact says its name")


def test_a_good_store_passes_also_when_it_is_not_empty() -> None:
    store = MemoryArtifactStore()
    run(store.put(Scope("check", "somebody", "one"), "user:a", b"x"))
    run(check_artifact_store(lambda: store))
