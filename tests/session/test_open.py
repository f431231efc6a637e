"""An address chooses a store; what is wrong with it is said without repeating it."""

import subprocess
import sys
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.session.events import new_event
from openskills.session.memory import MemorySessionStore
from openskills.session.open import open_session_store
from openskills.session.postgres import PostgresSessionStore
from openskills.session.redis import RedisSessionStore
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.store import SessionKey
from openskills.settings import Settings
from openskills.sync import run

KEY = SessionKey("app", "erika", "s1")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"HOME": str(tmp_path / "home")})


def used(url: str | None, settings: Settings) -> None:
    store = open_session_store(url, settings)
    assert isinstance(store, SqliteSessionStore)
    run(store.append(KEY, new_event("a", "message")))
    run(store.close())


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory:", MemorySessionStore),
        ("memory://", MemorySessionStore),
        (None, SqliteSessionStore),
        ("sqlite:///x.db", SqliteSessionStore),
        ("postgresql://localhost/x", PostgresSessionStore),
        ("postgres://localhost/x", PostgresSessionStore),
        ("redis://localhost", RedisSessionStore),
        ("rediss://localhost/0", RedisSessionStore),
    ],
)
def test_the_scheme_chooses_and_nothing_is_opened(url: str | None, kind: type, settings: Settings) -> None:
    assert isinstance(open_session_store(url, settings), kind)
    assert not settings.home.exists()


def test_three_slashes_are_relative_and_four_absolute(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    used("sqlite:///here/a%3Fb%25.db", settings)
    used(f"sqlite:///{tmp_path}/there.db", settings)
    used("sqlite:///~/at-home.db", settings)
    used(None, settings)
    places = [tmp_path / "here/a?b%.db", tmp_path / "there.db", settings.home / "at-home.db"]
    assert all(path.is_file() for path in [*places, settings.state_dir / "sessions.db"])


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "unknown URL; use one of memory:, sqlite:///relative"),
        ("memory:geheim", "unknown URL"),
        ("sessions.db", "unknown URL"),
        ("sqlite:sessions.db", "unknown URL"),
        ("mysql://erika:geheim@host/db", "unknown URL"),
        ("postgresql:geheim", "unknown URL"),
        ("sqlite://", "followed by the path of a file"),
        ("sqlite:///", "followed by the path of a file"),
        ("sqlite:///geheim/", "followed by the path of a file"),
        ("sqlite://geheim/x.db", "followed by the path of a file"),
        ("sqlite:///x.db?mode=geheim", "in paths write"),
        ("sqlite:///x.db#geheim", "in paths write"),
        ("sqlite:///a%00b", "followed by the path of a file"),
        ("sqlite:///:memory:", "use memory: instead"),
    ],
)
def test_what_is_not_an_address_is_refused_without_being_repeated(url: str, said: str, settings: Settings) -> None:
    with pytest.raises(InvalidArgument, match=said) as raised:
        open_session_store(url, settings)
    assert raised.value.field == "store"
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    ("module", "url", "extra"), [("asyncpg", "postgresql://h/x", "postgres"), ("redis", "redis://h", "redis")]
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(module: str, url: str, extra: str) -> None:
    program = f"""
import sys
sys.modules[{module!r}] = None
from openskills.errors import MissingExtra
from openskills.session.open import open_session_store
from openskills.settings import Settings
try:
    open_session_store({url!r}, Settings.from_env({{"HOME": "/nonexistent"}}))
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith(f"pip install 'openskill-runtime[{extra}]'\n")
