"""Connections to a PostgreSQL server, in transactions, and its tables brought up to date."""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from openskills.errors import InvalidArgument, MissingExtra, SessionsUnavailable, SkillError
from openskills.session.per_loop import PerLoop
from openskills.session.schema import RECORD, STEPS, TAKEN, VERSION, Step, missing_steps
from openskills.session.tables import Question, Row

if TYPE_CHECKING:
    from types import ModuleType

# Said aloud: a server may have another default, with which a transaction does not see what it has waited for.
WRITING = "ISOLATION LEVEL READ COMMITTED READ WRITE"
READING = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""Sees what was there at one moment."""

_IS_RECORDED = "SELECT to_regclass('openskills_schema') IS NOT NULL"
_LOCK = "SELECT pg_advisory_xact_lock($1)"
_MIGRATION_LOCK = 0x6F70656E736B696C
_CONNECTIONS = 10
_CONNECT_WITHIN = 30.0
_ANSWER_WITHIN = 60.0

# Kinds of errors, by the beginning of their SQLSTATE: those that pass by themselves, and what to do about others.
_PASSING = ("08", "40", "53", "55P03", "57")
_ADVICE = {
    "25006": "it is read-only; give the address of the primary server",
    "28": "check the user name and the password",
    "3D": "make the database first, with createdb",
    "42501": "this user may not use or make our tables; grant it CREATE on the schema",
}


class _Connection(Protocol):
    async def fetch(self, query: str, *args: object) -> Sequence[Row]: ...
    async def execute(self, query: str, *args: object) -> str: ...


class _Pool(Protocol):
    async def acquire(self, *, timeout: float) -> _Connection: ...
    async def release(self, connection: _Connection) -> None: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Asking:
    """A connection, in a transaction."""

    place: str
    connection: _Connection

    async def lock(self, name: int) -> None:
        """Wait until nobody else has the lock of this number, and hold it to the end of the transaction."""
        await self.rows((_LOCK, (name,)))

    async def rows(self, question: Question) -> Sequence[Row]:
        """Every row of the answer."""
        sql, arguments = question
        with translated(self.place):
            return await self.connection.fetch(sql, *arguments)

    async def change(self, question: Question) -> int:
        """Change something; how many rows that were."""
        sql, arguments = question
        with translated(self.place):
            said = await self.connection.execute(sql, *arguments)
        # For example `DELETE 1`; what makes tables says no number.
        word = said.rpartition(" ")[2]
        return int(word) if word.isdigit() else 0


class PostgresPool:
    """Connections to one database, for every loop its own. `place` names it in errors: without user and password."""

    def __init__(self, url: str, place: str, *, steps: tuple[Step, ...] = STEPS) -> None:
        self.place = place
        self._url = url
        self._steps = steps
        self._pools = PerLoop[_Pool](self._made)

    @asynccontextmanager
    async def transaction(self, kind: str = WRITING) -> AsyncGenerator[Asking]:
        """All or nothing; raises what the block raises, and `SkillError` for what the server says."""
        with translated(self.place):
            pool = await self._pools.get()
            connection = await pool.acquire(timeout=_CONNECT_WITHIN + _ANSWER_WITHIN)
        try:
            async with _in_transaction(Asking(self.place, connection), kind) as asking:
                yield asking
        finally:
            with translated(self.place):
                await pool.release(connection)

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens others."""
        pool = await self._pools.take()
        if pool is not None:
            with translated(self.place):
                await pool.close()

    async def _made(self) -> _Pool:
        making = cast("Any", _asyncpg()).create_pool(
            self._url, min_size=0, max_size=_CONNECTIONS, timeout=_CONNECT_WITHIN, command_timeout=_ANSWER_WITHIN
        )
        pool = cast("_Pool", await making)
        try:
            await self._migrate(pool)
        except ValueError:
            await pool.close()
            # The reason would repeat pieces of the address, which may be pieces of a password.
            hint = "in user names and passwords write / ? # @ % as %2F %3F %23 %40 %25"
            raise InvalidArgument("url", f"{self.place} has an address that cannot be understood; {hint}") from None
        except BaseException:
            await pool.close()
            raise
        return pool

    async def _migrate(self, pool: _Pool) -> None:
        connection = await pool.acquire(timeout=_CONNECT_WITHIN)
        try:
            plain = Asking(self.place, connection)
            ((recorded,),) = await plain.rows((_IS_RECORDED, ()))
            if recorded and not await self._missing_steps(plain):
                return
            async with _in_transaction(plain, WRITING) as asking:
                await asking.lock(_MIGRATION_LOCK)
                await asking.change((RECORD, ()))
                # Asked again: another process may have been faster.
                for version, step in await self._missing_steps(asking):
                    for sql in step:
                        await asking.change((sql, ()))
                    await asking.change((TAKEN, (version,)))
        finally:
            await pool.release(connection)

    async def _missing_steps(self, asking: Asking) -> Sequence[tuple[int, Step]]:
        ((version,),) = await asking.rows((VERSION, ()))
        return missing_steps(version, place=self.place, steps=self._steps)


@asynccontextmanager
async def _in_transaction(asking: Asking, kind: str) -> AsyncGenerator[Asking]:
    try:
        await asking.change((f"BEGIN {kind}", ()))
        yield asking
        await asking.change(("COMMIT", ()))
    except BaseException:
        # On a connection that is lost there is nothing to roll back.
        with suppress(SkillError):
            await asking.change(("ROLLBACK", ()))
        raise


def _asyncpg() -> "ModuleType":
    try:
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise MissingExtra("postgres", "a session store in PostgreSQL") from None
    return asyncpg


@contextmanager
def translated(place: str) -> Generator[None]:
    """A block that raises `SkillError` for what the server says, or when it cannot be reached."""
    asyncpg = cast("Any", _asyncpg())
    try:
        yield
    except asyncpg.PostgresError as error:
        raise _failure(place, str(error), error.sqlstate or "") from error
    except (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
        reason = str(error) or type(error).__name__
        message = f"{place} cannot be reached, or the connection broke: {reason}; see that it runs, and try again"
        raise SessionsUnavailable(message, store=place) from error


def _failure(place: str, said: str, state: str) -> SkillError:
    if state.startswith(_PASSING):
        return SessionsUnavailable(f"{place} cannot be used just now: {said}; try again", store=place, sqlstate=state)
    hint = next((f"; {advice}" for kind, advice in _ADVICE.items() if state.startswith(kind)), "")
    return SkillError(f"{place} refuses: {said}{hint}", store=place, sqlstate=state)
