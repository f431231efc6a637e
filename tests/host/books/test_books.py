"""Who keeps books of invocations."""

import asyncio
import io
import json
import time
from dataclasses import replace
from pathlib import Path

from openskills.host.books.access_log import AccessLog
from openskills.host.books.books import HistoryBook, LogBook, MetricsBook
from openskills.host.books.history import History
from openskills.host.books.metrics import Metrics
from openskills.host.books.run_record import RunRecord
from openskills.host.invocation import Invocation, Watcher
from openskills.host.registration import Registration
from openskills.host.result import Failure, failed, normalised, ok

ECHO = Registration("echo", "cli:python", "x", "0.1.0")


def ended(*, fails: bool = False, known: bool = True) -> Invocation:
    outcome = failed(Failure(502, "no JSON but hunter22")) if fails else ok({})
    result = normalised(outcome, skill_id="echo", trace_id="t-1", latency_ms=3.0, version="0.1.0")
    registration = ECHO if known else None
    return Invocation(time.time(), result, b"answer", "me", registration, b"request", secrets={"TOKEN": "hunter22"})


def test_a_line_a_number_and_a_row_say_the_same(tmp_path: Path) -> None:
    sink = io.BytesIO()
    log, metrics, history = AccessLog(sink), Metrics(), History(tmp_path / "host.db")
    books: list[Watcher] = [LogBook(log), MetricsBook(metrics), HistoryBook(history)]
    for book in books:
        book.began(ECHO)
        book.ended(ended(fails=True))
    log.close()

    async def row() -> RunRecord:
        await history.close()
        (found,) = await history.list()
        try:
            return await history.show(found.id)
        finally:
            await history.close()

    found = asyncio.run(row())
    line = json.loads(sink.getvalue())
    assert (line["skill_id"], line["runner_type"], line["error.code"]) == ("echo", "cli:python", 502)
    assert line["error.message"] == found.message == "no JSON but [secret TOKEN]"
    assert (found.who, found.skill_id, found.code, found.bytes_in, found.bytes_out) == ("me", "echo", 502, 7, 6)
    (counted,) = (line for line in metrics.render().splitlines() if line.startswith(b"openskills_invocations_total{"))
    assert {b'code="502"', b'runner="cli:python"', b'skill="echo"'} == set(counted.partition(b"}")[0][29:].split(b","))


def test_what_found_no_skill_is_counted_as_one_kind_whatever_was_asked_for() -> None:
    metrics = Metrics()
    MetricsBook(metrics).ended(ended(fails=True, known=False))
    assert b'skill="unknown"' in metrics.render()
    assert b'skill="echo"' not in metrics.render()


def test_a_call_under_another_form_of_the_id_is_counted_with_the_registration() -> None:
    metrics = Metrics()
    book = MetricsBook(metrics)
    refused = replace(ended(fails=True), result=replace(ended(fails=True).result, skill_id="Echo-"))
    book.began(ECHO)
    book.ended(refused)
    assert b'skill="echo"' in metrics.render()
    assert b"openskills_in_flight{" not in metrics.render()
