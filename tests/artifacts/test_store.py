"""What is said about artifacts: whose they are, how they are called, what is missing.

Content arrives in pieces of a good size, and never more of it than allowed.

References and names from outside are taken apart by a parser; what is hostile is refused with a reason.
"""

from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import (
    PIECE_BYTES,
    Artifact,
    Content,
    Scope,
    check_mime_type,
    check_version,
    normalize_name,
    parse_ref,
    read_artifact,
    select_version,
    split_content,
)
from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SkillError
from openskills.sync import run
from openskills.testing.stores import check_artifact_store

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def version(number: int) -> Artifact:
    return Artifact("plot.png", number, 3, "image/png", "0" * 64, NOW)


def test_the_reference_has_name_and_version() -> None:
    assert version(7).ref == "artifact://plot.png@7"


def test_names_of_the_user_have_the_same_owner_in_every_session(scope: Scope) -> None:
    other = Scope(scope.app, scope.user, "session-2")
    assert scope.owner("user:a") == other.owner("user:a") == ("app", "erika")
    assert scope.owner("a") == ("app", "erika", "session-1") != other.owner("a")


@pytest.mark.parametrize("field", ["app", "user", "session"])
@pytest.mark.parametrize(
    ("value", "why"),
    [("", "must not be empty; every artifact"), ("x" * 513, "has 513 characters"), ("\ud800", "lone surrogate")],
)
def test_an_id_that_cannot_be_one_is_refused_with_its_field(field: str, value: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{field}: .*{why}"):
        Scope(**{"app": "a", "user": "u", "session": "s", field: value})


@pytest.mark.parametrize("mime_type", ["image/png", "text/plain; charset=utf-8", "application/vnd.ms-excel", "a/b+c"])
def test_a_mime_type_is_taken_as_it_is(mime_type: str) -> None:
    assert check_mime_type(mime_type) == mime_type


@pytest.mark.parametrize("mime_type", ["", "png", "a/b/c", "a /b", "a/b\n", "a/b; x\r\ny", "a/ü", "a/" + "b" * 300])
def test_what_is_not_a_mime_type_is_refused(mime_type: str) -> None:
    with pytest.raises(InvalidArgument, match=r"mime_type: invalid MIME type .*; use one such as image/png"):
        check_mime_type(mime_type)


def test_the_latest_is_chosen_unless_a_version_is_asked_for() -> None:
    versions = [version(2), version(3)]
    assert select_version("plot.png", None, versions) == version(3)
    assert select_version("plot.png", 2, versions) == version(2)


@pytest.mark.parametrize(
    ("name", "number", "versions", "why"),
    [
        ("plot.png", None, [], "artifact: unknown artifact 'plot.png' in this session"),
        ("a@latest", None, [], "unknown artifact 'a@latest' in this session; a version is a number after the last '@'"),
        ("plot.png", 9, [version(0)], "artifact: 'plot.png' has no version 9; it has 0"),
        ("plot.png", 0, [version(2), version(3)], "'plot.png' has no version 0; it has 2 to 3"),
    ],
)
def test_what_is_missing_is_named_with_what_there_is(
    name: str, number: int | None, versions: list[Artifact], why: str
) -> None:
    with pytest.raises(InvalidArgument, match=why):
        select_version(name, number, versions)


async def test_a_read_beyond_its_limit_says_by_how_much_and_what_to_do(scope: Scope) -> None:
    store = MemoryArtifactStore()
    await store.put(scope, "a", b"x" * 1500)
    with pytest.raises(
        LimitExceeded, match=r"a@0 has 1,500 bytes, 500 more than the limit of 1,000; raise the limit or"
    ):
        await read_artifact(store, scope, "a", limit=1000)
    assert len(await read_artifact(store, scope, "a", limit=None)) == 1500


class Source:
    """Pieces of content that count how many were asked for."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.chunks = chunks
        self.given = 0

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        for chunk in self.chunks:
            self.given += 1
            yield chunk


async def all_of(data: Content, limit: int = 10**9) -> list[bytes]:
    return [piece async for piece in split_content(data, limit=limit)]


async def test_bytes_are_one_piece() -> None:
    assert await all_of(b"abc") == [b"abc"]


async def test_empty_content_has_no_pieces() -> None:
    assert await all_of(b"") == []
    assert await all_of(Source([b"", b""])) == []


async def test_small_chunks_are_gathered_and_large_ones_are_not_copied() -> None:
    large = b"x" * PIECE_BYTES
    gathered = await all_of(Source([b"a" * 1000] * 2500))
    assert [len(piece) for piece in gathered] == [1_049_000, 1_049_000, 402_000]
    assert (await all_of(Source([large, large])))[1] is large


@given(st.lists(st.binary(max_size=30), max_size=20))
def test_gathering_changes_nothing(chunks: list[bytes]) -> None:
    assert b"".join(run(all_of(Source(chunks)))) == b"".join(chunks)


async def test_content_of_exactly_the_limit_is_taken() -> None:
    assert await all_of(Source([b"12", b"34"]), limit=4) == [b"1234"]


async def test_content_beyond_the_limit_is_not_read_to_its_end() -> None:
    source = Source([b"12"] * 1000)
    with pytest.raises(LimitExceeded, match="the artifact has 6 or more bytes; the maximum is 4 per") as raised:
        await all_of(source, limit=4)
    assert source.given == 3
    assert raised.value.details == {"limit": 4, "size": 6}


async def test_bytes_beyond_the_limit_are_refused_with_their_size() -> None:
    with pytest.raises(LimitExceeded, match="the artifact has 1,000 bytes"):
        await all_of(b"x" * 1000, limit=4)


@pytest.mark.parametrize("data", ["text", None, 3, [b"x"], bytearray(b"x")])
async def test_what_is_not_bytes_is_refused_with_its_type(data: object) -> None:
    with pytest.raises(InvalidArgument, match=f"data: expected bytes or .*, got {type(data).__name__}"):
        await all_of(data)  # pyright: ignore[reportArgumentType]


async def test_a_piece_of_text_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="data: expected bytes in every piece, got str"):
        await all_of(Source([b"x", "y"]))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("artifact://plot.png", "plot.png", None),
        ("artifact://plot.png@0", "plot.png", 0),
        ("artifact://out/a/b.csv@12", "out/a/b.csv", 12),
        ("artifact://user:profile.json@3", "user:profile.json", 3),
        ("artifact://plot@2x.png", "plot@2x.png", None),
        ("artifact://plot@2x.png@1", "plot@2x.png", 1),
        ("artifact://a@1@2", "a@1", 2),
        ("artifact://me@example.org", "me@example.org", None),
        ("artifact://图 表.png@4", "图 表.png", 4),
        ("artifact://Bildschirmfoto um 1.00.00\u202fPM.png", "Bildschirmfoto um 1.00.00\u202fPM.png", None),
        ("artifact://👩\u200d🔬.txt", "👩\u200d🔬.txt", None),
        ("artifact://a//b/./c@1", "a/b/c", 1),
        ("artifact://%2e%2e/x", "%2e%2e/x", None),
        ("artifact://a?b#c@1", "a?b#c", 1),
        ("artifact://C:\\x", "C:\\x", None),
        ("artifact://a@٣", "a@٣", None),
        ("artifact://~/$HOME", "~/$HOME", None),
    ],
)
def test_a_reference_is_a_name_and_perhaps_a_version(text: str, name: str, version: int | None) -> None:
    assert parse_ref(text) == (name, version)


@pytest.mark.parametrize(
    "text",
    [
        "artifact://a@../../b",
        "artifact://../../b",
        "artifact://a/../../b@1",
        "artifact:///etc/passwd",
        "artifact:///etc/passwd@0",
        "artifact://user:../other",
        "artifact://user:/etc/passwd",
        "artifact://..",
    ],
)
def test_a_reference_that_climbs_or_is_absolute_is_forbidden(text: str) -> None:
    with pytest.raises(ForbiddenPath, match="artifact: "):
        parse_ref(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not an artifact; use artifact://name or artifact://name@version"),
        ("plot.png", "is not an artifact"),
        ("artifact:plot.png", "is not an artifact"),
        ("ARTIFACT://plot.png", "is not an artifact"),
        ("workspace://out/plot.png", "is not an artifact"),
        (" artifact://a", "is not an artifact"),
        ("artifact://", "invalid artifact name ''"),
        ("artifact://@3", "invalid artifact name ''"),
        ("artifact://user:", "invalid artifact name 'user:'"),
        ("artifact://user:@1", "invalid artifact name 'user:'"),
        ("artifact://.", "is not a file name"),
        ("artifact://a@", "ends with '@'; add a version or remove the '@'"),
        ("artifact://a@01", "invalid version '01'; use a number such as 0 or 12"),
        ("artifact://a@" + "9" * 19, "invalid version"),
        ("artifact://a@" + "9" * 5000, "invalid version"),
        ("artifact://a\0b", r"invisible character \('\\x00'\)"),
        ("artifact://a\nb@1", r"invisible character \('\\n'\)"),
        ("artifact://a\x1b[2J", "invisible character"),
        ("artifact://\u202egnp.exe", r"invisible character \('\\u202e'\)"),
        ("artifact://a\u2028b", "invisible character"),
        ("artifact://half\ud83d", "lone surrogate"),
        ("artifact://" + "x" * 1025, "the name has 1,025 characters; the maximum is 1,024"),
        ("artifact://" + "x" * 256, "too long"),
    ],
)
def test_what_is_not_a_reference_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as raised:
        parse_ref(text)
    assert raised.value.field == "artifact"


def test_the_error_names_the_field_of_the_caller_and_stays_short() -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse_ref("x" * 1_000_000, field="inputs[0].from")
    assert str(raised.value).startswith("inputs[0].from: ")
    assert len(str(raised.value)) < 300


def test_names_have_one_spelling() -> None:
    spellings = ("a/b", "a//b", "./a/b", "a/./b/", "a/b//")
    assert {normalize_name(name) for name in spellings} == {"a/b"}
    assert normalize_name("user:a//b") == "user:a/b"


def test_a_negative_version_is_refused() -> None:
    assert check_version(None) is None
    assert check_version(0) == 0
    with pytest.raises(InvalidArgument, match="version: invalid version -1; the first one is 0"):
        check_version(-1)


@given(st.text(max_size=40), st.integers(0, 10**17))
def test_a_name_that_is_accepted_is_found_again_in_its_reference(name: str, version: int) -> None:
    try:
        checked = normalize_name(name)
    except SkillError:
        return
    assert normalize_name(checked) == checked
    assert parse_ref(f"artifact://{checked}@{version}") == (checked, version)
    assert not {"", ".", ".."} & set(checked.removeprefix("user:").split("/"))


@given(st.text(alphabet="a@/.:0123456789\0 é", max_size=30))
def test_any_text_is_a_reference_or_a_clear_error(text: str) -> None:
    try:
        name, version = parse_ref(f"artifact://{text}")
    except (InvalidArgument, ForbiddenPath):
        return
    assert normalize_name(name) == name
    assert version is None or version >= 0


async def test_it_keeps_every_promise_of_a_store() -> None:
    await check_artifact_store(MemoryArtifactStore)


async def test_one_store_that_everybody_shares_keeps_them_too() -> None:
    shared = MemoryArtifactStore()
    await check_artifact_store(lambda: shared)


async def test_an_artifact_beyond_the_limit_is_refused_and_leaves_nothing(scope: Scope) -> None:
    store = MemoryArtifactStore(max_bytes=4)
    with pytest.raises(LimitExceeded, match="the maximum is 4 per artifact"):
        await store.put(scope, "a", b"12345")
    assert await store.list(scope) == ()
    assert (await store.put(scope, "a", b"1234")).version == 0


async def test_threads_with_loops_of_their_own_get_consecutive_versions(scope: Scope) -> None:
    store = MemoryArtifactStore()
    contents = [b"%d" % number for number in range(64)]
    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(run, store.put(scope, "a", content)) for content in contents]
        made = [one.result() for one in waiting]
    assert sorted(artifact.version for artifact in made) == list(range(64))
    assert [await read_artifact(store, scope, "a", artifact.version) for artifact in made] == contents
