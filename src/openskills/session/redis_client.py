"""Connections to a Redis server: scripts, and what can go wrong."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

from openskills.errors import InvalidArgument, MissingExtra, SessionsUnavailable, SkillError
from openskills.session.per_loop import PerLoop
from openskills.session.redis_scripts import SCHEMA, VERSION
from openskills.session.schema import missing_steps

_CONNECTIONS = 10
_CONNECT_WITHIN = 30.0
_ANSWER_WITHIN = 60.0


class _Script(Protocol):
    async def __call__(self, keys: Sequence[str], args: Sequence[str | int]) -> Any: ...


class _Client(Protocol):
    def register_script(self, script: str) -> _Script: ...
    async def hvals(self, name: str) -> list[bytes]: ...
    async def set(self, name: str, value: int, *, nx: bool) -> Any: ...
    async def get(self, name: str) -> bytes | None: ...
    async def aclose(self) -> None: ...


class RedisClient:
    """One server, with connections of their own for every loop. `place` names it in errors: without the password."""

    def __init__(self, url: str, place: str) -> None:
        self.place = place
        self._url = url
        self._clients = PerLoop[_Client](self._made)

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run a script in one step, and give its answer."""
        client = await self._clients.get()
        with translated(self.place):
            return await client.register_script(script)(keys=keys, args=arguments)

    async def values(self, key: str) -> list[bytes]:
        """The values of a hash."""
        client = await self._clients.get()
        with translated(self.place):
            return await client.hvals(key)

    async def close(self) -> None:
        """Close the connections of the running loop; the next use opens others."""
        client = await self._clients.take()
        if client is not None:
            with translated(self.place):
                await client.aclose()

    async def _made(self) -> _Client:
        client = self._unconnected()
        try:
            with translated(self.place):
                await client.set(SCHEMA, VERSION, nx=True)
                found = int(await client.get(SCHEMA) or 0)
            # There is one version so far; a newer one is refused as it is for tables.
            missing_steps(found, place=self.place, steps=((),) * VERSION)
        except BaseException:
            await client.aclose()
            raise
        return client

    def _unconnected(self) -> _Client:
        redis = _asyncio_redis()
        try:
            pool = redis.BlockingConnectionPool.from_url(
                self._url,
                max_connections=_CONNECTIONS,
                timeout=_CONNECT_WITHIN + _ANSWER_WITHIN,
                socket_connect_timeout=_CONNECT_WITHIN,
                socket_timeout=_ANSWER_WITHIN,
            )
            # Options in the address are looked at when a connection is made, which does not connect yet.
            pool.make_connection()
        except (ValueError, TypeError):
            # The reason would repeat pieces of the address, which may be pieces of a password.
            hint = "in user names and passwords write / ? # @ % as %2F %3F %23 %40 %25"
            raise InvalidArgument("url", f"{self.place} has an address that cannot be understood; {hint}") from None
        return cast("_Client", redis.Redis.from_pool(pool))


def _asyncio_redis() -> Any:
    try:
        import redis.asyncio
    except ImportError:
        raise MissingExtra("redis", "a session store in Redis") from None
    return redis.asyncio


@contextmanager
def translated(place: str) -> Generator[None]:
    """A block that raises `SkillError` for what the server says, or when it cannot be reached."""
    from redis import exceptions

    try:
        yield
    except (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError) as error:
        raise SkillError(f"{place} refuses: {error}; check the user name and the password", store=place) from error
    except (exceptions.BusyLoadingError, exceptions.ReadOnlyError, exceptions.TryAgainError) as error:
        raise SessionsUnavailable(f"{place} cannot be used just now: {error}; try again", store=place) from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
        message = f"{place} cannot be reached, or the connection broke: {error}; see that it runs, and try again"
        raise SessionsUnavailable(message, store=place) from error
    except exceptions.RedisError as error:
        raise SkillError(f"{place} refuses: {error}", store=place) from error
