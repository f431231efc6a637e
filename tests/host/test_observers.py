"""Access log, metrics and history of invocations."""

import io
import json
import sqlite3
import subprocess
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openskills.host.auth import ANONYMOUS
from openskills.host.history import MAX_CONTENT_BYTES, History, RunRecord
from openskills.host.metrics import Metrics
from openskills.host.model import (
    Call,
    Failure,
    InvokeResult,
    Outcome,
    Registration,
    failure_outcome,
    normalize_outcome,
    success_outcome,
)
from openskills.host.observers import (
    AccessLog,
    HistoryObserver,
    format_line,
)
from openskills.host.service import Invocation, InvocationObserver, InvokeRequest
from tests.host.hosting import manifest, served
from tests.servers.warm_openskills import openskills_line

ECHO = Registration("echo", "cli:python", "x", "0.1.0")


def result_of(outcome: Outcome, skill_id: str = "echo") -> InvokeResult:
    return normalize_outcome(outcome, skill_id=skill_id, trace_id="demo-123", latency_ms=3.14159, version="0.1.0")


def access_of(result: InvokeResult, secrets: dict[str, str] | None = None) -> Invocation:
    return Invocation(0.0, result, b"", "anonymous", ECHO, secrets=secrets or {})


def read(line: bytes) -> dict[str, Any]:
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)


def test_a_success_has_every_required_field() -> None:
    line = read(format_line(access_of(result_of(success_outcome({"echoed": "hello"})))))
    assert {name: line[name] for name in line if name not in {"time", "level", "logger", "message"}} == {
        "trace_id": "demo-123",
        "skill_id": "echo",
        "runner_type": "cli:python",
        "latency_ms": 3.142,
        "waited_ms": None,
        "ran_ms": None,
        "success": True,
        "error.code": None,
        "error.message": None,
        "principal": "anonymous",
    }
    assert "hello" not in str(line)


def test_a_failure_has_its_code_and_its_message() -> None:
    line = read(format_line(access_of(result_of(failure_outcome(Failure(502, "no JSON"))))))
    assert (line["success"], line["error.code"], line["error.message"], line["level"]) == (
        False,
        502,
        "no JSON",
        "WARNING",
    )


def test_a_secret_in_a_message_is_replaced_by_its_name() -> None:
    failure = Failure(500, "cannot log in with hunter22")
    line = read(format_line(access_of(result_of(failure_outcome(failure)), {"TOKEN": "hunter22"})))
    assert line["error.message"] == "cannot log in with [secret TOKEN]"


def test_whatever_is_in_a_message_the_line_is_one_line_of_ascii() -> None:
    hostile = "\n\r\x1b[2J\x7f\u2028编\ud800"
    line = format_line(access_of(result_of(failure_outcome(Failure(400, hostile)))))
    assert line.isascii()
    assert b"\x7f" not in line
    assert read(line)["error.message"] == hostile


def test_every_invocation_leaves_exactly_one_line(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as sink:
        log = AccessLog(sink, pause=0.001)

        def write(number: int) -> None:
            for i in range(200):
                log.on_end(access_of(result_of(success_outcome({}), f"s{number}-{i}")))

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        log.close()
    skills = [read(line)["skill_id"] for line in (tmp_path / "log").read_bytes().splitlines(keepends=True)]
    assert sorted(skills) == sorted(f"s{n}-{i}" for n in range(4) for i in range(200))


def test_what_comes_while_a_batch_is_written_is_there_when_the_log_is_closed() -> None:
    class Closing(io.BytesIO):
        """Closes the log while it writes the first line, after another one has come."""

        def write(self, lines: Any, /) -> int:
            if not self.getvalue():
                log.on_end(access_of(result_of(success_outcome({}), "second")))
                writing.set()
                # This is the thread whose end would be waited for.
                with suppress(RuntimeError):
                    log.close()
            return super().write(lines)

    writing = threading.Event()
    sink = Closing()
    log = AccessLog(sink, pause=0.001)
    log.on_end(access_of(result_of(success_outcome({}), "first")))
    assert writing.wait(20)
    log.close()
    assert [read(line)["skill_id"] for line in sink.getvalue().splitlines(keepends=True)] == ["first", "second"]


def test_a_reader_that_has_gone_costs_lines_and_nothing_else() -> None:
    sink = io.BytesIO()
    log = AccessLog(sink, pause=0.001)
    sink.close()
    log.on_end(access_of(result_of(success_outcome({}))))
    log.close()


ASKED = InvokeRequest("echo", {}, "t-1", ANONYMOUS, 0.0)


def ended(*, fails: bool = False, known: bool = True) -> Invocation:
    outcome = failure_outcome(Failure(502, "no JSON but hunter22")) if fails else success_outcome({})
    result = normalize_outcome(outcome, skill_id="echo", trace_id="t-1", latency_ms=3.0, version="0.1.0")
    registration = ECHO if known else None
    return Invocation(time.time(), result, b"answer", "me", registration, b"request", secrets={"TOKEN": "hunter22"})


async def test_a_line_a_number_and_a_row_say_the_same(tmp_path: Path) -> None:
    sink = io.BytesIO()
    log, metrics, history = AccessLog(sink), Metrics(), History(tmp_path / "host.db")
    books: list[InvocationObserver] = [log, metrics, HistoryObserver(history)]
    for book in books:
        book.on_start(ECHO, ASKED)
        book.on_end(ended(fails=True))
    log.close()

    async def row() -> RunRecord:
        await history.close()
        (found,) = await history.list()
        try:
            return await history.get(found.id)
        finally:
            await history.close()

    found = await row()
    line = json.loads(sink.getvalue())
    assert (line["skill_id"], line["runner_type"], line["error.code"]) == ("echo", "cli:python", 502)
    assert line["error.message"] == found.message == "no JSON but [secret TOKEN]"
    assert (found.who, found.skill_id, found.code, found.bytes_in, found.bytes_out) == ("me", "echo", 502, 7, 6)
    (counted,) = (line for line in metrics.render().splitlines() if line.startswith(b"openskills_invocations_total{"))
    assert {b'code="502"', b'runner="cli:python"', b'skill="echo"'} == set(counted.partition(b"}")[0][29:].split(b","))


def test_what_found_no_skill_is_counted_as_one_kind_whatever_was_asked_for() -> None:
    metrics = Metrics()
    metrics.on_end(ended(fails=True, known=False))
    assert b'skill="unknown"' in metrics.render()
    assert b'skill="echo"' not in metrics.render()


def test_a_call_under_another_form_of_the_id_is_counted_with_the_registration() -> None:
    metrics = Metrics()
    refused = replace(ended(fails=True), result=replace(ended(fails=True).result, skill_id="Echo-"))
    metrics.on_start(ECHO, ASKED)
    metrics.on_end(refused)
    assert b'skill="echo"' in metrics.render()
    assert b"openskills_in_flight{" not in metrics.render()


def run_show(database: Path, run_id: str) -> dict[str, Any]:
    """What `openskills runs show --json` prints."""
    done = subprocess.run(
        openskills_line("runs", "show", run_id, "--json"),
        env={"HOME": str(database.parent), "LANG": "C.UTF-8", "OPENSKILL_HOST_HISTORY": str(database)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("content", [True, False])
def test_bodies_are_stored_without_secrets_only_where_that_is_switched_on(tmp_path: Path, content: bool) -> None:
    async def telling(call: Call) -> Outcome:
        return success_outcome({"heard": f"{call.input['text']} and {call.secrets['TOKEN']}"})

    database = tmp_path / "host.db"
    manifest(tmp_path, "telling", "secrets: [TOKEN]\n")
    settings: dict[str, Any] = {
        "host_history": database,
        "host_history_content": content,
        "environment": {"TOKEN": "hunter22"},
    }
    with served(tmp_path, {"telling": telling}, **settings) as host:
        assert host.invoke("telling", {"text": "is it hunter22?"}).status_code == 200
    with closing(sqlite3.connect(database)) as rows:
        ((run_id,),) = rows.execute("SELECT id FROM history").fetchall()
    shown = run_show(database, run_id)
    if not content:
        assert "input" not in shown
        assert "output" not in shown
        return
    assert json.loads(shown["input"]) == {"input": {"text": "is it [secret TOKEN]?"}}
    assert json.loads(shown["output"])["data"] == {"heard": "is it [secret TOKEN]? and [secret TOKEN]"}
    assert shown["bytes_in"] == len(shown["input"]) + len("hunter22") - len("[secret TOKEN]")


def test_a_large_body_is_cut_in_the_history(tmp_path: Path) -> None:
    async def large(call: Call) -> Outcome:
        return success_outcome({"text": "x" * MAX_CONTENT_BYTES})

    database = tmp_path / "host.db"
    with served(tmp_path, {"large": large}, host_history=database, host_history_content=True) as host:
        assert host.invoke("large", {}).status_code == 200
    with closing(sqlite3.connect(database)) as rows:
        ((output,),) = rows.execute("SELECT output FROM history_content").fetchall()
    assert MAX_CONTENT_BYTES < len(output) < MAX_CONTENT_BYTES + 100
    assert output.endswith(b" more bytes]")
