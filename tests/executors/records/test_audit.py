"""Every run leaves two lines that say who, what and how it ended; nothing in them is a secret."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openskills.executors.records.audit import (
    AuditLog,
    AuditRun,
    AuditSubject,
    build_end_record,
    build_failure_record,
    build_start_record,
)
from openskills.executors.spec import CapturedOutput, Command, CommandResult, EndReason, Isolation
from openskills.telemetry.context import bind

SECRET = "s3cr3t-value"
COMMAND = Command(
    argv=("python3", "run.py", f"--key={SECRET}", "a\nb\x1b[2J\u2028"),
    skill="pdf",
    cwd="skills/pdf",
    env={"B": "visible?", "A": "1"},
    secrets={"API_KEY": SECRET},
    network=("example.org",),
)
RUN = AuditRun(
    "run-1", AuditSubject("app", "user", "session", "agent"), COMMAND, Isolation.BUBBLEWRAP, "sha256:abc", "r:1"
)
ENDED = CommandResult(
    exit_code=137,
    ending=EndReason.LIMIT,
    duration_ms=1200,
    stdout=CapturedOutput(b"ab", b"c", 5),
    stderr=CapturedOutput(b"x"),
    cpu_ms=7,
    detail=f"too much {SECRET}",
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line]


def test_a_run_leaves_who_what_and_how_it_ended(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "state" / "audit.jsonl")
    assert log.write(build_start_record(RUN))
    assert log.write(build_end_record(RUN, ENDED, ["artifact://a@0"]))
    first, second = lines(tmp_path / "state" / "audit.jsonl")
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "trace_id": "",
        "event": "begin",
        "run": "run-1",
        "request_id": "r:1",
        "app": "app",
        "user": "user",
        "session": "session",
        "agent": "agent",
        "skill": "pdf",
        "digest": "sha256:abc",
        "argv": ["python3", "run.py", "--key=[secret API_KEY]", "a\nb\x1b[2J\u2028"],
        "cwd": "skills/pdf",
        "env": ["A", "B"],
        "secrets": ["API_KEY"],
        "network": ["example.org"],
        "isolation": "bubblewrap",
    }
    assert (second["event"], second["run"], second["user"]) == ("end", "run-1", "user")
    assert (second["exit_code"], second["ending"], second["detail"]) == (137, "limit", "too much [secret API_KEY]")
    assert (second["duration_ms"], second["cpu_ms"]) == (1200, 7)
    assert (second["stdout_bytes"], second["stderr_bytes"], second["artifacts"]) == (8, 1, ["artifact://a@0"])


def test_lines_have_the_trace_id_of_the_work_they_are_part_of(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    with bind("4bf92f3577b34da6a3ce929d0e0e4736"):
        log.write(build_start_record(RUN))
        log.write(build_failure_record(RUN, "no"))
    with bind() as here:
        log.write(build_end_record(RUN, ENDED))
    told = [line["trace_id"] for line in lines(tmp_path / "audit.jsonl")]
    assert told == [*["4bf92f3577b34da6a3ce929d0e0e4736"] * 2, here.trace_id]
    assert len(here.trace_id) == 32


def test_a_secret_in_json_in_an_argument_is_masked(tmp_path: Path) -> None:
    secret = 'a"quoted\\one\n'
    command = Command(("curl", "-d", json.dumps({"key": secret})), secrets={"API_KEY": secret})
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write(build_start_record(replace(RUN, command=command)))
    assert lines(tmp_path / "audit.jsonl")[0]["argv"] == ["curl", "-d", '{"key": "[secret API_KEY]"}']


def test_no_line_has_a_value_of_a_secret_or_variable_and_each_record_is_one_line(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    for record in (
        build_start_record(RUN),
        build_end_record(RUN, ENDED),
        build_failure_record(RUN, f"denied: {SECRET}"),
    ):
        log.write(record)
    data = (tmp_path / "audit.jsonl").read_bytes()
    assert data.count(b"\n") == 3
    assert all(32 <= byte < 127 or byte == 10 for byte in data)
    assert SECRET.encode() not in data
    assert b"visible?" not in data
    assert lines(tmp_path / "audit.jsonl")[2]["detail"] == "denied: [secret API_KEY]"


def test_the_log_and_its_directory_are_for_us_only(tmp_path: Path) -> None:
    AuditLog(tmp_path / "state" / "audit.jsonl").write({})
    assert os.stat(tmp_path / "state").st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "state" / "audit.jsonl").st_mode & 0o777 == 0o600


def test_long_texts_and_lists_are_cut_and_say_so(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write({"argv": ["x" * 5000, *map(str, range(300))], "odd": "\udcff"})
    (record,) = lines(tmp_path / "audit.jsonl")
    assert record["argv"][0].endswith("x[... 904 more characters]")
    assert (len(record["argv"]), record["argv"][-1]) == (201, "[... 101 more]")
    assert record["odd"] == "\udcff"


def test_the_log_is_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", max_bytes=500, keep=2)
    for number in range(60):
        assert log.write({"n": number, "text": "x" * 50})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.lock"] or names == [
        "audit.jsonl.1",
        "audit.jsonl.2",
        "audit.jsonl.lock",
    ]
    kept = [record["n"] for name in ("audit.jsonl.2", "audit.jsonl.1") for record in lines(tmp_path / name)]
    assert kept == list(range(kept[0], kept[-1] + 1))
    assert all((tmp_path / name).stat().st_size < 700 for name in names)


def test_a_log_that_cannot_be_written_is_reported_once_and_harms_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "audit.jsonl").mkdir()
    log = AuditLog(tmp_path / "audit.jsonl", report=told.append)
    assert log.write({"n": 1}) is False
    assert log.write({"n": 2}) is False
    path = tmp_path / "audit.jsonl"
    assert told == [f"cannot write the audit log {path}: Is a directory; commands run without it"]
    path.rmdir()
    assert log.write({"n": 3}) is True
    path.unlink()
    path.mkdir()
    assert log.write({"n": 4}) is False
    assert len(told) == 2


def test_without_a_report_a_warning_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "audit.jsonl").symlink_to("elsewhere")
    assert AuditLog(tmp_path / "audit.jsonl").write({}) is False
    assert "cannot write the audit log" in caplog.text
    assert not (tmp_path / "elsewhere").exists()


def test_a_line_that_was_cut_short_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": ')
    AuditLog(path).write({"n": 3})
    assert [line[:5] for line in path.read_bytes().splitlines()] == [b'{"n":', b'{"n":', b'{"tim']
    assert json.loads(path.read_bytes().splitlines()[2])["n"] == 3


WRITER = """
import sys
from pathlib import Path
from openskills.executors.records.audit import AuditLog
log = AuditLog(Path(sys.argv[1]), max_bytes=100_000, keep=50)
for number in range(300): assert log.write({"who": sys.argv[2], "n": number, "text": "x" * 200})
"""


def test_processes_that_write_at_once_lose_and_mix_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    files = [file for file in tmp_path.iterdir() if not file.name.endswith(".lock")]
    found = [(record["who"], record["n"]) for file in files for record in lines(file)]
    assert sorted(found) == [(name, number) for name in "abc" for number in range(300)]
    assert len(files) > 1
