"""What is said about artifacts: whose they are, how they are called, what is missing."""

from datetime import UTC, datetime

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import Artifact, Scope, checked_mime_type, chosen, read
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.sync import run

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
    [("", "is empty; every artifact belongs to an app"), ("x" * 513, "has 513 characters"), ("\ud800", "half a char")],
)
def test_an_id_that_cannot_be_one_is_refused_with_its_field(field: str, value: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{field}: .*{why}"):
        Scope(**{"app": "a", "user": "u", "session": "s", field: value})


@pytest.mark.parametrize("mime_type", ["image/png", "text/plain; charset=utf-8", "application/vnd.ms-excel", "a/b+c"])
def test_a_mime_type_is_taken_as_it_is(mime_type: str) -> None:
    assert checked_mime_type(mime_type) == mime_type


@pytest.mark.parametrize("mime_type", ["", "png", "a/b/c", "a /b", "a/b\n", "a/b; x\r\ny", "a/ü", "a/" + "b" * 300])
def test_what_is_no_mime_type_is_refused(mime_type: str) -> None:
    with pytest.raises(InvalidArgument, match=r"mime_type: .* is no MIME type; write one such as image/png"):
        checked_mime_type(mime_type)


def test_the_latest_is_chosen_unless_a_version_is_asked_for() -> None:
    versions = [version(2), version(3)]
    assert chosen("plot.png", None, versions) == version(3)
    assert chosen("plot.png", 2, versions) == version(2)


@pytest.mark.parametrize(
    ("name", "number", "versions", "why"),
    [
        ("plot.png", None, [], "artifact: there is no artifact named 'plot.png' in this session"),
        ("a@latest", None, [], "named 'a@latest' in this session; a version is a number after the last '@'"),
        ("plot.png", 9, [version(0)], "artifact: 'plot.png' has no version 9; it has 0"),
        ("plot.png", 0, [version(2), version(3)], "'plot.png' has no version 0; it has 2 to 3"),
    ],
)
def test_what_is_missing_is_named_with_what_there_is(
    name: str, number: int | None, versions: list[Artifact], why: str
) -> None:
    with pytest.raises(InvalidArgument, match=why):
        chosen(name, number, versions)


def test_a_read_beyond_its_limit_says_by_how_much_and_what_to_do(scope: Scope) -> None:
    store = MemoryArtifactStore()
    run(store.put(scope, "a", b"x" * 1500))
    with pytest.raises(
        LimitExceeded, match=r"a@0 has 1,500 bytes, 500 more than the limit of 1,000; raise the limit or"
    ):
        run(read(store, scope, "a", limit=1000))
    assert len(run(read(store, scope, "a", limit=None))) == 1500
