"""From a log to records and files: limits, paths, accounts of lines, hostile rules."""

import csv
import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.long_form import cases
from tests.skillkit.swapping import swapping
from tests.skills_cli.calling import SKILLS, Reply, call

LINE = "2026-01-05 10:00:00 INFO request {n} took 12 ms\n"


def transform(root: Path, name: str = "x.log", **more: Any) -> Reply:
    return call("log_transform", {"input_path": name, **more}, root=root)


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An allowed directory with a log of 300 lines."""
    root = tmp_path / "data"
    root.mkdir()
    (root / "x.log").write_text("".join(LINE.format(n=n) for n in range(300)))
    return root


def test_two_hundred_records_come_back_unless_another_limit_is_given(data: Path) -> None:
    reply = transform(data)
    assert len(reply.data["records"]) == 200
    assert reply.meta["truncated"] is True
    assert reply.data["stats"]["truncated"] is True
    whole = transform(data, limit=300)
    assert len(whole.data["records"]) == 300
    assert "truncated" not in whole.meta
    assert "output_path" not in whole.data


def test_every_line_is_accounted_for(data: Path) -> None:
    lines = [LINE.format(n=1), "\n", "   \n", '{"a": 1}\n', "x" * 70_000 + "\n", '{"msg": "b"}']
    (data / "x.log").write_text("".join(lines))
    stats = transform(data, format="jsonl").data["stats"]
    assert (stats["lines"], stats["parsed"], stats["blank"], stats["dropped"], stats["cut"]) == (6, 2, 2, 2, 1)
    assert stats["bytes"] == sum(map(len, lines))


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv"])
def test_all_records_go_to_a_file(data: Path, kind: str) -> None:
    reply = transform(data, output="file", rules={"output_format": kind})
    assert reply.data["output_path"] == f"data/out/x.log.{kind}"
    text = (data / "out" / f"x.log.{kind}").read_text()
    if kind == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        assert rows[7] == {
            "line_no": "8",
            "timestamp": "2026-01-05T10:00:00",
            "level": "INFO",
            "message": rows[7]["message"],
        }
    else:
        rows = json.loads(text) if kind == "json" else [json.loads(line) for line in text.splitlines()]
        assert rows[7]["line_no"] == 8
    assert len(rows) == 300
    assert rows[7]["message"] == "request 7 took 12 ms"
    assert reply.data["stats"]["bytes_written"] == len(text)
    assert reply.data["stats"]["records"] == 300
    assert {"event": "artifact", "path": f"data/out/x.log.{kind}", "bytes": len(text)} in reply.events
    assert os.listdir(data / "out") == [f"x.log.{kind}"]


def test_a_file_can_have_a_limit_and_a_place(data: Path) -> None:
    reply = transform(data, output="file", limit=10, rules={"output_path": "./data/made/by/me.csv"})
    assert reply.data["output_path"] == "data/made/by/me.csv"
    assert reply.meta["truncated"] is True
    assert len((data / "made/by/me.csv").read_text().splitlines()) == 11


@pytest.mark.parametrize(
    ("kind", "text"), [("json", "[]\n"), ("jsonl", ""), ("csv", "line_no,timestamp,level,message\n")]
)
def test_an_empty_log_makes_an_empty_file(data: Path, kind: str, text: str) -> None:
    (data / "x.log").write_text("")
    transform(data, output="file", rules={"output_format": kind}).data  # noqa: B018
    assert (data / "out" / f"x.log.{kind}").read_text() == text


def test_an_older_file_is_replaced_and_a_link_in_its_place_is_not_followed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep me")
    (data / "out").mkdir()
    (data / "out/x.log.jsonl").symlink_to(tmp_path / "precious")
    for _ in range(2):
        transform(data, output="file", limit=1)
    assert (tmp_path / "precious").read_text() == "keep me"
    assert not (data / "out/x.log.jsonl").is_symlink()


def test_what_a_spreadsheet_would_run_is_quoted_in_csv(data: Path) -> None:
    cells = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "-5", "safe"]
    (data / "x.log").write_text("".join(json.dumps({"msg": cell, "extra": {"=x": 1}}) + "\n" for cell in cells))
    transform(data, output="file", rules={"output_format": "csv"}).data  # noqa: B018
    rows = table(data / "out/x.log.csv")
    assert [row["message"] for row in rows] == ["'=1+1", "'+cmd", "'-2+3", "'@SUM(A1)", "-5", "safe"]
    assert json.loads(rows[0]["more"]) == {"extra": {"=x": 1}}


def test_columns_of_a_csv_follow_the_format_or_the_rules(data: Path) -> None:
    (data / "x.log").write_text('203.0.113.7 - - [05/Jan/2026:10:00:00 +0000] "GET /a,b HTTP/1.0" 200 5\n')
    transform(data, output="file", rules={"output_format": "csv"})
    (row,) = table(data / "out/x.log.csv")
    assert (row["path"], row["status"], row["user_agent"]) == ("/a,b", "200", "")
    transform(data, output="file", rules={"output_format": "csv", "fields": ["status", "client"]})
    assert (data / "out/x.log.csv").read_text().splitlines()[0] == "line_no,timestamp,level,message,status,client"


@pytest.mark.parametrize(
    ("rule", "regex"),
    cases(
        [
            ("timestamp_regex", r"(a+)+$"),
            ("level_regex", r"(x+x+)+y"),
            ("line_regex", r"(\w+\s?)*$"),
        ],
        [
            ("timestamp_regex", r"(.*)*=$"),
            ("timestamp_regex", r"(?:a?){40}a{40}"),
            ("timestamp_regex", r"^(([a-z])+.)+[A-Z]([a-z])+$"),
        ],
    ),
)
def test_an_expression_that_explodes_is_stopped_and_named(data: Path, rule: str, regex: str) -> None:
    (data / "x.log").write_text("a" * 39 + " !\n" + "x" * 60 + " !\n")
    given = f"(?P<message>{regex})" if rule == "line_regex" else regex
    reply = transform(data, rules={rule: f"{given}$"}, output="file")
    word, message = reply.refusal
    assert word == "INVALID_ARGUMENT"
    assert message.startswith(f"rules.{rule}: takes too long on a line of this log")
    assert not list(data.glob("out/*"))
    assert not [name for name in os.listdir(data / "out") if name.startswith(".")]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"format": "xml"}, "format: expected one of 'auto', 'text', 'jsonl'"),
        ({"format": 5}, "format: expected one of"),
        ({"output": "printer"}, "output: expected one of 'stdout', 'file', not text ('printer')"),
        ({"limit": 0}, "limit: 0 is not between 1 and 10000"),
        ({"limit": 10_001}, "limit: 10001 is not between"),
        ({"limit": "all"}, "limit: expected a whole number or null, not text ('all')"),
        ({"rules": []}, "rules: expected an object or null, not a list"),
        ({"rules": {"x": 1}}, "rules.x: unknown rule; known rules: timestamp_regex"),
        ({"rules": {"timestamp_regex": "("}}, "rules.timestamp_regex: invalid regular expression: missing )"),
        ({"rules": {"timestamp_regex": ""}}, "rules.timestamp_regex: has 0 characters"),
        ({"rules": {"timestamp_regex": "a" * 1001}}, "rules.timestamp_regex: has 1001 characters"),
        ({"rules": {"timestamp_regex": "(" * 499 + ")" * 499}}, "rules.timestamp_regex: invalid regular expression"),
        ({"rules": {"timestamp_regex": 5}}, "rules.timestamp_regex: expected text"),
        ({"rules": {"line_regex": "(.*)"}}, "rules.line_regex: has no named group"),
        ({"rules": {"timestamp_format": "%Y"}}, "rules.timestamp_format: requires timestamp_regex"),
        (
            {"rules": {"timestamp_format": "%Q", "timestamp_regex": "x"}},
            "rules.timestamp_format: invalid time format",
        ),
        (
            {"rules": {"timestamp_format": "%d%d", "timestamp_regex": "x"}},
            "rules.timestamp_format: invalid time format",
        ),
        ({"rules": {"level_map": {"WARN": 1}}}, "rules.level_map.WARN: expected text"),
        ({"rules": {"level_map": ["WARN"]}}, "rules.level_map: expected an object"),
        ({"rules": {"levels": "WARN"}}, "rules.levels: expected a list"),
        ({"rules": {"multiline": "yes"}}, "rules.multiline: expected true or false"),
        ({"rules": {"year": 0}}, "rules.year: invalid year 0"),
        ({"rules": {"encoding": "zip"}}, "rules.encoding: unknown value 'zip'; use one of utf-8"),
        ({"rules": {"output_format": "csv"}}, 'rules.output_format: requires "output": "file"'),
        ({"output": "file", "rules": {"output_format": "xml"}}, "rules.output_format: unknown value 'xml'"),
        ({"output": "file", "rules": {"output_path": "a.txt"}}, "rules.output_path: must end in one of .jsonl"),
        ({"output": "file", "rules": {"output_path": "a"}}, "rules.output_path: must end in one of .jsonl"),
        (
            {"output": "file", "rules": {"output_path": "a.csv", "output_format": "json"}},
            "rules.output_path: ends in .csv, but rules.output_format is json",
        ),
        ({"output": "file", "rules": {"output_path": ".a/b.csv"}}, "rules.output_path: must be neither"),
        ({"output": "file", "rules": {"output_path": "x.log/b.csv"}}, "rules.output_path: 'data/x.log' is not a dir"),
        ({"output": "file", "rules": {"output_path": "folder.csv"}}, "rules.output_path: 'data/folder.csv' is a dir"),
    ],
)
def test_what_is_wrong_with_a_request_is_named(data: Path, fields: dict[str, Any], said: str) -> None:
    (data / "folder.csv").mkdir()
    word, message = transform(data, **fields).refusal
    assert word == "INVALID_ARGUMENT"
    assert message.startswith(said)


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/etc/passwd", "FORBIDDEN_PATH"),
        ("../secret.log", "FORBIDDEN_PATH"),
        ("./data/../../secret.log", "FORBIDDEN_PATH"),
        ("out.log", "FORBIDDEN_PATH"),
        ("folder/secret.log", "FORBIDDEN_PATH"),
        ("nowhere.log", "INVALID_ARGUMENT"),
        ("", "INVALID_ARGUMENT"),
        ("./data", "INVALID_ARGUMENT"),
        ("fifo", "INVALID_ARGUMENT"),
        ("a\0b", "INVALID_ARGUMENT"),
        ("x.log/y", "INVALID_ARGUMENT"),
    ],
)
def test_a_log_elsewhere_is_refused(data: Path, tmp_path: Path, path: str, word: str) -> None:
    (tmp_path / "secret.log").write_text("SECRET")
    (data / "out.log").symlink_to("../secret.log")
    (data / "folder").symlink_to(tmp_path)
    os.mkfifo(data / "fifo")
    reply = transform(data, path)
    assert reply.refusal[0] == word
    assert "SECRET" not in str(reply.result)


@pytest.mark.parametrize("path", ["/tmp/x.csv", "../x.csv", "out/../../x.csv", "folder/x.csv", "folder/new/x.csv"])
def test_a_file_elsewhere_is_not_written(data: Path, tmp_path: Path, path: str) -> None:
    (data / "folder").symlink_to(tmp_path)
    reply = transform(data, output="file", rules={"output_path": path})
    assert reply.refusal[0] == "FORBIDDEN_PATH"
    assert sorted(os.listdir(tmp_path)) == ["data"]


def test_a_log_is_not_replaced_by_its_own_records(data: Path) -> None:
    (data / "x.jsonl").write_text('{"msg": "a"}\n')
    _, message = transform(data, "x.jsonl", output="file", rules={"output_path": "x.jsonl"}).refusal
    assert message == "rules.output_path: must be neither the log itself nor hidden"


def test_what_is_not_text_is_refused_with_what_to_do(data: Path) -> None:
    (data / "x.log").write_bytes(b"\x1f\x8b\x08\0\0\0")
    assert transform(data).refusal == (
        "INVALID_ARGUMENT",
        "input_path: 'x.log' is not text; unpack it, or set rules.encoding",
    )
    (data / "x.log").write_bytes(b"\0" * 5000 + b"ERROR after a hole\n")
    assert transform(data, rules={"encoding": "utf-8"}).data["records"][0]["level"] == "ERROR"


def test_records_that_are_too_large_for_an_answer_are_cut_off(data: Path) -> None:
    (data / "x.log").write_text(("x" * 60_000 + "\n") * 100)
    reply = transform(data, limit=100)
    assert 10 < len(reply.data["records"]) < 100
    assert reply.meta["truncated"] is True


def test_a_log_that_is_swapped_for_a_link_while_reading_tells_nothing(data: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_text("SECRET\n")
    (tmp_path / "link").symlink_to(tmp_path / "secret.log")
    with swapping(data / "x.log", tmp_path / "link"):
        replies = [transform(data, limit=3) for _ in range(12)]
    assert not any("SECRET" in str(reply.result) for reply in replies)


def test_a_file_that_would_be_too_large_leaves_nothing_behind(data: Path) -> None:
    request = json.dumps({"input": {"input_path": "x.log", "output": "file"}}).encode()
    done = subprocess.run(
        [sys.executable, str(SKILLS / "log_transform.py")],
        input=request,
        capture_output=True,
        env={"OPENSKILL_ALLOWED_ROOT": str(data)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    error = json.loads(done.stdout)["error"]
    assert (error["code"], done.returncode) == (500, 1)
    assert "File too large" in error["message"]
    assert not os.listdir(data / "out")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "one line"])
def test_a_large_log_needs_little_memory(data: Path, kind: str) -> None:
    block = "".join(LINE.format(n=n) for n in range(4000)) if kind == "lines" else "x" * 1024 * 1024
    wanted = 24 * 1024 * 1024
    with (data / "x.log").open("w") as file:
        for _ in range(wanted // len(block) + 1):
            file.write(block)
    request = json.dumps({"input": {"input_path": "x.log", "output": "file"}}).encode()
    # The interpreter needs half of it, so there is no room for the whole log, nor for what becomes of it.
    most = 64 * 1024 * 1024
    done = subprocess.run(
        [sys.executable, str(SKILLS / "log_transform.py")],
        input=request,
        capture_output=True,
        env={"OPENSKILL_ALLOWED_ROOT": str(data)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
        timeout=600,
    )
    result = json.loads(done.stdout)
    assert result["success"], result
    stats = result["data"]["stats"]
    assert stats["bytes"] >= wanted
    assert stats["lines"] == stats["records"] == ((wanted // len(block) + 1) * 4000 if kind == "lines" else 1)
    assert stats["cut"] == (kind == "one line")
