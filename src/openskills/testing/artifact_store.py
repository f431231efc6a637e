"""What every store of artifacts promises, and a check of it: `run(check_artifact_store(MyStore))`."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC
from itertools import pairwise
from uuid import uuid4

from openskills.artifacts.ref import parse_ref
from openskills.artifacts.store import Artifact, ArtifactStore, Scope, read
from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded
from openskills.testing.contents import ContentFailed, Waiting, failing, stream
from openskills.testing.promises import EVERY_BYTE, PNG, expect, expect_refusal, kept

_BAD_NAMES = ("", ".", "user:", "a\0b", "a\nb", "a\x1b[31mb", "half \ud800", "x" * 2000, "\u202egnp.exe")
_ESCAPING_NAMES = ("/etc/passwd", "..", "../../x", "a/../../b", "user:../x", "user:/etc/passwd")


async def check_artifact_store(make_store: Callable[[], ArtifactStore]) -> None:
    """Raise `AssertionError`, with the promise that was broken, when a store does not do what `ArtifactStore` says.

    `make_store` is called once per promise. The stores need not be empty: only scopes that nobody else has are used.
    Limits of a store, and that it keeps things when a process dies, are for its own tests.
    """
    for promise in _ARTIFACT_PROMISES:
        await kept(promise, promise(make_store(), Scope("check", f"user-{uuid4()}", "one")))


async def _bytes_come_back(store: ArtifactStore, scope: Scope) -> None:
    """Bytes come back unchanged: text, every byte, an image, nothing at all."""
    for data in (b"text\r\n", EVERY_BYTE, PNG, b""):
        artifact = await store.put(scope, "out/data", data)
        back = await read(store, scope, "out/data", artifact.version)
        expect(back == data, f"put {data[:20]!r} ({len(data)} bytes), read {back[:20]!r} ({len(back)} bytes)")


async def _pieces_come_back(store: ArtifactStore, scope: Scope) -> None:
    """What comes in pieces of any size is kept whole, and is given in pieces of at most 1 MiB."""
    data = PNG * 4000
    cuts = (0, 1, 1, 70_000, 70_001, len(data) - 3, len(data))
    await store.put(scope, "large", stream([data[start:end] for start, end in pairwise(cuts)]))
    async with store.open(scope, "large") as reading:
        chunks = [chunk async for chunk in reading.chunks]
    expect(b"".join(chunks) == data, f"put {len(data)} bytes in pieces, read {sum(map(len, chunks))} or other ones")
    expect(max(map(len, chunks)) <= 1024 * 1024, f"a chunk has {max(map(len, chunks))} bytes")


async def _facts(store: ArtifactStore, scope: Scope) -> None:
    """An artifact says its name, version, size, MIME type, SHA-256 and time, the same from every method."""
    made = await store.put(scope, "图/plot@2x.png", PNG, mime_type="image/png")
    facts = (made.name, made.version, made.size, made.mime_type, made.sha256)
    expected = ("图/plot@2x.png", 0, len(PNG), "image/png", hashlib.sha256(PNG).hexdigest())
    expect(facts == expected, f"put gave {facts}, not {expected}")
    expect(made.created_at.utcoffset() == UTC.utcoffset(None), f"the time {made.created_at} is not in UTC")
    async with store.open(scope, made.name) as reading:
        opened = reading.artifact
    listed, versions = await store.list(scope), await store.versions(scope, made.name)
    same = [opened, *listed, *versions]
    expect(same == [made] * 3, f"put gave {made}, the other methods {same}")
    expect(parse_ref(made.ref) == (made.name, 0), f"{made.ref} does not lead back to {made.name!r} version 0")


async def _versions_follow(store: ArtifactStore, scope: Scope) -> None:
    """Versions are 0, 1, 2; without a version the latest is read, and every older one stays as it was."""
    made = [await store.put(scope, "a", b"%d" % number) for number in range(3)]
    expect(_numbers(made) == [0, 1, 2], f"three puts gave the versions {_numbers(made)}")
    expect(list(await store.versions(scope, "a")) == made, "versions() does not give what put gave, oldest first")
    expect(await read(store, scope, "a") == b"2", "without a version it is not the latest that is read")
    old = [await read(store, scope, "a", number) for number in range(3)]
    expect(old == [b"0", b"1", b"2"], f"the versions read {old}")


async def _concurrent_puts(store: ArtifactStore, scope: Scope) -> None:
    """Puts of one name at the same time get consecutive versions, each with its own bytes."""
    contents = [b"content %d" % number for number in range(12)]
    made = await asyncio.gather(*(store.put(scope, "raced", content) for content in contents))
    expect(sorted(_numbers(made)) == list(range(12)), f"twelve puts gave the versions {sorted(_numbers(made))}")
    for artifact, content in zip(made, contents, strict=True):
        back = await read(store, scope, "raced", artifact.version)
        expect(back == content, f"version {artifact.version} is {back!r}; its put was told {content!r}")


async def _scopes_are_apart(store: ArtifactStore, scope: Scope) -> None:
    """Nobody sees the artifacts of another session, user or application, however their ids are spelt."""
    await store.put(scope, "secret", b"x")
    others = (
        Scope(scope.app, scope.user, "two"),
        Scope(scope.app, f"{scope.user}-other", scope.session),
        Scope("check-other", scope.user, scope.session),
        Scope(scope.app, f"{scope.user}/{scope.session}", scope.session),
        Scope(f"{scope.app}/{scope.user}", scope.session, scope.session),
    )
    for other in others:
        expect(not await store.list(other), f"{other} lists what {scope} put")
        expect(not await store.versions(other, "secret"), f"{other} sees versions of what {scope} put")
        await expect_refusal(_opened(store, other, "secret"), f"{other} reads what {scope} put")
        expect(not await store.delete(other, "secret"), f"{other} deletes what {scope} put")
    expect(await read(store, scope, "secret") == b"x", "it is gone after others tried to delete it")


async def _user_names(store: ArtifactStore, scope: Scope) -> None:
    """Names that begin with `user:` belong to all sessions of a user, and to no other user."""
    made = await store.put(scope, "user:profile", b"1")
    second, stranger = Scope(scope.app, scope.user, "two"), Scope(scope.app, f"{scope.user}-other", "one")
    expect(list(await store.list(second)) == [made], "another session of the user does not list it")
    expect((await store.put(second, "user:profile", b"2")).version == 1, "another session does not add a version")
    expect(await read(store, scope, "user:profile") == b"2", "what another session put is not the latest")
    expect(not await store.list(stranger), "another user lists it")
    session_named_user = Scope(scope.app, scope.user, "user")
    await store.put(session_named_user, "profile", b"3")
    expect(await read(store, scope, "user:profile") == b"2", "a session that is called 'user' writes over it")


async def _list_is_sorted(store: ArtifactStore, scope: Scope) -> None:
    """list() has the latest version of every name once, sorted by name; folders and case make other names."""
    names = ("b", "a/b", "a", "A", "user:b", "a/b/c")
    for name in (*names, "b"):
        await store.put(scope, name, name.encode())
    listed = [(artifact.name, artifact.version) for artifact in await store.list(scope)]
    expected = [(name, int(name == "b")) for name in sorted(names)]
    expect(listed == expected, f"listed {listed}, not {expected}")


async def _names_have_one_spelling(store: ArtifactStore, scope: Scope) -> None:
    """`a//b` and `./a/b` are `a/b`."""
    made = [await store.put(scope, name, b"") for name in ("a/b", "a//b", "./a/b")]
    seen = [(artifact.name, artifact.version) for artifact in made]
    expect(seen == [("a/b", 0), ("a/b", 1), ("a/b", 2)], f"put gave {seen}")


async def _delete(store: ArtifactStore, scope: Scope) -> None:
    """delete() forgets every version and nothing else; numbers are not used again."""
    for name in ("gone", "gone", "kept", "user:gone"):
        await store.put(scope, name, name.encode())
    expect(await store.delete(scope, "gone"), "delete() of two versions says that there was nothing")
    expect(not await store.delete(scope, "gone"), "a second delete() says that there was something")
    expect(not await store.delete(scope, "never"), "delete() of nothing says that there was something")
    expect(not await store.versions(scope, "gone"), "there are versions after delete()")
    await expect_refusal(_opened(store, scope, "gone", 0), "version 0 can be read after delete()")
    names = [artifact.name for artifact in await store.list(scope)]
    expect(names == ["kept", "user:gone"], f"after delete() of 'gone' there are {names}")
    again = await store.put(scope, "gone", b"new")
    expect(again.version == 2, f"after two versions were deleted the next one is {again.version}, not 2")
    await expect_refusal(_opened(store, scope, "gone", 0), "a deleted version is back after the next put")


async def _open_survives_delete(store: ArtifactStore, scope: Scope) -> None:
    """What is open can be read to its end when it is deleted meanwhile."""
    data = PNG * 4000
    await store.put(scope, "open", data)
    async with store.open(scope, "open") as reading:
        first = await anext(reading.chunks)
        await store.delete(scope, "open")
        rest = [chunk async for chunk in reading.chunks]
    expect(b"".join([first, *rest]) == data, "the bytes after the delete() are missing or other ones")


async def _missing(store: ArtifactStore, scope: Scope) -> None:
    """What is not there raises InvalidArgument that names it; its versions are an empty sequence."""
    await store.put(scope, "there", b"")
    for name, version in (("missing", None), ("missing", 0), ("there", 1), ("there", -1), ("there/", 5)):
        await expect_refusal(_opened(store, scope, name, version), f"{name!r} version {version} can be opened")
    expect(not await store.versions(scope, "missing"), "there are versions of what was never put")
    expect(not await store.list(Scope(scope.app, scope.user, "two")), "an empty session lists something")


async def _bad_names(store: ArtifactStore, scope: Scope) -> None:
    """Names that are no names, or that climb out, are refused by every method, and leave nothing behind."""
    for name in (*_BAD_NAMES, *_ESCAPING_NAMES):
        kind = ForbiddenPath if name in _ESCAPING_NAMES else InvalidArgument
        for call in _every_call(store, scope, name):
            await expect_refusal(call, f"the name {name[:40]!r} is accepted", kind)
    expect(not await store.list(scope), "something was stored under a name that was refused")


async def _bad_content(store: ArtifactStore, scope: Scope) -> None:
    """What is not bytes, and a MIME type that is none, are refused, and leave nothing behind."""
    wrong: tuple[object, ...] = ("text", None, [b"x"], stream([b"x", "y"]))
    for data in wrong:
        # On purpose what a type checker would not let pass.
        await expect_refusal(store.put(scope, "a", data), f"data of {type(data).__name__} is accepted")  # pyright: ignore[reportArgumentType]
    for mime_type in ("", "png", "image/png\r\nX-Evil: 1", "x" * 300 + "/y"):
        refused = store.put(scope, "a", b"", mime_type=mime_type)
        await expect_refusal(refused, f"the MIME type {mime_type[:40]!r} is accepted")
    expect(not await store.list(scope), "something was stored although it was refused")


async def _failed_content(store: ArtifactStore, scope: Scope) -> None:
    """Content that fails halfway, or whose put is cancelled, leaves nothing behind and takes no number."""
    await expect_refusal(store.put(scope, "a", failing()), "an error of the content is hidden", ContentFailed)
    waiting = Waiting()
    cancelled = asyncio.ensure_future(store.put(scope, "a", waiting))
    await waiting.begun.wait()
    cancelled.cancel()
    await asyncio.wait([cancelled])
    expect(cancelled.cancelled(), "a put that is cancelled while its content arrives is not cancelled")
    expect(not await store.list(scope), "half of something was stored")
    made = await store.put(scope, "a", b"whole")
    expect(made.version == 0, f"after puts that failed the first version is {made.version}")


async def _read_limit(store: ArtifactStore, scope: Scope) -> None:
    """read() takes what is exactly as large as its limit, and refuses more."""
    await store.put(scope, "a", b"12345")
    expect(await read(store, scope, "a", limit=5) == b"12345", "five bytes cannot be read with a limit of five")
    await expect_refusal(read(store, scope, "a", limit=4), "five bytes are read with a limit of four", LimitExceeded)


_Promise = Callable[[ArtifactStore, Scope], Awaitable[None]]
_ARTIFACT_PROMISES: tuple[_Promise, ...] = (
    _bytes_come_back,
    _pieces_come_back,
    _facts,
    _versions_follow,
    _concurrent_puts,
    _scopes_are_apart,
    _user_names,
    _list_is_sorted,
    _names_have_one_spelling,
    _delete,
    _open_survives_delete,
    _missing,
    _bad_names,
    _failed_content,
    _bad_content,
    _read_limit,
)


def _every_call(store: ArtifactStore, scope: Scope, name: str) -> Iterator[Awaitable[object]]:
    yield store.put(scope, name, b"x")
    yield _opened(store, scope, name)
    yield store.versions(scope, name)
    yield store.delete(scope, name)


async def _opened(store: ArtifactStore, scope: Scope, name: str, version: int | None = None) -> None:
    async with store.open(scope, name, version):
        pass


def _numbers(artifacts: Sequence[Artifact]) -> list[int]:
    return [artifact.version for artifact in artifacts]
