"""A real PostgreSQL server for tests, one per process that runs them."""

import os
import pwd
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest

from openskills.sync import run
from tests.servers.started import Started, free_port, own_directory

PASSWORD = "pass/word?#@ of tests"
USER = "keeper"


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """Where the server is. Its databases have text in UTF-8."""

    port: int
    started: Started

    def url(self, database: str = "postgres", *, password: str = PASSWORD, user: str = USER) -> str:
        """The address of a database, as users write it."""
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def fetch(self, sql: str, *args: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Ask the server something, beside the code under test."""
        return run(_fetch(self.url(database), sql, args))

    def new_database(self) -> str:
        """The address of an empty database that nobody else uses."""
        name = f"test_{os.urandom(8).hex()}"
        self.fetch(f"CREATE DATABASE {name}")
        return self.url(name)


@pytest.fixture(scope="session")
def postgres_server() -> Generator[PostgresServer]:
    """A PostgreSQL server. Without the program the test is skipped; in CI it fails."""
    from tests.conftest import find_program

    ci = os.environ.get("CI") == "true"
    programs = find_program("postgres", search_path=server_path(), ci=ci)
    setpriv = find_program("setpriv", search_path=server_path(), ci=ci)
    with running(Path(programs).resolve().parent, setpriv) as server:
        yield server


def server_path() -> str:
    """PATH, and where Debian has the programs of PostgreSQL: not on PATH, because there may be several versions."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, reversed(debian))])


@contextmanager
def running(programs: Path, setpriv: str) -> Generator[PostgresServer]:
    """A server in a directory of its own, which ends with the block and with this process."""
    user = _unprivileged()
    with own_directory("postgres", owner=user) as directory:
        _initialise(programs, directory, user)
        port = free_port()
        as_user = [f"--reuid={user[0]}", f"--regid={user[1]}", "--clear-groups"] if user else []
        # A database of tests need not survive a power cut; a killed server loses nothing without fsync either.
        settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": directory, "fsync": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [
            setpriv,
            *as_user,
            "--pdeathsig",
            "INT",
            "--",
            str(programs / "postgres"),
            "-D",
            str(directory / "data"),
        ]
        started = Started([*command, *options], directory / "log", lambda: _answers(server))
        server = PostgresServer(port, started)
        started.start()
        try:
            yield server
        finally:
            started.end(signal.SIGINT)


def _unprivileged() -> tuple[int, int] | None:
    """Whom the server runs as: it refuses to be root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return found.pw_uid, found.pw_gid
    raise RuntimeError("there is no user that PostgreSQL could run as")


def _initialise(programs: Path, directory: Path, user: tuple[int, int] | None) -> None:
    secret = directory / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    data = directory / "data"
    command = [programs / "initdb", "-D", data, "-U", USER, "--pwfile", secret, "--auth=scram-sha-256", "--no-sync"]
    uid, gid = user or (None, None)
    done = subprocess.run(
        [*command, "--encoding=UTF8", "--locale=C"], user=uid, group=gid, extra_groups=[] if user else None,
        cwd=directory, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")


def _answers(server: PostgresServer) -> bool:
    from asyncpg import PostgresError  # pyright: ignore[reportMissingTypeStubs]

    try:
        server.fetch("SELECT 1")
    except (OSError, PostgresError):
        return False
    return True


async def _fetch(url: str, sql: str, args: tuple[object, ...]) -> list[tuple[Any, ...]]:
    # Here, because every run of any test imports this file.
    import asyncpg  # pyright: ignore[reportMissingTypeStubs]

    connection = await cast("Any", asyncpg).connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(sql, *args)]
    finally:
        await connection.close()
