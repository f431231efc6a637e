"""What becomes of a line in each format."""

from pathlib import Path
from typing import Any

import pytest

from tests.skills_cli.calling import DATA, call


def parsed(tmp_path: Path, text: str | bytes, **more: Any) -> dict[str, Any]:
    (tmp_path / "x.log").write_bytes(text if isinstance(text, bytes) else text.encode())
    return call("log_transform", {"input_path": "x.log", **more}, root=tmp_path).data


def records(tmp_path: Path, text: str | bytes, **more: Any) -> list[dict[str, Any]]:
    return parsed(tmp_path, text, **more)["records"]


def brief(tmp_path: Path, text: str | bytes, **more: Any) -> list[tuple[Any, ...]]:
    """Time, level and message of each record."""
    return [(one["timestamp"], one["level"], one["message"]) for one in records(tmp_path, text, **more)]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("app.log", "text"),
        ("app.jsonl", "jsonl"),
        ("syslog.log", "syslog"),
        ("nginx-access.log", "combined"),
        ("nginx-error.log", "nginx"),
        ("apache-access.log", "common"),
        ("apache-error.log", "apache"),
    ],
)
def test_the_format_of_each_sample_is_found_out(name: str, wanted: str) -> None:
    data = call("log_transform", {"input_path": f"./data/logs/{name}"}, root=DATA).data
    assert data["stats"]["format"] == wanted
    assert data["records"]
    assert all(one["message"] and one["timestamp"] for one in data["records"] if wanted != "text")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("2026-01-05 10:00:00,120 WARN [main] low", ("2026-01-05T10:00:00.120", "WARN", "[main] low")),
        ("2026-01-05T10:00:00Z error: disk full", ("2026-01-05T10:00:00Z", "ERROR", "disk full")),
        ("2026-01-05T10:00:00.5+0800 [info] x", ("2026-01-05T10:00:00.5+08:00", "INFO", "x")),
        ("[2026/01/05 10:00:00] DEBUG - x", ("2026-01-05T10:00:00", "DEBUG", "x")),
        ("Jan  5 10:00:00 something", ("Jan  5 10:00:00", None, "something")),
        ("no time, but level=error in it", (None, "ERROR", "no time, but level=error in it")),
        ("the word information is not a level", (None, None, "the word information is not a level")),
        (
            "worker 7: 2026-01-05 10:00:00 ERROR x",
            ("2026-01-05T10:00:00", "ERROR", "worker 7: 2026-01-05 10:00:00 ERROR x"),
        ),
        ("   indented", (None, None, "indented")),
        ("磁盘已满 ERROR", (None, "ERROR", "磁盘已满 ERROR")),
    ],
)
def test_a_line_of_text_has_time_level_and_message(tmp_path: Path, line: str, wanted: tuple[Any, ...]) -> None:
    assert brief(tmp_path, line, format="text") == [wanted]


def test_the_level_map_renames_levels_whatever_their_case(tmp_path: Path) -> None:
    text = "WARN a\nwarn: b\nINFO c\n"
    assert [level for _, level, _ in brief(tmp_path, text, rules={"level_map": {"Warn": "WARNING"}})] == [
        "WARNING", "WARNING", "INFO"
    ]  # fmt: skip


def test_the_expressions_of_the_caller_count_more_than_the_format(tmp_path: Path) -> None:
    text = "05.01.2026 10:00 |E| full\n06.01.2026 11:30 |W| low\nneither\n"
    rules = {
        "timestamp_regex": r"^(\d\d\.\d\d\.\d{4} \d\d:\d\d)",
        "timestamp_format": "%d.%m.%Y %H:%M",
        "level_regex": r"\|(?P<level>\w)\|",
        "level_map": {"E": "ERROR", "W": "WARN"},
    }
    assert [found[:2] for found in brief(tmp_path, text, rules=rules)] == [
        ("2026-01-05T10:00:00", "ERROR"),
        ("2026-01-06T11:30:00", "WARN"),
        (None, None),
    ]


def test_a_timestamp_regex_without_groups_is_what_it_matches(tmp_path: Path) -> None:
    assert brief(tmp_path, "T=12 x", rules={"timestamp_regex": r"\d+"})[0][0] == "12"
    assert brief(tmp_path, "T=12 x", rules={"timestamp_regex": r"(?P<other>T)=(?P<timestamp>\d+)"})[0][0] == "12"


def test_a_line_regex_takes_lines_apart_and_drops_the_others(tmp_path: Path) -> None:
    rules = {"line_regex": r"^(?P<timestamp>\S+) (?P<level>\w+) (?P<user>\w+): (?P<message>.*)"}
    data = parsed(tmp_path, "10:00 info bob: hello\nsomething else\n", rules=rules)
    assert data["records"] == [{"line_no": 1, "timestamp": "10:00", "level": "INFO", "message": "hello", "user": "bob"}]
    assert (data["stats"]["format"], data["stats"]["dropped"]) == ("text", 1)


def test_json_lines_keep_what_they_have_beside_the_usual_names(tmp_path: Path) -> None:
    text = '{"time":"2026-01-05 10:00:00","severity":"warn","msg":"a","n":{"x":[1]}}\n{"ts":1767607275,"level":30}\n'
    assert records(tmp_path, text) == [
        {"line_no": 1, "timestamp": "2026-01-05T10:00:00", "level": "WARN", "message": "a", "n": {"x": [1]}},
        {"line_no": 2, "timestamp": "2026-01-05T10:01:15+00:00", "level": "INFO", "message": ""},
    ]


@pytest.mark.parametrize(
    "line",
    [
        "[1]",
        "5",
        '"x"',
        "{",
        '{"a": ',
        "{'a': 1}",
        '{"a":' * 60 + "1" + "}" * 60,
        "[" * 100_000,
        '{"a":' + "9" * 5000 + "}",
    ],
)
def test_a_line_that_is_not_an_object_is_dropped(tmp_path: Path, line: str) -> None:
    stats = parsed(tmp_path, f'{{"msg":"a"}}\n{line}\n', format="jsonl")["stats"]
    assert (stats["parsed"], stats["dropped"]) == (1, 1)


def test_names_that_records_have_already_are_kept_apart(tmp_path: Path) -> None:
    text = '{"line_no": 7, "message": {"deep": 1}, "msg": "a", "value": NaN}\n'
    assert records(tmp_path, text) == [
        {
            "line_no": 1,
            "timestamp": None,
            "level": None,
            "message": "a",
            "_line_no": 7,
            "_message": {"deep": 1},
            "value": None,
        }
    ]


def test_access_logs_have_fields_and_a_level_from_their_status() -> None:
    found = call("log_transform", {"input_path": "logs/nginx-access.log", "format": "nginx"}, root=DATA).data["records"]
    assert found[3] == {
        "line_no": 4,
        "timestamp": "2026-01-05T10:01:15+08:00",
        "level": "ERROR",
        "message": "POST /skills/log_transform:invoke HTTP/2.0",
        "client": "203.0.113.9",
        "user": "alice",
        "method": "POST",
        "path": "/skills/log_transform:invoke",
        "protocol": "HTTP/2.0",
        "status": 504,
        "bytes": 310,
        "referer": "https://console.example.org/",
        "user_agent": "Mozilla/5.0 (X11; Linux x86_64)",
    }
    assert [one["level"] for one in found] == ["INFO", "INFO", "WARN", "ERROR", "WARN"]
    assert found[4]["method"] is None


def test_common_and_combined_are_told_apart(tmp_path: Path) -> None:
    common = '203.0.113.7 - - [05/Jan/2026:10:00:00 +0000] "GET / HTTP/1.0" 200 -'
    combined = f'{common} "-" "say \\"hi\\""'
    for name, lines in (("common", (1, 1)), ("combined", (1, 1)), ("nginx", (2, 0)), ("apache", (2, 0))):
        stats = parsed(tmp_path, f"{common}\n{combined}\n", format=name)["stats"]
        assert (stats["parsed"], stats["dropped"]) == lines
    assert records(tmp_path, combined, format="combined")[0]["user_agent"] == 'say \\"hi\\"'
    assert parsed(tmp_path, f"{common}\n{combined}\n")["stats"]["format"] == "nginx"


def test_error_logs_of_nginx_and_apache_say_whose_request_it_was() -> None:
    nginx = call("log_transform", {"input_path": "logs/nginx-error.log"}, root=DATA).data["records"]
    assert (nginx[1]["client"], nginx[1]["level"], nginx[1]["connection"]) == ("203.0.113.9", "ERROR", "17")
    apache = call("log_transform", {"input_path": "logs/apache-error.log"}, root=DATA).data["records"]
    assert (apache[1]["client"], apache[1]["module"], apache[1]["level"]) == ("203.0.113.8:50212", "core", "ERROR")
    assert apache[1]["timestamp"] == "2026-01-05T10:00:02.003311"


def test_syslog_of_three_generations() -> None:
    found = call("log_transform", {"input_path": "logs/syslog.log", "rules": {"year": 2026}}, root=DATA).data["records"]
    assert [one["timestamp"] for one in found] == [
        "2026-01-05T10:00:00",
        "2026-01-05T10:00:03",
        "2026-01-05T10:00:09",
        "2026-01-05T10:00:12",
        "2026-01-05T10:00:14.003Z",
        "2026-01-05T10:00:20.551903+08:00",
    ]
    assert (found[1]["program"], found[1]["pid"], found[3]["level"]) == ("sshd", "2211", "CRIT")
    assert found[4]["structured"] == '[example@32473 iut="3" eventSource="runner"]'
    assert (found[4]["level"], found[4]["facility"], found[4]["message_id"]) == ("NOTICE", 20, "ID47")


def test_lines_without_a_time_are_joined_when_that_is_wanted(tmp_path: Path) -> None:
    text = "2026-01-05 10:00:00 ERROR boom\n  at a\n\n  at b\n2026-01-05 10:00:01 INFO fine\n"
    data = parsed(tmp_path, text, rules={"multiline": True})
    assert [one["message"] for one in data["records"]] == ["boom\n  at a\n  at b", "fine"]
    stats = data["stats"]
    assert (stats["lines"], stats["parsed"], stats["joined"], stats["blank"]) == (5, 2, 2, 1)


def test_only_wanted_levels_and_fields_are_kept(tmp_path: Path) -> None:
    text = '{"level":"warn","msg":"a","x":1,"y":2}\n{"level":"info","msg":"b","x":3}\n'
    rules = {"levels": ["warning"], "level_map": {"WARN": "WARNING"}, "fields": ["x"]}
    data = parsed(tmp_path, text, rules=rules)
    assert data["records"] == [{"line_no": 1, "timestamp": None, "level": "WARNING", "message": "a", "x": 1}]
    assert data["stats"]["filtered"] == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_a_log_in_chinese_is_read_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    text = "2026-01-05 10:00:00 ERROR 写入失败：磁盘已满\n2026-01-05 10:00:01 INFO 已恢复\n"
    data = parsed(tmp_path, text.encode(encoding))
    assert [one["message"] for one in data["records"]] == ["写入失败：磁盘已满", "已恢复"]
    assert data["stats"]["encoding"] == encoding


def test_the_encoding_may_be_given(tmp_path: Path) -> None:
    text = "ERROR 磁碟已滿\n".encode("big5")
    assert brief(tmp_path, text, rules={"encoding": "big5"}) == [(None, "ERROR", "磁碟已滿")]
