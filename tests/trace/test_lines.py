"""Lines of a log for programs."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import NotLoaded
from openskills.trace import JsonFormatter, bind, span
from tests.trace.telemetry import logged

LOGGER = logging.getLogger("openskills.somewhere")
HOSTILE = '\n{"level":"ERROR","message":"forged"}\r\n\x1b[2J\u2028\x85\x7f\udce9\0'


def test_a_span_is_one_line_with_its_trace_its_time_and_what_is_bound() -> None:
    bound = bind("t1", session="s", agent="a", tool="skill_run", skill="pdf")
    with logged() as log, bound, span("workspace.collect", {"workspace.files": 3}):
        pass
    (line,) = log.lines
    assert line.pop("duration_ms") >= 0
    assert line.pop("time").endswith("+00:00")
    assert line.pop("message").startswith("workspace.collect took ")
    assert line == {
        "level": "INFO",
        "logger": "openskills.trace",
        "trace_id": "t1",
        "span": "workspace.collect",
        "session": "s",
        "agent": "a",
        "tool": "skill_run",
        "skill": "pdf",
        "attributes": {"workspace.files": 3},
    }


def test_a_secret_that_is_bound_is_in_no_line_and_no_traceback() -> None:
    with logged() as log, bind(masked={"TOKEN": "hunter2"}), bind(session="s"):
        try:
            int("hunter2")
        except ValueError:
            LOGGER.exception("it was %s", "hunter2", extra={"about": {"value": ["hunter2"]}, "count": 7})
    (line,) = log.lines
    assert (line["message"], line["about"]) == ("it was [secret TOKEN]", {"value": ["[secret TOKEN]"]})
    assert "ValueError: invalid literal for int() with base 10: '[secret TOKEN]'" in line["exception"]
    assert "hunter2" not in log.text


def test_what_failed_is_a_warning_with_the_type_and_without_the_text() -> None:
    with logged() as log, pytest.raises(NotLoaded), span("execute_tool skill_run"):
        raise NotLoaded("call skill_load for 'my-private-skill' first")
    assert (log.lines[0]["level"], log.lines[0]["error"]) == ("WARNING", "NOT_LOADED")
    assert "my-private-skill" not in log.text


def test_inner_spans_are_for_those_who_debug_and_name_what_they_are_in() -> None:
    for level, expected in ((logging.DEBUG, ["in", "out"]), (logging.INFO, ["out"]), (logging.WARNING, [])):
        with logged(level) as log, span("out"), span("in"):
            pass
        assert [line["span"] for line in log.lines] == expected
        assert [line.get("parent") for line in log.lines if line["span"] == "in"] == ["out"][: len(expected) - 1]


def test_other_records_have_the_trace_id_and_their_own_fields() -> None:
    with logged() as log, bind("t2", session="s"):
        LOGGER.warning("%s is full", "the disk", extra={"tool": "skill_run", "path": Path("a")})
    assert (
        log.lines[0].items()
        >= {
            "message": "the disk is full",
            "level": "WARNING",
            "logger": "openskills.somewhere",
            "trace_id": "t2",
            "session": "s",
            "tool": "skill_run",
            "path": "a",
        }.items()
    )


def test_what_a_record_brings_does_not_replace_what_is_ours() -> None:
    with logged() as log, bind("t3", level="x", time="never", span="forged"):
        LOGGER.info("said", extra={"trace_id": "forged", "logger": "forged"})
        with span("real"):
            pass
    assert [line["trace_id"] for line in log.lines] == ["t3", "t3"]
    assert [line["level"] for line in log.lines] == ["INFO", "INFO"]
    assert log.lines[1]["span"] == "real"
    assert log.lines[0]["logger"] == "openskills.somewhere"


def test_a_traceback_is_in_the_line_of_its_record() -> None:
    with logged() as log:
        try:
            raise KeyError("x")  # noqa: TRY301
        except KeyError:
            LOGGER.exception("inside", stack_info=True)
    (line,) = log.lines
    assert line["exception"].startswith("Traceback")
    assert "KeyError" in line["exception"]
    assert line["stack"].startswith("Stack")


def test_a_hostile_value_cannot_forge_a_line() -> None:
    with logged() as log, bind(HOSTILE, session=HOSTILE):
        LOGGER.error("%s", HOSTILE, extra={HOSTILE + "x": {HOSTILE: [HOSTILE]}})
        with span(HOSTILE, {HOSTILE: HOSTILE}):
            pass
    assert log.text.count("\n") == 2
    assert log.text.isascii()
    assert not [character for character in log.text if character != "\n" and not character.isprintable()]
    assert [line["level"] for line in log.lines] == ["ERROR", "INFO"]
    assert log.lines[0]["session"].startswith('\n{"level"')


def test_a_hostile_name_cannot_forge_a_line_of_plain_text_either() -> None:
    with logged(formatter=logging.Formatter("%(levelname)s %(message)s")) as log, span(HOSTILE):
        pass
    assert len(log.text.splitlines()) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"\xff", object, {1: {2: {3: {4: {5: 6}}}}}, {"a"}])
def test_what_is_no_json_becomes_text(value: object) -> None:
    with logged() as log:
        LOGGER.info("x", extra={"value": value})
    assert "value" in json.loads(log.text, parse_constant=pytest.fail)


def test_a_line_stays_short_enough_to_be_read() -> None:
    with logged() as log:
        LOGGER.info("x" * 1_000_000)
    assert len(log.text) < 20_000
    assert log.lines[0]["message"].endswith("more characters]")


@given(st.text(), st.dictionaries(st.text(), st.text() | st.floats() | st.booleans() | st.lists(st.text())))
def test_whatever_is_logged_is_one_line_of_json(message: str, extra: dict[str, object]) -> None:
    record = logging.LogRecord("openskills", logging.INFO, "f.py", 1, message, (), None)
    record.__dict__.update({f"x{name}": value for name, value in extra.items()})
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line, parse_constant=pytest.fail)["message"] == message


def test_nothing_is_printed_by_a_library() -> None:
    program = "import logging, openskills.trace as t\nlogging.getLogger('openskills.x').error('not asked for')\n"
    program += "with t.span('x'): pass\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
