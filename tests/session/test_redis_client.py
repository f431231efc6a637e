"""Connections are made when they are needed, and what goes wrong is said without a password."""

import traceback

import pytest

from openskills.errors import InvalidArgument, SessionsUnavailable, SkillError
from openskills.session.address import place_of
from openskills.session.redis_client import RedisClient
from openskills.sync import run
from tests.servers.redis import PASSWORD, RedisServer
from tests.servers.started import free_port


async def used(url: str) -> object:
    client = RedisClient(url, f"the session store {place_of(url)}")
    try:
        return await client.run("return {KEYS[1], ARGV[1]}", ["key"], [5])
    finally:
        await client.close()


def test_a_script_gets_its_keys_and_arguments(redis_server: RedisServer) -> None:
    assert run(used(redis_server.url())) == [b"key", b"5"]


@pytest.mark.parametrize(
    ("address", "kind", "said"),
    [
        ("redis://erika:geheim@127.0.0.1:{free}/0", SessionsUnavailable, "cannot be reached"),
        ("redis://:geheim@127.0.0.1:{port}/0", SkillError, "check the user name and the password"),
        ("redis://127.0.0.1:{port}/0", SkillError, "check the user name and the password"),
        ("{url}99", SkillError, "DB index is out of range"),
        ("redis://:geheim@127.0.0.1:port/0", InvalidArgument, "in user names and passwords write"),
        ("redis://:ge/heim@127.0.0.1/0", InvalidArgument, "in user names and passwords write"),
        ("redis://:geheim@[::1", InvalidArgument, "in user names and passwords write"),
        ("redis://:geheim@127.0.0.1:{port}/0?geheim=geheim", InvalidArgument, "cannot be understood"),
        ("redis://:geheim@127.0.0.1:{port}/0?socket_timeout=geheim", InvalidArgument, "cannot be understood"),
    ],
)
def test_what_goes_wrong_is_said_without_the_password(
    redis_server: RedisServer, address: str, kind: type[SkillError], said: str
) -> None:
    url = address.format(free=free_port(), port=redis_server.port, url=redis_server.url())
    with pytest.raises(kind, match=said) as raised:
        run(used(url))
    assert raised.type is kind
    whole_story = "".join(traceback.format_exception(raised.value))
    assert not any(secret in whole_story for secret in ("geheim", "heim@", PASSWORD, "pass%2Fword"))


def test_a_server_with_data_of_a_newer_version_is_refused_and_left_alone(redis_server: RedisServer) -> None:
    redis_server.ask("SET", "openskills:schema", "7")
    try:
        with pytest.raises(SkillError, match="was written by a newer OpenSkill: its tables have version 7"):
            run(used(redis_server.url()))
        assert redis_server.ask("GET", "openskills:schema") == "7"
    finally:
        redis_server.ask("DEL", "openskills:schema")
