"""A tool call and its result are one line each, whatever is in them."""

import json

import pytest

from openskills.cli.chat_lines import MOST, call_line, cut, result_line, whole


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("skill_load", {"skill": "pdf"}, "skill_load pdf"),
        ("skill_run", {"skill": "pdf", "command": "ls\n-l", "timeout": 3}, "skill_run pdf: ls -l"),
        ("read_file", {"path": "out/a.txt"}, "read_file out/a.txt"),
        ("list_files", {}, "list_files"),
        ("plot", {"kind": "bar", "empty": None, "sizes": [1, 2]}, "plot kind=bar: sizes=[1, 2]"),
    ],
)
def test_a_call_shows_what_says_most(tool: str, arguments: dict[str, object], line: str) -> None:
    assert call_line(tool, json.dumps(arguments)) == line


@pytest.mark.parametrize("arguments", ['{"skill": ', "[1]", "[" * 100_000])
def test_arguments_that_are_no_object_are_shown_as_they_are(arguments: str) -> None:
    assert call_line("skill_load", arguments) == cut(f"skill_load {arguments}")


def result(**fields: object) -> str:
    return result_line(json.dumps({"stdout": "", "stderr": "", "output_files": [], **fields}))


def test_a_command_that_went_well_shows_its_first_line_and_its_files() -> None:
    files = [{"name": f"out/{name}"} for name in "abcdef"]
    line = result(exit_code=0, stdout="\nfirst\nsecond\n", output_files=files, isolation="bubblewrap")
    assert line == "exit code 0; first; out/a, out/b, out/c, out/d and 2 more"


def test_a_command_that_failed_shows_its_last_line() -> None:
    assert result(exit_code=2, stderr="Traceback\nValueError: no\n") == "exit code 2; ValueError: no"
    assert result(exit_code=3, stdout="only this\n") == "exit code 3; only this"
    assert result(exit_code=143, timed_out=True) == "exit code 143, timed out"


def test_a_command_without_isolation_is_named_so() -> None:
    assert result(exit_code=0, isolation="none") == "exit code 0; not isolated"


def test_a_command_that_is_talked_to_shows_what_it_asks() -> None:
    asks = {"status": "running", "interaction": {"needs_input": True, "hint": "Your name:"}, "output": "Your name:"}
    assert result_line(json.dumps(asks)) == "running; it asks: Your name:"
    assert result_line(json.dumps({"status": "running", "output": "a\nb\n"})) == "running; b"
    ended = {"status": "exited", "exit_code": 0, "output": "", "result": {"output_files": [{"name": "out/x"}]}}
    assert result_line(json.dumps(ended)) == "exited; exit code 0; out/x"


def test_text_shows_its_first_line_and_how_many_more_there_are() -> None:
    assert result_line("one") == "one"
    assert result_line("\none\ntwo\n\nthree\n") == "one (+2 lines)"
    assert result_line("") == "(nothing)"
    assert result_line('{"exit_code": 0}', failed=True) == '{"exit_code": 0}'
    assert result_line('{"skills": ["表格"]}') == '{"skills": ["表格"]}'


def test_no_line_is_long_or_commands_a_terminal() -> None:
    assert len(call_line("skill_run", json.dumps({"command": "x" * 10_000}))) == MOST
    assert result_line("a\x1b[2Jb\x07") == "a\\x1b[2Jb\\x07"
    assert whole("a\r\nb\rc") == "a\nb\\rc"
    assert whole("a\tb\n\x1b]0;x\x07👩\u200d👩") == "a\tb\n\\x1b]0;x\\x07👩\u200d👩"
