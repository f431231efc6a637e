"""Copies of a host's databases from SQLite to PostgreSQL, and what `openskills db` says about them."""

import asyncio
import json
import tracemalloc
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from openskills.artifacts.open import open_artifact_store
from openskills.artifacts.store import Scope
from openskills.errors import InvalidArgument, SkillError
from openskills.host.auth import create_key
from openskills.host.database import HOST_DATABASE, Database, parse_postgres_url
from openskills.host.history import History, RunFilter
from openskills.host.keys import open_key_store
from openskills.host.runs import Runs, RunState
from openskills.host.skills import ListPage, SkillStore, UploadAccess, UploadQuota
from openskills.host.transfer import check_database, copy_database, migrate_database
from openskills.postgres import PostgresUrl
from openskills.session.events import Event
from openskills.session.open import open_session_store
from openskills.session.store import SessionKey
from openskills.settings import Settings
from openskills.sql import open_sqlite
from tests.host.hosting import add_key
from tests.host.results import record, refused, succeeded
from tests.host.test_runs import until_ended
from tests.host.test_skills import stage
from tests.servers.postgres import PostgresServer

ADA = UploadAccess("ada", "ada")
KEY = SessionKey("app", "ada", "s-1")
NOW = datetime.now(UTC)
QUOTA = UploadQuota(1 << 22, 100)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"HOME": str(tmp_path)})


@pytest.fixture
def target(postgres_server: PostgresServer) -> PostgresUrl:
    return parse_postgres_url(postgres_server.new_database(), "url")


def silent(what: str, done: float, total: float | None) -> None:
    """Nobody looks at the progress."""


async def fill(settings: Settings, tmp_path: Path) -> Path:
    """A host with something of everything; returns its database."""
    path = settings.state_dir / "host.db"
    history = History(path)
    for number in range(1_203):
        history.record(record(succeeded())._replace(bytes_in=number, input=b"\0\xff"))
    history.record(record(refused())._replace(message="with \0"))
    await history.close()
    database = Database(path)
    runs = Runs(database)

    async def work(_: Any) -> Any:
        return succeeded()

    await until_ended(runs, (await runs.start(work, skill_id="echo", trace_id="t", principal="ada")).id)
    await runs.close()
    await database.close()
    add_key(settings.host_keys, create_key("ada", now=datetime.now(UTC))[1])
    assert settings.host_uploads is not None
    uploads = SkillStore(settings.host_uploads, QUOTA)
    await uploads.open()
    await uploads.create(ADA, stage(tmp_path), "")
    await uploads.close()
    sessions = open_session_store(None, settings)
    await sessions.append(KEY, Event("e1", "user", "message", datetime.now(UTC), {"text": "hello"}))
    await cast("Any", sessions).close()
    return path


async def test_a_host_is_copied_without_loss(settings: Settings, tmp_path: Path, target: PostgresUrl) -> None:
    path = await fill(settings, tmp_path)
    done = await asyncio.to_thread(copy_database, path, target, settings, merge=False, report=silent)
    found = {(one.component, one.table): one for one in done}
    assert found["host", "history"].rows == found["host", "history"].copied == 1_204
    assert found["host", "history"].replaced == 1
    assert found["host", "history_content"].rows == 1_203
    assert found["host", "runs"].rows == found["host", "keys of the key file"].copied == 1
    assert found["uploads", "contents"].copied == found["sessions", "openskills_events"].copied == 1
    assert not any(one.differing for one in done)

    there = replace(settings, host_database=target.url, state_dir=tmp_path / "other")
    keys = open_key_store(there)
    assert [key.name for key in await keys.list()] == ["ada"]
    await keys.close()
    history = History(target, journal=tmp_path / "other.db")
    assert len(await history.list(limit=5_000)) == 1_205
    await history.close()
    database = Database(target)
    runs = Runs(database)
    assert {one.state for one in await runs.list(RunFilter(), limit=1)} == {RunState.SUCCEEDED}
    await runs.close()
    await database.close()
    uploads = SkillStore(tmp_path / "other-uploads", QUOTA, target)
    await uploads.open()
    assert (uploads.get_live("ada") / "greeter" / "SKILL.md").exists()
    assert len((await uploads.list_skills(ADA, ListPage()))[0]) == 1
    await uploads.close()
    sessions = open_session_store(target.url, settings)
    stored = await sessions.get(KEY)
    assert stored is not None
    assert len(stored.events) == 1
    await cast("Any", sessions).close()

    with pytest.raises(InvalidArgument, match=r"has rows already .*1,204 in history"):
        await asyncio.to_thread(copy_database, path, target, settings, merge=False, report=silent)
    again = await asyncio.to_thread(copy_database, path, target, settings, merge=True, report=silent)
    assert sum(one.copied for one in again) == 0
    assert not any(one.differing for one in again)
    assert {one.table: one.digest for one in again} == {one.table: one.digest for one in done}


async def test_artifacts_of_conversations_are_copied_to_the_shared_storage(
    settings: Settings, tmp_path: Path, target: PostgresUrl
) -> None:
    path = await fill(settings, tmp_path)
    scope = Scope(KEY.app, KEY.user, KEY.session)
    here = open_artifact_store(None, settings)
    for content in (b"one", b"two"):
        await here.put(scope, "out/deleted.txt", content)
    await here.delete(scope, "out/deleted.txt")
    for content in (b"three", b"four"):
        await here.put(scope, "out/deleted.txt", content, mime_type="text/plain")
    await here.put(scope, "user:notes.txt", b"\0" * 3_000_000)
    shared = replace(settings, storage=str(tmp_path / "shared"))
    for merge in (False, True):
        done = await asyncio.to_thread(copy_database, path, target, shared, merge=merge, report=silent)
        (found,) = [one for one in done if one.table == "artifacts"]
        assert (found.rows, found.copied, found.differing) == (3, 0 if merge else 3, 0)
    there = open_artifact_store(None, shared)
    for name in ("out/deleted.txt", "user:notes.txt"):
        both = [await store.versions(scope, name) for store in (here, there)]
        first, second = ([replace(one, created_at=NOW) for one in versions] for versions in both)
        assert first == second
    assert [one.version for one in await there.versions(scope, "out/deleted.txt")] == [2, 3]
    await there.put(scope, "out/deleted.txt", b"five")
    await here.put(scope, "out/deleted.txt", b"other")
    done = await asyncio.to_thread(copy_database, path, target, shared, merge=True, report=silent)
    assert [(one.copied, one.differing) for one in done if one.table == "artifacts"] == [(0, 1)]


async def test_a_damaged_upload_is_named(settings: Settings, tmp_path: Path, target: PostgresUrl) -> None:
    path = await fill(settings, tmp_path)
    assert settings.host_uploads is not None
    (blob,) = [one for one in (settings.host_uploads / "blobs").iterdir() if len(one.name) == 64]
    blob.chmod(0o600)
    blob.write_bytes(b"something else")
    with pytest.raises(SkillError, match=f"{blob.name} of an upload is missing or damaged"):
        await asyncio.to_thread(copy_database, path, target, settings, merge=False, report=silent)


def test_large_rows_are_copied_a_few_at_a_time(settings: Settings, tmp_path: Path, target: PostgresUrl) -> None:
    path = tmp_path / "host.db"
    with closing(open_sqlite(path, HOST_DATABASE, timeout=5)) as connection, connection.transaction():
        rows = [(f"a{number}", "", "", 0.0, 200, bytes([number]) * 2**20) for number in range(64)]
        connection.executemany(
            "INSERT INTO answers (id, request, token, expires, status, body) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
        rows.clear()
    tracemalloc.start()
    done = copy_database(path, target, settings, merge=False, report=silent)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(one.rows, one.copied, one.differing) for one in done if one.table == "answers"] == [(64, 64, 0)]
    assert peak < 40 * 2**20


def test_an_empty_database_is_described_then_migrated(settings: Settings, target: PostgresUrl) -> None:
    assert [(one.name, one.version) for one in check_database(target, settings)] == [
        ("host", 0),
        ("uploads", 0),
        ("sessions", 0),
    ]
    states = migrate_database(target, settings)
    assert all(one.version == one.known > 0 and not one.missing for one in states)
    assert states[0].rows["history"] == 0
    assert json.dumps([one.to_dict() for one in states])


def test_a_source_that_is_missing_is_named(settings: Settings, tmp_path: Path, target: PostgresUrl) -> None:
    with pytest.raises(InvalidArgument, match="does not exist"):
        copy_database(tmp_path / "absent.db", target, settings, merge=False, report=silent)
    with pytest.raises(InvalidArgument, match="same database"):
        copy_database(target, target, settings, merge=False, report=silent)
