"""What the databases of a host contain, and copies of them: from the files of one machine to PostgreSQL.

A host has three databases: its own (runs, history, answers, keys), uploads, and sessions. With SQLite these are three
files, a key file and a directory with the contents of uploads; in PostgreSQL they are tables of one database. Artifacts
of conversations are in the storage that machines share (`OPENSKILL_STORAGE`), else in a directory.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.open import DEFAULT_DIRECTORY, open_artifact_store
from openskills.artifacts.store import ArtifactStore, Scope
from openskills.catalog.sources.archive import hash_content
from openskills.errors import InvalidArgument, SkillError
from openskills.host.auth import StoredKey, read_keys
from openskills.host.database import (
    CHANGE_KEYS,
    HOST_DATABASE,
    UPLOAD_DATABASE,
    record_change,
)
from openskills.host.keys import insert_key, select_keys
from openskills.host.skills import insert_blob, select_parts, select_used_digests
from openskills.postgres import (
    LONG_TIMEOUT,
    PostgresConnection,
    PostgresHandle,
    PostgresUrl,
    to_postgres_value,
)
from openskills.session.open import DEFAULT_FILE
from openskills.session.sqlite import SESSION_DATABASE
from openskills.settings import Settings
from openskills.sql import (
    SELECT_SCHEMA_VERSION,
    SqlConnection,
    open_sqlite,
    open_sqlite_readonly,
    select_rows,
)
from openskills.sync import run

HOST, UPLOADS, SESSIONS = "host", "uploads", "sessions"
# Rows with results can have megabytes each.
_BATCH_ROWS, _BATCH_BYTES = 200, 8 * 1024 * 1024
# Who is alive, and what has just changed: of the hosts, not of their data.
_TRANSIENT = frozenset({"openskills_schema", "workers", "host_changes", "history_starts"})
Report = Callable[[str, float, float | None], None]


@dataclass(frozen=True, slots=True)
class HostDataFiles:
    """The files of a host without PostgreSQL; missing ones have no content."""

    host: Path
    uploads: Path | None
    sessions: Path
    keys: Path
    artifacts: Path

    @property
    def upload_rows(self) -> Path | None:
        return self.uploads and self.uploads / "skills.db"

    @classmethod
    def from_settings(cls, settings: Settings, database: Path) -> "HostDataFiles":
        state = settings.state_dir
        return cls(database, settings.host_uploads, state / DEFAULT_FILE, settings.host_keys, state / DEFAULT_DIRECTORY)


@dataclass(frozen=True, slots=True)
class ComponentState:
    """One database: applied and known steps of its tables, and the number of rows by table. `version` 0: none yet."""

    name: str
    place: str
    version: int
    known: int
    rows: dict[str, int]

    @property
    def missing(self) -> int:
        return max(self.known - self.version, 0)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "missing": self.missing}


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table that was copied and compared: rows of the source, how many were new, and those that already existed.

    `differing` rows have the same key and another content in the target, and were left alone. In `replaced` rows a
    character became U+FFFD, because PostgreSQL cannot store it.
    """

    component: str
    table: str
    rows: int
    copied: int
    differing: int
    replaced: int
    digest: str


def check_database(place: Path | PostgresUrl, settings: Settings) -> list[ComponentState]:
    """The state of the databases, without changing anything. Raises `SkillError` if one cannot be read."""
    if isinstance(place, PostgresUrl):
        return [_check_postgres(place, name) for name in _PROFILES]
    files = HostDataFiles.from_settings(settings, place)
    paths = {HOST: files.host, SESSIONS: files.sessions, UPLOADS: files.upload_rows}
    return [_check_file(name, path) for name, path in paths.items() if path is not None]


def migrate_database(place: Path | PostgresUrl, settings: Settings) -> list[ComponentState]:
    """Create or migrate all tables, and return the new state. Raises `SkillError`."""
    if isinstance(place, PostgresUrl):
        for name in _PROFILES:
            with _open_postgres(place, name):
                pass
    else:
        files = HostDataFiles.from_settings(settings, place)
        open_sqlite(files.host, HOST_DATABASE, timeout=30).close()
        if files.upload_rows is not None and files.upload_rows.exists():
            open_sqlite(files.upload_rows, UPLOAD_DATABASE, timeout=30).close()
    return check_database(place, settings)


def copy_database(
    source: Path | PostgresUrl, target: PostgresUrl, settings: Settings, *, merge: bool, report: Report
) -> list[CopiedTable]:
    """Copy everything, table by table, each in one transaction, and compare every row afterwards.

    Rows that exist in the target stay; without `merge` a target with rows is refused. So an interrupted copy is
    continued with `merge`. Raises `InvalidArgument`, and `SkillError` if the target lacks a row.
    """
    if isinstance(source, Path) and not source.exists():
        raise InvalidArgument("FROM", f"{source} does not exist; use sqlite:////PATH of the host's database")
    if source == target:
        raise InvalidArgument("TO", "is the same database as FROM")
    before = [one for one in migrate_database(target, settings) if any(one.rows.values())]
    if before and not merge:
        found = ", ".join(f"{count:,} in {table}" for one in before for table, count in one.rows.items() if count)
        raise InvalidArgument("TO", f"the database has rows already ({found}); use an empty one, or --merge")
    done: list[CopiedTable] = []
    for name in _PROFILES:
        with _open_source(source, settings, name) as reader:
            if reader is not None:
                with _open_postgres(target, name) as writer:
                    done += _copy_component(name, reader, writer, report)
    if isinstance(source, Path):
        files = HostDataFiles.from_settings(settings, source)
        if settings.storage is not None and files.artifacts.exists():
            done.append(run(_copy_artifacts(files, open_artifact_store(None, settings), report)))
        with _open_postgres(target, HOST) as writer:
            done.append(_copy_keys(read_keys(files.keys), writer))
        if files.uploads is not None and (files.uploads / "skills.db").exists():
            with _open_postgres(target, UPLOADS) as writer:
                done.append(_copy_blobs(files.uploads / "blobs", writer, report))
    return done


def _copy_component(
    name: str, reader: SqlConnection, writer: PostgresConnection, report: Report
) -> Generator[CopiedTable]:
    tables = _list_tables(reader, name)
    for number, table in enumerate(tables):
        report(f"copying {name}.{table}", number, len(tables))
        columns = _list_columns(reader, table)
        names = ", ".join(columns)
        insert = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))}) ON CONFLICT DO NOTHING"  # noqa: S608 - names of our tables
        count = replaced = 0
        wanted: dict[bytes, int] = {}
        before = _count_rows(writer, table)
        with writer.transaction():
            for rows in _read_batches(reader, table, names):
                stored = [tuple(map(to_postgres_value, row)) for row in rows]
                writer.executemany(insert, stored)
                count += len(rows)
                replaced += sum(row != other for row, other in zip(stored, rows, strict=True))
                for row in stored:
                    digest = _digest_row(row)
                    wanted[digest] = wanted.get(digest, 0) + 1
        total = _count_rows(writer, table)
        total_digest = hashlib.sha256(b"".join(sorted(wanted))).hexdigest()
        for rows in _read_batches(writer, table, names):
            for row in rows:
                wanted.pop(_digest_row(row), None)
        differing, copied = len(wanted), total - before
        if differing and not before:
            raise SkillError(
                f"{differing:,} rows of {name}.{table} are not in the target; copy them again with --merge"
            )
        yield CopiedTable(name, table, count, copied, differing, replaced, total_digest)


def _copy_keys(keys: tuple[StoredKey, ...], writer: PostgresConnection) -> CopiedTable:
    """Add the keys of a file that the table lacks; others keep theirs."""
    with writer.transaction():
        writer.lock(CHANGE_KEYS)
        known = {key.name: key for key in select_keys(writer)}
        fresh = [key for key in keys if key.name not in known]
        for key in fresh:
            insert_key(writer, key)
        record_change(writer, CHANGE_KEYS)
    stored = {key.name: key for key in select_keys(writer)}
    differing = sum(stored.get(key.name) != key for key in keys)
    digest = hashlib.sha256("".join(sorted(key.digest for key in keys)).encode()).hexdigest()
    return CopiedTable(HOST, "keys of the key file", len(keys), len(fresh), differing, 0, digest)


def _copy_blobs(directory: Path, writer: PostgresConnection, report: Report) -> CopiedTable:
    """Add the contents of uploads, each in one transaction. Raises `SkillError` for one that is missing or damaged."""
    used = select_used_digests(writer)
    copied = 0
    for number, digest in enumerate(used):
        report("copying contents of uploads", number, len(used))
        path = directory / digest
        if path.exists() and hash_content(path)[0] == digest:
            with writer.transaction():
                copied += insert_blob(writer, path, digest)
        found = hashlib.sha256()
        for part in select_parts(writer, digest):
            found.update(part)
        if found.hexdigest() != digest:
            raise SkillError(
                f"the content {path} of an upload is missing or damaged; delete that upload, then copy with --merge"
            )
    total = hashlib.sha256("".join(sorted(used)).encode()).hexdigest()
    return CopiedTable(UPLOADS, "contents", len(used), copied, 0, 0, total)


async def _copy_artifacts(files: HostDataFiles, target: ArtifactStore, report: Report) -> CopiedTable:
    """Add the artifacts of stored conversations that the target lacks, with the same numbers of versions."""
    source = FileArtifactStore(files.artifacts)
    scopes: list[Scope] = []
    if files.sessions.exists():
        with closing(open_sqlite_readonly(files.sessions, HOST_DATABASE)) as connection:
            rows = select_rows(connection, "SELECT app, username, name FROM openskills_sessions ORDER BY id")
            scopes = [Scope(*row) for row in rows]
    known: dict[tuple[str, ...], bool] = {}
    copied = 0
    for number, scope in enumerate(scopes):
        report("copying artifacts", number, len(scopes))
        for name in [one.name for one in await source.list(scope)]:
            stored = {one.version: one.sha256 for one in await target.versions(scope, name)}
            for artifact in await source.versions(scope, name):
                if not stored and artifact.version:
                    # Earlier versions were deleted, and references have numbers.
                    for _ in range(artifact.version):
                        await target.put(scope, name, b"")
                    await target.delete(scope, name)
                if artifact.version not in stored and artifact.version > max(stored, default=-1):
                    async with source.open(scope, name, artifact.version) as reading:
                        made = await target.put(scope, name, reading.chunks, mime_type=artifact.mime_type)
                    stored[made.version] = made.sha256
                    copied += 1
                where = (*scope.owner(name), name, str(artifact.version), artifact.sha256)
                known[where] = stored.get(artifact.version) == artifact.sha256
    digest = hashlib.sha256(repr(sorted(known)).encode()).hexdigest()
    return CopiedTable(SESSIONS, "artifacts", len(known), copied, list(known.values()).count(False), 0, digest)


def _digest_row(row: tuple[Any, ...]) -> bytes:
    found = hashlib.sha256()
    for value in row:
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        found.update(b"%s %d " % (type(value).__name__.encode(), len(data)))
        found.update(data)
    return found.digest()[:16]


def _measure_row(row: tuple[Any, ...]) -> int:
    return sum(len(value) for value in row if isinstance(value, str | bytes))


def _read_batches(connection: SqlConnection, table: str, names: str) -> Iterator[list[tuple[Any, ...]]]:
    """All rows of a table in one consistent state, some at a time."""
    select = f"SELECT {names} FROM {table}"  # noqa: S608 - names of our tables
    if isinstance(connection, PostgresConnection):
        with connection.transaction():
            # Names of their own, because the driver remembers the columns of a statement.
            connection.execute(f"DECLARE copied_{table} NO SCROLL CURSOR FOR {select}")
            count = 1
            while rows := connection.execute(f"FETCH {count} FROM copied_{table}").rows:
                yield rows
                mean = sum(map(_measure_row, rows)) // len(rows)
                count = max(min(2 * count, _BATCH_ROWS, _BATCH_BYTES // max(mean, 1)), 1)
        return
    cursor = connection.execute(select)
    assert isinstance(cursor, sqlite3.Cursor)  # noqa: S101 - there are two kinds
    batch: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        batch.append(row)
        size += _measure_row(row)
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _list_tables(connection: SqlConnection, component: str) -> list[str]:
    """The tables of a component; those to which others refer come first."""
    if isinstance(connection, PostgresConnection):
        sql = "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()"
    else:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    names = {name for (name,) in select_rows(connection, sql)} - _TRANSIENT
    if component == SESSIONS:
        names = {name for name in names if name.startswith("openskills_")}
    return sorted(names, key=lambda name: (name != "openskills_sessions", name))


def _list_columns(connection: SqlConnection, table: str) -> list[str]:
    if isinstance(connection, PostgresConnection):
        sql = """
            SELECT CAST(column_name AS TEXT) FROM information_schema.columns
            WHERE table_schema = current_schema() AND table_name = ? ORDER BY ordinal_position
        """
    else:
        sql = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
    return [name for (name,) in select_rows(connection, sql, (table,))]


def _count_rows(connection: SqlConnection, table: str) -> int:
    ((count,),) = select_rows(connection, f"SELECT count(*) FROM {table}")  # noqa: S608 - names of our tables
    return count


def _check_postgres(place: PostgresUrl, name: str) -> ComponentState:
    profile = _PROFILES[name]
    with _open_postgres(place, name, migrate=False) as connection:
        version = connection.read_version(profile.schema) or 0
        rows = {table: _count_rows(connection, table) for table in _list_tables(connection, name)} if version else {}
    return ComponentState(name, place.place, version, len(profile.steps), rows)


def _check_file(name: str, path: Path) -> ComponentState:
    known = len(_PROFILES[name].steps)
    if not path.exists():
        return ComponentState(name, str(path), 0, known, {})
    try:
        with closing(open_sqlite_readonly(path, HOST_DATABASE)) as connection:
            tables = _list_tables(connection, name)
            ((version,),) = select_rows(connection, SELECT_SCHEMA_VERSION)
            return ComponentState(
                name, str(path), version, known, {one: _count_rows(connection, one) for one in tables}
            )
    except sqlite3.Error as error:
        raise SkillError(f"{path} cannot be read: {error}") from error


@contextmanager
def _open_source(source: Path | PostgresUrl, settings: Settings, name: str) -> Generator[SqlConnection | None]:
    """The connection to read from, brought up to date; None if there is no such database."""
    if isinstance(source, PostgresUrl):
        with _open_postgres(source, name) as connection:
            yield connection
        return
    files = HostDataFiles.from_settings(settings, source)
    path = {HOST: files.host, SESSIONS: files.sessions, UPLOADS: files.upload_rows}[name]
    if path is None or not path.exists():
        yield None
        return
    if name != SESSIONS:
        open_sqlite(path, _PROFILES[name], timeout=30).close()
    # One state of the file, whatever a running host writes meanwhile.
    with closing(open_sqlite_readonly(path, HOST_DATABASE)) as connection, connection.transaction("DEFERRED"):
        yield connection


@contextmanager
def _open_postgres(place: PostgresUrl, name: str, *, migrate: bool = True) -> Generator[PostgresConnection]:
    """A connection; before that the tables are created or migrated."""
    handle = PostgresHandle(place, _PROFILES[name], migrate=migrate, timeout=LONG_TIMEOUT)
    try:
        with handle.open() as connection:
            yield connection
    finally:
        handle.close()


_PROFILES = {HOST: HOST_DATABASE, UPLOADS: UPLOAD_DATABASE, SESSIONS: SESSION_DATABASE}
