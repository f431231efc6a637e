"""The line of JSON that every invocation leaves."""

import io
import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from openskills.host.books.access_log import Access, AccessLog, line_of
from openskills.host.result import Failure, InvokeResult, Outcome, failed, normalised, ok


def result_of(outcome: Outcome, skill_id: str = "echo") -> InvokeResult:
    return normalised(outcome, skill_id=skill_id, trace_id="demo-123", latency_ms=3.14159, version="0.1.0")


def access_of(result: InvokeResult, secrets: dict[str, str] | None = None) -> Access:
    return Access(0.0, result, "cli:python", "anonymous", secrets or {})


def read(line: bytes) -> dict[str, Any]:
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)


def test_a_success_has_every_required_field() -> None:
    line = read(line_of(access_of(result_of(ok({"echoed": "hello"})))))
    assert {name: line[name] for name in line if name not in {"time", "level", "logger", "message"}} == {
        "trace_id": "demo-123",
        "skill_id": "echo",
        "runner_type": "cli:python",
        "latency_ms": 3.142,
        "success": True,
        "error.code": None,
        "error.message": None,
        "principal": "anonymous",
    }
    assert "hello" not in str(line)


def test_a_failure_has_its_code_and_its_message() -> None:
    line = read(line_of(access_of(result_of(failed(Failure(502, "no JSON"))))))
    assert (line["success"], line["error.code"], line["error.message"], line["level"]) == (
        False,
        502,
        "no JSON",
        "WARNING",
    )


def test_a_secret_in_a_message_is_replaced_by_its_name() -> None:
    failure = Failure(500, "cannot log in with hunter22")
    line = read(line_of(access_of(result_of(failed(failure)), {"TOKEN": "hunter22"})))
    assert line["error.message"] == "cannot log in with [secret TOKEN]"


def test_whatever_is_in_a_message_the_line_is_one_line_of_ascii() -> None:
    hostile = "\n\r\x1b[2J\x7f\u2028编\ud800"
    line = line_of(access_of(result_of(failed(Failure(400, hostile)))))
    assert line.isascii()
    assert b"\x7f" not in line
    assert read(line)["error.message"] == hostile


def test_every_invocation_leaves_exactly_one_line(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as sink:
        log = AccessLog(sink, pause=0.001)

        def write(number: int) -> None:
            for i in range(200):
                log.write(access_of(result_of(ok({}), f"s{number}-{i}")))

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
                log.write(access_of(result_of(ok({}), "second")))
                writing.set()
                # This is the thread whose end would be waited for.
                with suppress(RuntimeError):
                    log.close()
            return super().write(lines)

    writing = threading.Event()
    sink = Closing()
    log = AccessLog(sink, pause=0.001)
    log.write(access_of(result_of(ok({}), "first")))
    assert writing.wait(20)
    log.close()
    assert [read(line)["skill_id"] for line in sink.getvalue().splitlines(keepends=True)] == ["first", "second"]


def test_a_reader_that_has_gone_costs_lines_and_nothing_else() -> None:
    sink = io.BytesIO()
    log = AccessLog(sink, pause=0.001)
    sink.close()
    log.write(access_of(result_of(ok({}))))
    log.close()
