"""A request is run at most once, and what was acknowledged is there after every crash."""

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.records.journal import Begun, Earlier, Journal, State
from tests.architecture.project import ROOT
from tests.executors.journal_nursery import KEEP, REQUESTS_BEFORE_LAST, record_of
from tests.executors.unprivileged import as_ordinary_user, open_descriptors

ROUNDS = 60
SEED = 20260103


@pytest.fixture
def journal(tmp_path: Path) -> Generator[Journal]:
    opened = Journal(tmp_path / "journal")
    yield opened
    opened.close()


def again(tmp_path: Path) -> Journal:
    """As a new process would open it."""
    return Journal(tmp_path / "journal")


def test_a_request_is_new_once_and_its_end_is_told_afterwards(journal: Journal) -> None:
    assert journal.begin("r1", "ls") == Begun("r1")
    assert journal.begin("r1", "ls") == Earlier(State.RUNNING, {})
    journal.finish("r1", {"exit_code": 0, "stdout": "a\n"}, durable=False)
    assert journal.begin("r1", "ls") == Earlier(State.FINISHED, {"exit_code": 0, "stdout": "a\n"})
    assert journal.begin("r2", "ls") == Begun("r2")


def test_another_request_under_the_same_id_is_refused(journal: Journal, tmp_path: Path) -> None:
    journal.begin("r1", "ls")
    with pytest.raises(InvalidArgument, match="request_id: 'r1' was used for another request; give each its own"):
        journal.begin("r1", "rm")
    journal.close()
    reopened = again(tmp_path)
    with pytest.raises(InvalidArgument, match="was used for another request"):
        reopened.begin("r1", "rm")
    reopened.close()


@pytest.mark.parametrize("id_", ["", "a b", "a\n", "é", "x" * 129, "../x", "a\0"])
def test_what_is_no_id_is_refused(id_: str, journal: Journal) -> None:
    with pytest.raises(InvalidArgument, match="is no id; use 1 to 128 of"):
        journal.begin(id_, "ls")


def test_what_was_running_when_the_process_ended_is_interrupted_for_ever(journal: Journal, tmp_path: Path) -> None:
    journal.begin("r1", "ls")
    journal.begin("r2", "ls")
    journal.finish("r2", {"exit_code": 3}, durable=True)
    journal.close()
    for _ in range(2):
        reopened = again(tmp_path)
        assert reopened.begin("r1", "ls") == Earlier(State.INTERRUPTED, {})
        assert reopened.begin("r2", "ls") == Earlier(State.FINISHED, {"exit_code": 3})
        with pytest.raises(InvalidArgument, match="'r1' is not running here"):
            reopened.finish("r1", {}, durable=False)
        reopened.close()


def test_only_what_is_running_can_be_finished_and_only_once(journal: Journal) -> None:
    with pytest.raises(InvalidArgument, match="'r1' is not running here"):
        journal.finish("r1", {}, durable=False)
    journal.begin("r1", "ls")
    with pytest.raises(InvalidArgument, match="record: cannot be written as JSON"):
        journal.finish("r1", {"x": b"bytes"}, durable=False)
    journal.finish("r1", {}, durable=False)
    with pytest.raises(InvalidArgument):
        journal.finish("r1", {}, durable=False)


def test_one_process_at_a_time_has_it(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(ExecutorUnavailable, match="is in use by another process"):
        again(tmp_path)
    journal.close()
    journal.close()
    again(tmp_path).close()


def test_a_closed_journal_begins_nothing(journal: Journal) -> None:
    journal.close()
    with pytest.raises(ExecutorUnavailable, match="is closed"):
        journal.begin("r1", "ls")


def test_only_the_latest_are_kept_and_what_runs_always_is(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", keep=10)
    journal.begin("first", "x")
    for number in range(100):
        journal.begin(str(number), "x")
        journal.finish(str(number), {"n": number}, durable=False)
    assert journal.begin("first", "x") == Earlier(State.RUNNING, {})
    assert journal.begin("99", "x") == Earlier(State.FINISHED, {"n": 99})
    assert journal.begin("1", "x") == Begun("1")
    journal.finish("first", {}, durable=True)
    journal.close()
    assert len((tmp_path / "journal" / "log").read_bytes().splitlines()) < 50
    reopened = again(tmp_path)
    assert reopened.begin("first", "x") == Earlier(State.FINISHED, {})
    assert reopened.begin("95", "x") == Earlier(State.FINISHED, {"n": 95})
    reopened.close()


def test_what_a_killed_process_left_half_written_is_put_in_order(journal: Journal, tmp_path: Path) -> None:
    journal.begin("r1", "ls")
    journal.finish("r1", {"exit_code": 0}, durable=True)
    journal.close()
    with (tmp_path / "journal" / "log").open("ab") as file:
        file.write(b"0123 B r2 half a li")
    (tmp_path / "journal" / ".arriving-x").write_text("half a file")
    reopened = again(tmp_path)
    assert reopened.begin("r2", "ls") == Begun("r2")
    reopened.close()
    reopened = again(tmp_path)
    assert reopened.begin("r1", "ls") == Earlier(State.FINISHED, {"exit_code": 0})
    assert reopened.begin("r2", "ls") == Earlier(State.INTERRUPTED, {})
    reopened.close()
    assert sorted(os.listdir(tmp_path / "journal")) == ["lock", "log"]


def test_its_files_are_for_us_only(journal: Journal, tmp_path: Path) -> None:
    journal.begin("r1", "ls")
    assert os.stat(tmp_path / "journal").st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "journal" / "log").st_mode & 0o777 == 0o600


def without_room(work: Callable[[], None]) -> None:
    """Do something while no file of this process can grow beyond 4,000 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        work()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_without_room_nothing_begins_and_nothing_that_was_written_is_lost(tmp_path: Path) -> None:
    def fill(place: Path) -> None:
        journal = Journal(place / "journal")
        journal.begin("r1", "ls")
        journal.begin("r2", "ls")
        journal.finish("r2", {}, durable=True)

        def too_much() -> None:
            with pytest.raises(ExecutorUnavailable, match=r"cannot be used: .*; make room"):
                journal.finish("r1", {"stdout": "x" * 10_000}, durable=False)

        without_room(too_much)
        assert journal.begin("r1", "ls") == Earlier(State.RUNNING, {})
        journal.finish("r1", {"exit_code": 1}, durable=False)
        journal.close()
        reopened = again(place)
        assert reopened.begin("r1", "ls") == Earlier(State.FINISHED, {"exit_code": 1})
        assert reopened.begin("r2", "ls") == Earlier(State.FINISHED, {})
        reopened.close()

    as_ordinary_user(tmp_path, fill)


def test_a_journal_that_cannot_be_opened_is_named_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = open_descriptors()
    (tmp_path / "journal").write_text("a file")
    with pytest.raises(ExecutorUnavailable, match="cannot be used: File exists"):
        again(tmp_path)
    (tmp_path / "journal").unlink()
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "log").symlink_to("elsewhere")
    with pytest.raises(ExecutorUnavailable, match="symbolic links"):
        again(tmp_path)
    assert open_descriptors() == before


def test_threads_that_ask_for_the_same_request_run_it_once(journal: Journal) -> None:
    begun: list[str] = []

    def ask() -> None:
        for number in range(200):
            if isinstance(journal.begin(str(number), "x"), Begun):
                begun.append(str(number))
                journal.finish(str(number), {}, durable=False)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(begun) == sorted(map(str, range(200)))


class Nursery:
    """Hosts to kill, and what was acknowledged by them."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.acknowledged: set[int] = set()
        self.seen: set[int] = set()

    def begin(self, directory: Path, first: int, last: int = 0) -> None:
        """Start a host."""
        assert self.process.stdin
        self.process.stdin.write(f"{directory} {first} {last}\n")
        self.process.stdin.flush()

    def lines(self) -> Iterator[list[str]]:
        """What is said until the host has ended; acknowledgements are remembered."""
        assert self.process.stdout
        for line in self.process.stdout:
            words = line.split()
            if words == ["ended"]:
                return
            if words[0] in ("ack", "interrupted"):
                self.seen.add(int(words[1]))
            if words[0] == "ack":
                self.acknowledged.add(int(words[1]))
            yield words
        raise AssertionError(f"the nursery died: {self.process.wait()}")


@contextmanager
def nursery() -> Generator[Nursery]:
    command = [sys.executable, "-m", "tests.executors.journal_nursery"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Nursery(process)
        assert process.stdin
        process.stdin.close()
    assert process.returncode == 0


def check(directory: Path, acknowledged: set[int]) -> None:
    """Nothing ran twice, and the end of what was acknowledged is known."""
    effects = (directory / "effects").read_text().split() if (directory / "effects").exists() else []
    assert len(effects) == len(set(effects)), "something ran twice"
    journal = Journal(directory / "journal", keep=KEEP)
    for number in acknowledged:
        assert journal.begin(f"r:{number}", f"run {number}") == Earlier(State.FINISHED, record_of(number))
    journal.close()
    assert sorted(os.listdir(directory / "journal")) == ["lock", "log"]


def kill_after(hosts: Nursery, wanted: int, pause: float) -> None:
    """Kill the host some moments after it has said so many things."""
    child, said = 0, 0
    for words in hosts.lines():
        child = int(words[1]) if words[0] == "pid" else child
        said += words[0] != "pid"
        if child and said >= wanted:
            # Any moment of the next request will do.
            time.sleep(pause)
            os.kill(child, signal.SIGKILL)
            wanted = sys.maxsize


@pytest.mark.slow
def test_nothing_runs_twice_and_nothing_acknowledged_is_lost_by_kill_9_at_random_moments(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    with nursery() as hosts:
        for _ in range(ROUNDS):
            # A client that asks again for what it may have lost.
            first = max(max(hosts.seen, default=0) - 5, 0)
            hosts.begin(tmp_path, first)
            kill_after(hosts, dice.randrange(12), dice.random() * 0.005)
            latest = max(hosts.seen, default=0)
            check(tmp_path, {number for number in hosts.acknowledged if number > latest - KEEP // 2})
    assert len(hosts.acknowledged) > ROUNDS


@pytest.mark.slow
def test_nothing_runs_twice_and_nothing_acknowledged_is_lost_by_kill_9_at_any_line_of_code(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    last = number = 0
    with nursery() as hosts:
        while len(hosts.acknowledged) < REQUESTS_BEFORE_LAST:
            number, last = number + 1, last + dice.randrange(1, 12)
            hosts.acknowledged.clear()
            directory = tmp_path / str(number)
            directory.mkdir()
            for _ in range(2):
                hosts.begin(directory, 0, last)
                for _ in hosts.lines():
                    pass
                check(directory, hosts.acknowledged)
    assert number > 10
