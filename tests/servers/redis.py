"""A real Redis server for tests, one per process that runs them."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import pytest

from tests.servers.started import Started, free_port, own_directory

PASSWORD = "pass/word?#@ of tests"


@dataclass(frozen=True, slots=True)
class RedisServer:
    """Where the server is. It writes every change to a file before it answers."""

    port: int
    started: Started

    def url(self, *, password: str = PASSWORD, database: int = 0) -> str:
        """Its address, as users write it."""
        return f"redis://:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def ask(self, *command: str) -> Any:
        """Send a command, beside the code under test."""
        # Here, because every run of any test imports this file.
        import redis

        client = cast("Any", redis).Redis.from_url(self.url(), decode_responses=True)
        try:
            return client.execute_command(*command)
        finally:
            client.close()


@pytest.fixture(scope="session")
def redis_server() -> Generator[RedisServer]:
    """A Redis server. Without the program the test is skipped; in CI it fails."""
    from tests.conftest import find_program

    ci, search_path = os.environ.get("CI") == "true", os.environ.get("PATH", os.defpath)
    programs = [find_program(name, search_path=search_path, ci=ci) for name in ("redis-server", "setpriv")]
    with running(*programs) as server:
        yield server


@contextmanager
def running(program: str, setpriv: str) -> Generator[RedisServer]:
    """A server in a directory of its own, which ends with the block and with this process."""
    with own_directory("redis") as directory:
        port = free_port()
        settings = f"""
            bind 127.0.0.1
            port {port}
            dir "{directory}"
            requirepass "{PASSWORD}"
            save ""
            appendonly yes
            appendfsync always
        """
        (directory / "redis.conf").write_text("\n".join(line.strip() for line in settings.splitlines()))
        command = [setpriv, "--pdeathsig", "KILL", "--", program, str(directory / "redis.conf")]
        started = Started(command, directory / "log", lambda: _answers(server))
        server = RedisServer(port, started)
        started.start()
        try:
            yield server
        finally:
            started.end(signal.SIGTERM)


def _answers(server: RedisServer) -> bool:
    import redis

    try:
        return bool(server.ask("PING"))
    except (redis.ConnectionError, redis.TimeoutError):
        return False
