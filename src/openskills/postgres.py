"""PostgreSQL: errors of the server, and connections for blocking code. Needs the extra `postgres`.

The driver is asyncpg, which the session store uses as well. `PostgresHandle` gives blocking functions the same
connection that `sql.SqliteHandle` gives them: one thread uses it, with an event loop of its own. Tables are created by
the same migration steps; only their words for types differ.
"""

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar, cast

from openskills.errors import InvalidArgument, MissingExtra, SkillError
from openskills.sql import (
    CREATE_SCHEMA_TABLE,
    INSERT_SCHEMA_VERSION,
    SELECT_SCHEMA_VERSION,
    DatabaseHandle,
    DatabaseProfile,
    find_missing_steps,
)

if TYPE_CHECKING:
    from types import ModuleType

T = TypeVar("T")

# Explicit, because with another default a transaction would not see the changes that it waited for.
WRITE_MODE = "ISOLATION LEVEL READ COMMITTED READ WRITE"

MIGRATION_LOCK = 0x6F70656E736B696C
LOCK_TRANSACTION = "SELECT pg_advisory_xact_lock($1)"
CONNECT_TIMEOUT = 5.0
ANSWER_TIMEOUT = 15.0
"""Seconds for one statement of a host: a call that waits longer is answered with 503."""
LONG_TIMEOUT = 3600.0
"""Seconds for one statement that nobody's call waits for, such as a migration step."""
IDLE_TIMEOUT = 5.0
"""Seconds after which the server ends a transaction that waits for us: a process that is paused must not hold locks."""
URL_HINT = "in user names and passwords write / ? # @ % as %2F %3F %23 %40 %25"
_MAX_ATTEMPTS = 5
_RETRY_PAUSE = 0.01
_RETRY_AFTER = 1.0
_MAX_INTEGER = 2**63 - 1

# SQLSTATE prefixes of transient errors, and advice for others.
_TRANSIENT_STATES = ("08", "25P03", "40", "53", "55P03", "57")
_CONFLICT_STATES = ("40001", "40P01")
_LOST_STATES = ("08", "25P03", "57P")
_ADVICE = {
    "25006": "it is read-only; use the address of the primary server",
    "28": "check the user name and the password",
    "3D": "create the database first, with createdb",
    "42501": "this user may not use or create our tables; grant it CREATE on the schema or on the database",
}


def build_begin(mode: str, idle_timeout: float = IDLE_TIMEOUT) -> str:
    """The statements that begin a transaction, as one message to the server."""
    return f"BEGIN {mode}; SET LOCAL idle_in_transaction_session_timeout = {int(idle_timeout * 1000)}"


def import_asyncpg(needed_for: str) -> "ModuleType":
    """The driver. Raises `MissingExtra`."""
    try:
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise MissingExtra("postgres", needed_for) from None
    return asyncpg


def build_postgres_error(place: str, reason: str, state: str, unavailable: type[SkillError], **more: Any) -> SkillError:
    """The error of the server as `SkillError`; `unavailable` if the request may succeed later.

    `state` is its SQLSTATE; empty if the connection failed. `more` are details of `unavailable`.
    """
    if not state:
        message = f"{place} cannot be reached, or the connection was lost: {reason}; check that it is running"
        return unavailable(message, store=place, **more)
    if state.startswith(_TRANSIENT_STATES):
        message = f"{place} is temporarily unavailable: {reason}; try again"
        return unavailable(message, store=place, sqlstate=state, **more)
    hint = next((f"; {advice}" for kind, advice in _ADVICE.items() if state.startswith(kind)), "")
    return SkillError(f"{place} refused the request: {reason}{hint}", store=place, sqlstate=state)


@contextmanager
def translate_postgres_errors(place: str, unavailable: type[SkillError]) -> Generator[None]:
    """Raise errors of the server and of the connection as `SkillError`."""
    try:
        with _raise_statement_errors():
            yield
    except _StatementError as error:
        raise build_postgres_error(place, error.reason, error.state, unavailable) from error


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """The address of a database. `place` names it in messages, without user and password."""

    url: str = field(repr=False)
    place: str


class _StatementError(Exception):
    """A statement failed. `state` is its SQLSTATE, empty if the connection was lost."""

    def __init__(self, reason: str, state: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.state = state

    @property
    def is_lost(self) -> bool:
        return not self.state or self.state.startswith(_LOST_STATES)


@contextmanager
def _raise_statement_errors() -> Generator[None]:
    asyncpg = cast("Any", import_asyncpg("a database in PostgreSQL"))
    try:
        yield
    except asyncpg.PostgresError as error:
        raise _StatementError(str(error), error.sqlstate or "XX000") from error
    except (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
        raise _StatementError(str(error) or type(error).__name__, "") from error


@dataclass(frozen=True, slots=True)
class PostgresResult:
    """The result of a statement, with the names of a cursor of SQLite."""

    rows: list[tuple[Any, ...]]
    rowcount: int

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows


@lru_cache(maxsize=512)
def number_parameters(sql: str) -> str:
    """SQL with `$1`, `$2`, … instead of `?`, and `LIKE` that ignores case as in SQLite.

    Our texts have no other question marks.
    """
    sql = sql.replace(" LIKE ", " ILIKE ")
    first, *rest = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))


_TYPES = {"REAL": "DOUBLE PRECISION", "BLOB": "BYTEA", "INTEGER": "BIGINT", "TEXT": 'TEXT COLLATE "C"'}
_TYPE_PATTERN = re.compile(rf"\b({'|'.join(_TYPES)})\b|\s*WITHOUT ROWID")


def translate_step(sql: str) -> str:
    """A statement of a migration step for PostgreSQL: other words for types, and texts sorted by their bytes."""
    return _TYPE_PATTERN.sub(lambda match: _TYPES.get(match[1] or "", ""), sql)


class PostgresConnection:
    """A connection for blocking code of one thread, with the methods of `sql.SqlConnection`.

    Values become what PostgreSQL can store: a NUL or a lone surrogate in a text becomes a replacement character, and
    an integer is limited to 64 bits.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: Any, idle_timeout: float) -> None:
        self._loop = loop
        self._connection = connection
        self._idle_timeout = idle_timeout
        self.in_transaction = False
        self.is_committing = False
        """Whether a failure leaves open if the transaction was committed."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> PostgresResult:
        """Execute one statement with `?` for its arguments; returns its rows, or the number of changed rows."""
        text, values = number_parameters(sql), [to_postgres_value(value) for value in parameters]
        if text.split(None, 1)[0] in {"SELECT", "WITH", "FETCH"} or " RETURNING " in text:
            rows = self._run(self._connection.fetch(text, *values))
            return PostgresResult([tuple(row) for row in rows], len(rows))
        return PostgresResult([], count_changed_rows(self._run(self._connection.execute(text, *values))))

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> PostgresResult:
        """Execute a statement for each of these arguments."""
        rows = [[to_postgres_value(value) for value in row] for row in parameters]
        if rows:
            self._run(self._connection.executemany(number_parameters(sql), rows))
        return PostgresResult([], len(rows))

    def read_version(self, schema: str) -> int | None:
        """The number of applied steps of a schema; None if it has none."""
        return self._run(_read_version(self._connection, schema))

    def migrate(self, profile: DatabaseProfile, place: str) -> None:
        """Create or update the tables. See `migrate`."""
        self._run(migrate(self._connection, profile, place))

    def lock(self, name: str) -> None:
        """Wait for other transactions that use the same name, until the end of this one."""
        number = int.from_bytes(sha256(name.encode()).digest()[:8], signed=True)
        self._run(self._connection.fetch(LOCK_TRANSACTION, number))

    @contextmanager
    def transaction(self) -> Generator[None]:
        """A transaction, rolled back if the block raises."""
        self._run(self._connection.execute(build_begin(WRITE_MODE, self._idle_timeout)))
        self.in_transaction = True
        try:
            yield
            self.is_committing = True
            self._run(self._connection.execute("COMMIT"))
            self.is_committing = False
        except BaseException:
            # A lost connection has nothing to roll back.
            with suppress(_StatementError):
                self._run(self._connection.execute("ROLLBACK"))
            raise
        finally:
            self.in_transaction = False

    def close(self) -> None:
        # What the server does not answer in time is only ours to forget.
        try:
            self._run(self._connection.close(timeout=CONNECT_TIMEOUT))
        except _StatementError:
            self.terminate()

    def terminate(self) -> None:
        """Close it without a word to the server."""
        self._connection.terminate()
        # The loop closes the socket in its next turn.
        self._loop.run_until_complete(asyncio.sleep(0))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        with _raise_statement_errors():
            return self._loop.run_until_complete(work)


def count_changed_rows(status: str) -> int:
    """The number in a status such as `DELETE 1`; 0 for statements that create tables, which have none."""
    word = status.rpartition(" ")[2]
    return int(word) if word.isdigit() else 0


def to_postgres_value(value: Any) -> Any:
    """A value that PostgreSQL can store."""
    if isinstance(value, str):
        if not value.isascii():
            value = value.encode("utf-8", "replace").decode()
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in value else value
    if isinstance(value, int):
        return max(min(value, _MAX_INTEGER), -_MAX_INTEGER - 1)
    return value


class PostgresHandle(DatabaseHandle[PostgresConnection]):
    """A connection that is opened on first use, and again after it was lost. For one thread at a time.

    Opening it creates or migrates the tables, unless `migrate` is False. `timeout` is the seconds for one statement.
    """

    def __init__(
        self,
        address: PostgresUrl,
        profile: DatabaseProfile,
        *,
        migrate: bool = True,
        timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        self._address = address
        self._profile = profile
        self._migrate = migrate
        self._timeout = timeout
        self._place = f"{profile.name} {address.place}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: PostgresConnection | None = None

    def use(self, work: Callable[[PostgresConnection], T]) -> T:
        """Call `work` with the connection. Raises what it raises, and `SkillError` for errors of the server.

        `work` is called again after a deadlock, and after a connection was lost, unless that happened during a commit:
        then it is unknown whether the commit was done.
        """
        attempt = 0
        while True:
            attempt += 1
            connection = self._open()
            try:
                return work(connection)
            except _StatementError as error:
                may_repeat = attempt < _MAX_ATTEMPTS and not connection.is_committing
                if error.is_lost or connection.is_committing:
                    self._drop()
                    # Once: the connection may have been idle when the server restarted.
                    may_repeat = may_repeat and attempt == 1
                elif error.state not in _CONFLICT_STATES:
                    may_repeat = False
                if not may_repeat:
                    raise self._build_error(error) from error
            time.sleep(_RETRY_PAUSE * attempt)

    @contextmanager
    def open(self) -> Generator[PostgresConnection]:
        """The connection, for a block that cannot be repeated. Errors of the server become `SkillError`."""
        connection = self._open()
        try:
            yield connection
        except _StatementError as error:
            raise self._build_error(error) from error

    def abandon(self) -> None:
        self._loop = self._connection = None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _open(self) -> PostgresConnection:
        if self._connection is None:
            try:
                self._connection = self._connect()
                if self._migrate:
                    self._connection.migrate(self._profile, self._place)
            except _StatementError as error:
                self._drop()
                raise self._build_error(error) from error
            except BaseException:
                self._drop()
                raise
        return self._connection

    def _connect(self) -> PostgresConnection:
        asyncpg = cast("Any", import_asyncpg("a database in PostgreSQL"))
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        schema = self._profile.schema
        making = asyncpg.connect(
            self._address.url,
            timeout=CONNECT_TIMEOUT,
            command_timeout=self._timeout,
            server_settings={"application_name": "openskills"} | ({"search_path": schema} if schema else {}),
        )
        with _raise_statement_errors():
            try:
                connection = self._loop.run_until_complete(making)
            except ValueError:
                # The original message would repeat parts of the URL, possibly of the password.
                raise InvalidArgument("url", f"{self._place} has an invalid URL; {URL_HINT}") from None
        # Who may take long for a statement may take long between two, as well.
        return PostgresConnection(self._loop, connection, max(IDLE_TIMEOUT, self._timeout - ANSWER_TIMEOUT))

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def _build_error(self, error: _StatementError) -> SkillError:
        kind = self._profile.unavailable
        return build_postgres_error(self._place, error.reason, error.state, kind, retry_after=_RETRY_AFTER)


async def _read_version(connection: Any, schema: str) -> int | None:
    table = f"{schema}.openskills_schema" if schema else "openskills_schema"
    if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", table):
        return None
    return await connection.fetchval(SELECT_SCHEMA_VERSION)


async def migrate(connection: Any, profile: DatabaseProfile, place: str) -> None:
    """Create the schema, and apply missing steps, with a connection of asyncpg.

    Raises errors of asyncpg, and `SkillError` for a newer database.
    """
    version = await _read_version(connection, profile.schema)
    if version is not None and not find_missing_steps(version, place=place, steps=profile.steps):
        return
    await connection.execute(build_begin(WRITE_MODE))
    try:
        # Others who create the same tables wait here.
        await connection.fetch(LOCK_TRANSACTION, MIGRATION_LOCK)
        if profile.schema and not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", profile.schema):
            await connection.execute(f"CREATE SCHEMA {profile.schema}")
        await connection.execute(CREATE_SCHEMA_TABLE)
        version = await connection.fetchval(SELECT_SCHEMA_VERSION)
        for number, step in find_missing_steps(version, place=place, steps=profile.steps):
            for sql in step:
                # Tables in the default schema have types that both databases understand.
                text = translate_step(sql) if profile.schema else sql
                await connection.execute(text, timeout=LONG_TIMEOUT)
            await connection.execute(INSERT_SCHEMA_VERSION, number)
        await connection.execute("COMMIT")
    except BaseException:
        # A lost connection has nothing to roll back.
        with suppress(_StatementError), _raise_statement_errors():
            await connection.execute("ROLLBACK")
        raise
