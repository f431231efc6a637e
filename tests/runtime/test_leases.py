"""Two real processes on one store: one at a time runs a conversation, also after a crash and after a pause."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.errors import LeaseLost, SessionInUse
from openskills.runtime.conversation import HeldLease, LeaseTerms, describe_holder, is_dead_holder
from openskills.runtime.runtime import SkillRuntime
from openskills.session.memory import MemorySessionStore
from openskills.session.open import open_session_store
from openskills.session.store import SessionKey
from openskills.settings import Settings
from openskills.sync import run
from tests.agent.agents import skills_for_agents
from tests.servers.postgres import PostgresServer

KEY = SessionKey("app", "u", "s")


class Program:
    """A process with a runtime. See `lease_program`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def send(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def ask(self, line: str) -> str:
        self.send(line)
        return self.read()

    def kill(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


Start = Callable[[str], Program]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'sessions.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database()


@pytest.fixture
def start(url: str, tmp_path: Path) -> Generator[Start]:
    """Starts programs, each on its own machine: with a directory of its own."""
    started: list[Program] = []

    def start_program(wait: str) -> Program:
        home = skills_for_agents(tmp_path / f"machine-{len(started)}")
        command = [sys.executable, "-m", "tests.runtime.lease_program", url, str(home), wait]
        root = Path(__file__).parents[2]
        pipe = subprocess.PIPE
        one = Program(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=root))
        started.append(one)
        assert one.read() == "ready"
        return one

    yield start_program
    for one in started:
        one.process.kill()
        one.process.communicate(timeout=60)


def read_notes(url: str, tmp_path: Path) -> list[str]:
    async def read() -> list[str]:
        store = open_session_store(url, Settings.from_env({"HOME": str(tmp_path)}))
        found = await store.get(KEY)
        return [event.payload["text"] for event in (found.events if found else ()) if event.kind == "note"]

    return run(read())


def test_a_second_process_is_refused_until_the_first_has_closed_the_conversation(
    start: Start, url: str, tmp_path: Path
) -> None:
    first, second = start("0s"), start("0s")
    assert first.ask("open") == "done"
    assert first.ask("log a") == "done"
    refused = second.ask("open")
    assert refused.startswith("error SESSION_IN_USE session 's' is in use by process ")
    assert f"process {first.process.pid} on " in refused
    assert first.ask("close") == "done"
    assert second.ask("open") == "done"
    assert second.ask("log b") == "done"
    assert read_notes(url, tmp_path) == ["a", "b"]


def test_after_a_kill_another_process_continues_when_the_lease_has_expired(
    start: Start, url: str, tmp_path: Path
) -> None:
    first, second = start("0s"), start("1m")
    assert first.ask("open") == "done"
    assert first.ask("log a") == "done"
    first.kill(signal.SIGKILL)
    assert second.ask("open") == "done"
    assert second.ask("log b") == "done"
    assert read_notes(url, tmp_path) == ["a", "b"]


def test_of_a_process_that_is_killed_while_it_writes_every_acknowledged_event_is_there_once(
    start: Start, url: str, tmp_path: Path
) -> None:
    first, second = start("0s"), start("1m")
    assert first.ask("open") == "done"
    first.send("spam a")
    acknowledged = [first.read() for _ in range(20)]
    first.kill(signal.SIGKILL)
    acknowledged += iter(first.read, "")
    assert second.ask("open") == "done"
    assert second.ask("log b") == "done"
    notes = read_notes(url, tmp_path)
    expected = [f"a{number}" for number in range(len(acknowledged))]
    # The last one may have been stored without being acknowledged.
    assert notes in ([*expected, "b"], [*expected, f"a{len(acknowledged)}", "b"])


def test_a_paused_process_that_comes_back_neither_stores_an_event_nor_runs_a_command(
    start: Start, url: str, tmp_path: Path
) -> None:
    first, second = start("0s"), start("1m")
    assert first.ask("open") == "done"
    assert first.ask("run touch ran-before") == "done None"
    first.kill(signal.SIGSTOP)
    assert second.ask("open") == "done"
    assert second.ask("log b") == "done"
    first.send("run touch $HOME/../../out/ran-after; touch ran-after")
    first.kill(signal.SIGCONT)
    lost = first.read()
    assert lost.startswith("error LEASE_LOST this process has lost session 's' (lease 1): process ")
    assert f"process {second.process.pid} on " in lost
    assert first.ask("log a").startswith("error LEASE_LOST")
    assert second.ask("log c") == "done"
    assert read_notes(url, tmp_path) == ["b", "c"]
    assert list(tmp_path.rglob("ran-before"))
    assert not list(tmp_path.rglob("ran-after"))


def test_a_process_that_is_paused_while_it_writes_never_writes_between_events_of_its_successor(
    start: Start, url: str, tmp_path: Path
) -> None:
    first, second = start("0s"), start("1m")
    assert first.ask("open") == "done"
    first.send("spam a")
    for _ in range(5):
        assert first.read().startswith("logged")
    first.kill(signal.SIGSTOP)
    while (answer := second.ask("open")).startswith("error SESSIONS_UNAVAILABLE"):
        # It was paused in a transaction, which locks SQLite; pause it elsewhere.
        first.kill(signal.SIGCONT)
        assert first.read().startswith("logged")
        first.kill(signal.SIGSTOP)
    assert answer == "done"
    first.kill(signal.SIGCONT)
    second.send("spam b")
    for _ in range(20):
        assert second.read().startswith("logged")
    while (line := first.read()).startswith("logged"):
        continue
    if line.startswith("error SESSIONS_UNAVAILABLE"):
        # It was paused in a transaction, which the server has ended together with the connection.
        line = first.ask("log a")
    assert line.startswith("error LEASE_LOST")
    second.kill(signal.SIGKILL)
    authors = [note[0] for note in read_notes(url, tmp_path)]
    assert authors == sorted(authors)
    assert authors.count("b") >= 20


async def use_machine(home: Path, storage: Path, command: str) -> str:
    """Run a command in the conversation on a machine with a state directory of its own; returns the result's text."""
    skills_for_agents(home)
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "OPENSKILL_STORAGE": str(storage)}
    own = Settings.from_env(environment)
    store = f"sqlite:///{storage.parent / 'sessions.db'}"
    catalog = Catalog.from_paths(home / "skills", settings=own)
    async with (
        SkillRuntime(catalog, "local", settings=own, store=store) as runtime,
        runtime.session("s", user="u", app="app") as session,
    ):
        await session.call("skill_load", {"skill": "alpha"})
        return (await session.call("skill_run", {"skill": "alpha", "command": command})).text


async def test_a_conversation_finds_its_files_on_another_machine_and_is_told_what_was_lost(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    first = await use_machine(tmp_path / "m1", storage, "echo one > $WORKSPACE_DIR/work/file")
    assert "restored" not in first
    second = await use_machine(
        tmp_path / "m2", storage, "cat $WORKSPACE_DIR/work/file; mkfifo $WORKSPACE_DIR/work/pipe"
    )
    assert "one" in second
    assert "the workspace was restored here from its last checkpoint, with 1 files" in second
    again = await use_machine(tmp_path / "m2", storage, "echo two > $WORKSPACE_DIR/work/file")
    assert "restored" not in again
    third = await use_machine(tmp_path / "m1", storage, "cat $WORKSPACE_DIR/work/file")
    assert "two" in third
    assert "not saved: 'work/pipe' is neither a file nor a directory" in third


@contextmanager
def expect_lost() -> Generator[None]:
    with pytest.raises(LeaseLost, match="this process has lost session 's'"):
        yield


LONG_AGO = -1e9


async def test_a_lease_that_was_not_renewed_in_time_is_used_on_if_nobody_else_has_it() -> None:
    store = MemorySessionStore()
    lease, _ = await store.acquire_lease(KEY, "a", ttl=60)
    held = HeldLease(store, lease, 60, LONG_AGO)
    await held.check()
    await held.close()
    with expect_lost():
        await store.renew_lease(lease, ttl=60)


async def test_a_lease_that_was_not_renewed_in_time_is_lost_if_somebody_else_has_it() -> None:
    store = MemorySessionStore()
    lease, _ = await store.acquire_lease(KEY, "a", ttl=0.001)
    held = HeldLease(store, lease, 60, LONG_AGO)
    other, _ = await HeldLease.acquire(store, KEY, LeaseTerms("b", 60, wait=60))
    with expect_lost():
        await held.check()
    with expect_lost():
        await held.check()
    await held.close()
    with pytest.raises(SessionInUse, match="in use by b"):
        await HeldLease.acquire(store, KEY, LeaseTerms("c", 60))
    await other.close()
    third, _ = await HeldLease.acquire(store, KEY, LeaseTerms("c", 60))
    assert third.epoch > other.epoch > held.epoch
    await third.close()


HOLDER_PROGRAM = """
import sys
from openskills.runtime.conversation import describe_holder
print(describe_holder("other"), flush=True)
sys.stdin.read()
"""


async def test_the_lease_of_a_process_of_this_machine_is_taken_over_as_soon_as_it_is_dead(tmp_path: Path) -> None:
    store = open_session_store(f"sqlite:///{tmp_path / 'sessions.db'}", Settings.from_env({"HOME": str(tmp_path)}))
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER_PROGRAM], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout
        holder = other.stdout.readline().strip()
        lost, _ = await store.acquire_lease(KEY, holder, ttl=3600)
        with pytest.raises(SessionInUse, match=f"process {other.pid} on "):
            await HeldLease.acquire(store, KEY, LeaseTerms("me", 3600))
        other.kill()
    held, _ = await HeldLease.acquire(store, KEY, LeaseTerms("me", 3600))
    assert (held.holder, held.epoch > lost.epoch) == ("me", True)
    with pytest.raises(LeaseLost):
        await store.renew_lease(lost, ttl=3600)
    await held.close()


def test_only_processes_of_this_boot_of_this_machine_can_be_known_to_be_dead() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER_PROGRAM], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as gone:
        dead = gone.communicate()[0].strip()
    assert is_dead_holder(dead)
    elsewhere = re.sub("boot [0-9a-f]{12}", f"boot {'0' * 12}", dead)
    unknown = re.sub(", boot [0-9a-f]{12}", "", dead)
    huge = re.sub("process [0-9]+", "process 9999999999", dead)
    assert not any(map(is_dead_holder, (describe_holder("mine"), elsewhere, unknown, huge, "worker-1", "")))
