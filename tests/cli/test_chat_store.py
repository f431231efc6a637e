"""Where conversations are kept: a file of the state directory, or another address; each is found by its name."""

from pathlib import Path

import pytest

from openskills.artifacts.store import Scope
from openskills.cli.chat_store import artifacts_at, deleted, listed, me, read, store_at
from openskills.errors import InvalidArgument, UnknownSession
from openskills.session.events import MESSAGE, new_event
from openskills.session.store import SessionKey
from openskills.settings import Settings
from openskills.sync import run


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"HOME": str(tmp_path)})


def key(name: str) -> SessionKey:
    return SessionKey("cli", me(), name)


def begin(settings: Settings, *names: str, url: str | None = None) -> None:
    """Begin conversations, one after the other."""

    async def work() -> None:
        async with store_at(url, settings) as store:
            for name in names:
                await store.append(key(name), new_event("user", MESSAGE, {"message": {"content": f"I am {name}"}}))

    run(work())


def test_the_usual_place_is_a_file_of_the_state_directory(settings: Settings) -> None:
    begin(settings, "one")
    assert (settings.state_dir / "sessions.db").is_file()
    assert run(read(None, settings, key("one"))).revision == 1


def test_another_address_is_another_store(settings: Settings, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.db"
    begin(settings, "one", url=url)
    assert run(read(url, settings, key("one"))).revision == 1
    with pytest.raises(UnknownSession):
        run(read(None, settings, key("one")))
    with pytest.raises(InvalidArgument, match="store"):
        run(read("nowhere", settings, key("one")))


def test_a_store_without_connections_can_be_used_as_well(settings: Settings) -> None:
    begin(settings, "one", url="memory:")


def test_the_list_has_the_last_ones_with_their_titles_and_says_how_many_more_there_are(settings: Settings) -> None:
    begin(settings, "one", "two", "three")
    found, more = run(listed(None, settings, "cli", me(), 2))
    assert [(info.key.session, title) for info, title in found] == [("three", "I am three"), ("two", "I am two")]
    assert more == 1
    assert run(listed(None, settings, "cli", "somebody-else", 2)) == ([], 0)


def test_a_name_that_is_not_there_is_answered_with_those_like_it(settings: Settings) -> None:
    begin(settings, "report", "chat-20260131")
    with pytest.raises(UnknownSession, match="did you mean 'report'"):
        run(read(None, settings, key("reprot")))
    with pytest.raises(UnknownSession, match="openskills sessions list"):
        run(read(None, settings, key("zzz")))


def test_deleting_takes_all_or_nothing_and_artifacts_only_when_asked(settings: Settings) -> None:
    begin(settings, "one", "two", "three")
    artifacts = artifacts_at(None, settings)
    for name in ("one", "two"):
        run(artifacts.put(Scope("cli", me(), name), "out/a", b"a"))
    run(artifacts.put(Scope("cli", me(), "one"), "user:b", b"b"))
    with pytest.raises(UnknownSession):
        run(deleted(None, settings, [key("one"), key("nothing")], artifacts=artifacts))
    assert run(read(None, settings, key("one"))).revision == 1
    assert run(deleted(None, settings, [key("one")], artifacts=artifacts)) == 1
    assert run(deleted(None, settings, [key("two")], artifacts=None)) == 0
    assert [info.key.session for info, _ in run(listed(None, settings, "cli", me(), 9))[0]] == ["three"]
    assert [one.name for one in run(artifacts.list(Scope("cli", me(), "one")))] == ["user:b"]
    assert [one.name for one in run(artifacts.list(Scope("cli", me(), "two")))] == ["out/a", "user:b"]
