"""Connections are made when they are needed, and what goes wrong is said without a password."""

import asyncio
import traceback

import pytest

from openskills.errors import InvalidArgument, SessionsUnavailable, SkillError
from openskills.session.address import place_of
from openskills.session.postgres_pool import READING, PostgresPool
from openskills.session.schema import STEPS
from openskills.sync import run
from tests.servers.postgres import PASSWORD, PostgresServer
from tests.servers.started import free_port

VERSIONS = "SELECT version FROM openskills_schema ORDER BY version"


def pool(url: str) -> PostgresPool:
    return PostgresPool(url, f"the session store {place_of(url)}")


async def used(pool: PostgresPool) -> object:
    try:
        async with pool.transaction(READING) as asking:
            return [tuple(row) for row in await asking.rows((VERSIONS, ()))]
    finally:
        await pool.close()


def test_tables_are_made_once_however_many_begin_at_the_same_time(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()

    async def begin() -> list[object]:
        return await asyncio.gather(*(used(pool(url)) for _ in range(8)))

    assert run(begin()) == [[(1,), (2,)]] * 8


def test_an_older_database_is_brought_up_to_date(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    assert run(used(PostgresPool(url, "old", steps=STEPS[:1]))) == [(1,)]
    assert run(used(pool(url))) == [(1,), (2,)]


def test_a_newer_database_is_refused(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    run(used(PostgresPool(url, "new", steps=(*STEPS, ("CREATE TABLE of_tomorrow (x TEXT)",)))))
    with pytest.raises(SkillError, match="by a newer OpenSkill: its tables have version 3, this one knows 2"):
        run(used(pool(url)))


def test_a_step_that_fails_leaves_nothing(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    with pytest.raises(SkillError, match='relation "nowhere" does not exist'):
        run(used(PostgresPool(url, "new", steps=(("CREATE TABLE half (x TEXT)", "INSERT INTO nowhere VALUES (1)"),))))
    assert run(used(pool(url))) == [(1,), (2,)]


def test_an_error_in_the_block_takes_everything_back_and_the_connection_can_be_used_on(
    postgres_server: PostgresServer,
) -> None:
    async def write_and_fail() -> None:
        async with own.transaction() as asking:
            await asking.change(("INSERT INTO openskills_schema VALUES ($1)", (99,)))
            raise OSError("of the block")

    own = pool(postgres_server.new_database())
    with pytest.raises(OSError, match="of the block"):
        run(write_and_fail())
    assert run(used(own)) == [(1,), (2,)]


def test_a_call_that_is_cancelled_at_any_moment_leaves_the_pool_usable(postgres_server: PostgresServer) -> None:
    async def cancel_at(moment: int) -> None:
        async def write() -> None:
            async with own.transaction() as asking:
                await asking.lock(7)
                await asking.change(("INSERT INTO openskills_schema VALUES ($1)", (1000 + moment,)))

        writing = asyncio.ensure_future(write())
        for _ in range(moment):
            await asyncio.sleep(0.0002)
        writing.cancel()
        await asyncio.wait([writing])

    async def all_moments() -> object:
        for moment in range(40):
            await cancel_at(moment)
        async with own.transaction() as asking:
            await asking.lock(7)
            await asking.change(("DELETE FROM openskills_schema WHERE version > $1", (999,)))
        return await used(own)

    own = pool(postgres_server.new_database())
    assert run(all_moments()) == [(1,), (2,)]


@pytest.mark.parametrize(
    ("address", "kind", "said"),
    [
        ("postgresql://erika:geheim@127.0.0.1:{free}/x", SessionsUnavailable, "cannot be reached"),
        ("postgresql://keeper:geheim@127.0.0.1:{port}/postgres", SkillError, "check the user name and the password"),
        ("postgresql://erika:geheim@127.0.0.1:{port}/postgres", SkillError, "check the user name and the password"),
        ("{url}nowhere", SkillError, "make the database first, with createdb"),
        ("postgresql://erika:geheim@127.0.0.1:port/x", InvalidArgument, "in user names and passwords write"),
        ("postgresql://erika:ge/heim@127.0.0.1/x", InvalidArgument, "in user names and passwords write"),
        ("postgresql://erika:geheim@127.0.0.1:{port}/x?sslmode=geheim", InvalidArgument, "cannot be understood"),
    ],
)
def test_what_goes_wrong_is_said_without_the_password(
    postgres_server: PostgresServer, address: str, kind: type[SkillError], said: str
) -> None:
    port, whole = postgres_server.port, postgres_server.url("")
    url = address.format(free=free_port(), port=port, url=whole)
    with pytest.raises(kind, match=said) as raised:
        run(used(pool(url)))
    assert raised.type is kind
    whole_story = "".join(traceback.format_exception(raised.value))
    assert not any(secret in whole_story for secret in ("geheim", "heim@", PASSWORD, "pass%2Fword"))


def test_a_user_who_may_not_make_tables_is_told_what_to_grant(postgres_server: PostgresServer) -> None:
    postgres_server.fetch("DROP ROLE IF EXISTS guest")
    postgres_server.fetch("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    database = postgres_server.new_database().rpartition("/")[2]
    with pytest.raises(SkillError, match=r"permission denied.*grant it CREATE on the schema"):
        run(used(pool(postgres_server.url(database, user="guest", password="guest"))))
