"""A request is run at most once, and what was acknowledged is there after every crash.

What a journal's lines say comes back, and a line that is not whole counts as not there.

At most once, also across the death of the host.
"""

import asyncio
import json
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
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.artifacts.store import Artifact
from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.records.journal import (
    BEGAN,
    ENDED,
    INLINE_BYTES,
    EarlierRequest,
    Journal,
    RequestDeduplicator,
    RequestState,
    format_begin_line,
    format_end_line,
    parse_line,
    parse_lines,
    record_from_result,
    result_from_record,
    result_to_json,
)
from openskills.executors.requests import RunRequest, RunResult, build_interrupted_result
from openskills.executors.spec import CapturedOutput, CommandResult, EndReason, Isolation
from openskills.executors.staging.outputs import OutputFile
from tests.architecture.project import ROOT
from tests.executors.benches import workbench
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
    assert journal.begin("r1", "ls") is None
    assert journal.begin("r1", "ls") == EarlierRequest(RequestState.RUNNING, {})
    journal.finish("r1", {"exit_code": 0, "stdout": "a\n"}, durable=False)
    assert journal.begin("r1", "ls") == EarlierRequest(RequestState.FINISHED, {"exit_code": 0, "stdout": "a\n"})
    assert journal.begin("r2", "ls") is None


def test_a_denied_request_may_begin_again_also_after_a_restart(journal: Journal, tmp_path: Path) -> None:
    assert journal.begin("a", "ls") is None
    journal.finish("a", {"error": "COMMAND_DENIED", "message": "not answered yet"}, durable=False)
    assert journal.begin("a", "ls") is None
    journal.close()
    again = Journal(tmp_path / "journal")
    assert again.begin("a", "ls") == EarlierRequest(RequestState.INTERRUPTED, {})
    again.close()


def test_another_request_under_the_same_id_is_refused(journal: Journal, tmp_path: Path) -> None:
    journal.begin("r1", "ls")
    with pytest.raises(InvalidArgument, match="request_id: 'r1' was used for another request; use a new id"):
        journal.begin("r1", "rm")
    journal.close()
    reopened = again(tmp_path)
    with pytest.raises(InvalidArgument, match="was used for another request"):
        reopened.begin("r1", "rm")
    reopened.close()


@pytest.mark.parametrize("id_", ["", "a b", "a\n", "é", "x" * 129, "../x", "a\0"])
def test_what_is_not_an_id_is_refused(id_: str, journal: Journal) -> None:
    with pytest.raises(InvalidArgument, match=r"invalid id .*; use 1 to 128 characters of"):
        journal.begin(id_, "ls")


def test_what_was_running_when_the_process_ended_is_interrupted_for_ever(journal: Journal, tmp_path: Path) -> None:
    journal.begin("r1", "ls")
    journal.begin("r2", "ls")
    journal.finish("r2", {"exit_code": 3}, durable=True)
    journal.close()
    for _ in range(2):
        reopened = again(tmp_path)
        assert reopened.begin("r1", "ls") == EarlierRequest(RequestState.INTERRUPTED, {})
        assert reopened.begin("r2", "ls") == EarlierRequest(RequestState.FINISHED, {"exit_code": 3})
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
    assert journal.begin("first", "x") == EarlierRequest(RequestState.RUNNING, {})
    assert journal.begin("99", "x") == EarlierRequest(RequestState.FINISHED, {"n": 99})
    assert journal.begin("1", "x") is None
    journal.finish("first", {}, durable=True)
    journal.close()
    assert len((tmp_path / "journal" / "log").read_bytes().splitlines()) < 50
    reopened = again(tmp_path)
    assert reopened.begin("first", "x") == EarlierRequest(RequestState.FINISHED, {})
    assert reopened.begin("95", "x") == EarlierRequest(RequestState.FINISHED, {"n": 95})
    reopened.close()


def test_what_a_killed_process_left_half_written_is_put_in_order(journal: Journal, tmp_path: Path) -> None:
    journal.begin("r1", "ls")
    journal.finish("r1", {"exit_code": 0}, durable=True)
    journal.close()
    with (tmp_path / "journal" / "log").open("ab") as file:
        file.write(b"0123 B r2 half a li")
    (tmp_path / "journal" / ".arriving-x").write_text("half a file")
    reopened = again(tmp_path)
    assert reopened.begin("r2", "ls") is None
    reopened.close()
    reopened = again(tmp_path)
    assert reopened.begin("r1", "ls") == EarlierRequest(RequestState.FINISHED, {"exit_code": 0})
    assert reopened.begin("r2", "ls") == EarlierRequest(RequestState.INTERRUPTED, {})
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
            with pytest.raises(ExecutorUnavailable, match=r"cannot use the journal .*; check disk space"):
                journal.finish("r1", {"stdout": "x" * 10_000}, durable=False)

        without_room(too_much)
        assert journal.begin("r1", "ls") == EarlierRequest(RequestState.RUNNING, {})
        journal.finish("r1", {"exit_code": 1}, durable=False)
        journal.close()
        reopened = again(place)
        assert reopened.begin("r1", "ls") == EarlierRequest(RequestState.FINISHED, {"exit_code": 1})
        assert reopened.begin("r2", "ls") == EarlierRequest(RequestState.FINISHED, {})
        reopened.close()

    as_ordinary_user(tmp_path, fill)


def test_a_journal_that_cannot_be_opened_is_named_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = open_descriptors()
    (tmp_path / "journal").write_text("a file")
    with pytest.raises(ExecutorUnavailable, match=r"cannot use the journal .*: File exists"):
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
            if journal.begin(str(number), "x") is None:
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
        assert journal.begin(f"r:{number}", f"run {number}") == EarlierRequest(RequestState.FINISHED, record_of(number))
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


RECORD: dict[str, object] = {"exit_code": 1, "stdout": "a b\n\u2028\x1b[0m ü \udcff"}


def test_lines_come_back_with_their_places() -> None:
    data = format_begin_line("r:1", "f0", 12.5) + format_end_line("r:1", "f0", RECORD)
    first, second = parse_lines(data)
    assert (first.kind, first.request, first.fingerprint, first.rest) == (BEGAN, "r:1", "f0", b"12.500")
    assert (second.kind, json.loads(second.rest)) == (ENDED, RECORD)
    assert parse_line(data[second.offset : second.offset + second.length], second.offset) == second
    assert data.count(b"\n") == 2


def test_a_line_that_was_cut_short_or_changed_counts_as_not_there() -> None:
    first, second = format_begin_line("a", "f", 1.0), format_end_line("b", "f", RECORD)
    for end in range(len(second)):
        assert [line.request for line in parse_lines(first + second[:end])] == ["a"]
    for place in range(len(second) - 1):
        broken = second[:place] + bytes([second[place] ^ 1]) + second[place + 1 :]
        assert "b" not in [line.request for line in parse_lines(broken)]
    assert [line.request for line in parse_lines(b"\0" * 100 + b"\n" + first)] == ["a"]


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), b"bytes"])
def test_what_json_has_no_form_of_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        format_end_line("a", "f", {"value": value})


HOST = """
import sys
from pathlib import Path
from openskills.executors.requests import RunRequest
from openskills.sync import run
from tests.executors.benches import workbench

async def host():
    async with workbench(Path(sys.argv[1])) as bench:
        await bench.run(RunRequest("echo ran >> out/count; sleep 300", skill="demo", request_id="long"))

run(host())
"""


async def test_a_run_that_the_host_did_not_survive_is_interrupted_and_not_run_again(tmp_path: Path) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)], cwd=Path(__file__).parents[3])
    counts = list[Path]()
    deadline = time.monotonic() + 60
    while not counts and time.monotonic() < deadline and host.poll() is None:
        counts = [path for path in tmp_path.glob("state/workspaces/*/tree/out/count") if path.stat().st_size]
        time.sleep(0.01)
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    assert counts

    async with workbench(tmp_path) as bench:
        request = RunRequest("echo ran >> out/count; sleep 300", skill="demo", request_id="long")
        result = await bench.run(request)
        assert result.ended.ending is EndReason.INTERRUPTED
        assert "not run again" in result.ended.detail

    assert counts[0].read_text() == "ran\n"


async def test_the_first_requests_of_a_session_may_come_together(tmp_path: Path) -> None:
    async def ended() -> RunResult:
        return build_interrupted_result(Isolation.NONE, "run", "told")

    async def session(number: int) -> None:
        replay = RequestDeduplicator(tmp_path / str(number), Isolation.NONE)
        requests = [RunRequest("true", request_id=f"request-{place}") for place in range(4)]
        results = await asyncio.gather(*(replay.run_once(request, ended) for request in requests))
        assert not any(result.replayed for result in results)
        replay.close()

    # Whether two threads open the journal at the same moment is chance; twenty times are enough for it.
    for number in range(20):
        await session(number)


def result(data: bytes = b"x", stdout: bytes = b"out") -> RunResult:
    ended = CommandResult(
        3, EndReason.TIMED_OUT, 12, CapturedOutput(stdout, b"tail", 7), CapturedOutput(), cpu_ms=5, detail="why"
    )
    return RunResult(
        ended,
        Isolation.BUBBLEWRAP,
        "run",
        digest="d",
        output_files=(OutputFile("out/a", data, len(data), "text/plain"),),
        artifact_files=(Artifact("out/a", 2, 1, "text/plain", "sha", datetime(2026, 1, 2, tzinfo=UTC)),),
        warnings=("careful",),
    )


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_what_is_stored_as_json_comes_back_the_same(data: bytes, stdout: bytes) -> None:
    before = result(data, stdout)
    assert result_from_record(json.loads(json.dumps(record_from_result(before)))) == before


def test_large_contents_are_left_where_they_are() -> None:
    before = result(bytes(INLINE_BYTES + 1))
    record = record_from_result(before)
    assert len(json.dumps(record)) < 10_000
    (file,) = result_from_record(record).output_files
    assert (file.data, file.truncated, file.size) == (b"", True, INLINE_BYTES + 1)


def test_a_program_sees_the_documented_fields() -> None:
    answer = json.loads(json.dumps(result_to_json(result())))
    assert answer["stdout"] == "out\n[... 7 bytes not kept ...]\ntail"
    assert (answer["exit_code"], answer["timed_out"], answer["duration_ms"], answer["isolation"]) == (
        3,
        True,
        12,
        "bubblewrap",
    )
    assert answer["output_files"][0]["ref"] == "workspace://out/a"
    assert answer["output_files"][0]["content"] == "x"
    assert answer["artifact_files"][0]["ref"] == "artifact://out/a@2"
    assert answer["warnings"] == ["careful"]


def test_binary_content_is_not_shown_as_text() -> None:
    assert "content" not in result_to_json(result(b"\x89PNG\0"))["output_files"][0]


def test_an_interrupted_run_says_so() -> None:
    answer = result_to_json(build_interrupted_result(Isolation.NONE, "id", "the host ended"))
    assert (answer["ending"], answer["detail"], answer["exit_code"]) == ("interrupted", "the host ended", -1)
