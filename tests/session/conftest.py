"""What tests of session stores share."""

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Protocol, cast

import pytest

from openskills.session.open import open_session_store
from openskills.session.store import AppendEventHook, SessionStore
from openskills.settings import Settings
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer


class DurableStore(SessionStore, Protocol):
    """A store that keeps something open."""

    async def close(self) -> None:
        """Close it."""
        ...


MakeStore = Callable[[AppendEventHook | None], DurableStore]


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of each durable store, of which nobody else knows."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'deep' / 'sessions.db'}"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return server.new_database()
    redis: RedisServer = request.getfixturevalue("redis_server")
    redis.ask("FLUSHALL")
    return redis.url()


@pytest.fixture
async def make_store(store_url: str, tmp_path: Path) -> AsyncGenerator[MakeStore]:
    """Makes stores at one address, and closes them afterwards."""
    made: list[DurableStore] = []
    settings = Settings.from_env({"HOME": str(tmp_path)})

    def make(hook: AppendEventHook | None = None) -> DurableStore:
        made.append(cast("DurableStore", open_session_store(store_url, settings, hook=hook)))
        return made[-1]

    yield make
    for store in made:
        await store.close()
