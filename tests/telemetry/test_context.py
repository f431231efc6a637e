"""The trace id, and on whose behalf things happen.

Lines of a log for programs.
"""

import asyncio
import contextvars
import json
import logging
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace

from openskills.errors import NotLoaded
from openskills.sync import run
from openskills.telemetry.context import JsonFormatter, bind, get_context, trace_id
from openskills.telemetry.spans import span
from tests.telemetry.telemetry import logged, watched


def test_a_trace_id_is_minted_once_and_is_the_same_in_the_whole_block() -> None:
    assert trace_id() == ""
    with bind(session="s") as outer:
        assert re.fullmatch(r"[0-9a-f]{32}", trace_id())
        with bind(tool="skill_run") as inner:
            assert outer.trace_id == inner.trace_id == trace_id()
    with bind() as other:
        assert other.trace_id != outer.trace_id
    assert trace_id() == ""


def test_a_trace_id_of_the_caller_is_taken_as_it_is() -> None:
    with bind("their-id-1"):
        assert trace_id() == "their-id-1"
        with bind("another"):
            assert trace_id() == "another"
        assert trace_id() == "their-id-1"


def test_inside_a_trace_of_the_application_its_id_is_ours() -> None:
    with watched(), trace.get_tracer("app").start_as_current_span("request") as request, bind():
        assert trace_id() == format(request.get_span_context().trace_id, "032x")


def test_fields_add_up_and_the_inner_one_wins() -> None:
    with bind(session="s", agent="a", tool=None):
        with bind(agent="b", skill="pdf"):
            assert get_context().fields == {"session": "s", "agent": "b", "skill": "pdf"}
        assert get_context().fields == {"session": "s", "agent": "a"}
    assert get_context().fields == {}


def test_secrets_add_up_and_are_not_told_by_the_value_itself() -> None:
    with bind(masked={"A": "1111", "B": "2222"}), bind(masked={"B": "3333"}, session="s"), bind() as here:
        assert here.secrets == {"A": "1111", "B": "3333"}
        assert "1111" not in repr(here)
    with bind() as outside:
        assert not outside.secrets


def test_content_is_not_allowed_until_somebody_does() -> None:
    with bind():
        assert not get_context().content
        with bind(content=True), bind(tool="x"):
            assert get_context().content
            with bind(content=False):
                assert not get_context().content


async def test_what_is_bound_is_there_in_threads_and_through_the_bridge() -> None:
    async def here() -> tuple[str, str]:
        return trace_id(), await asyncio.to_thread(trace_id)

    with bind("abc"):
        assert await here() == ("abc", "abc")
        assert run(here()) == ("abc", "abc")


async def test_two_tasks_do_not_see_what_the_other_has_bound() -> None:
    async def one(name: str, both: asyncio.Barrier) -> tuple[str, str]:
        with bind(name):
            await both.wait()
            return name, trace_id()

    both = asyncio.Barrier(2)

    assert list(await asyncio.gather(one("a", both), one("b", both))) == [("a", "a"), ("b", "b")]


def test_threads_that_ask_at_once_get_one_trace_id() -> None:
    for _ in range(50):
        with bind() as here:
            both = threading.Barrier(4)
            found: list[str] = []

            def ask(both: threading.Barrier = both, found: list[str] = found, here: object = here) -> None:
                both.wait()
                found.append(get_context().trace_id)

            context = [contextvars.copy_context() for _ in range(4)]
            threads = [threading.Thread(target=each.run, args=(ask,)) for each in context]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert set(found) == {here.trace_id}


def test_a_block_that_is_left_in_another_context_does_no_harm() -> None:
    block = bind("x")
    contextvars.copy_context().run(block.__enter__)
    block.__exit__(None, None, None)
    assert trace_id() == ""


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
        "logger": "openskills.telemetry",
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
def test_what_is_not_json_becomes_text(value: object) -> None:
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
    program = "import logging, openskills.telemetry as t\nlogging.getLogger('openskills.x').error('not asked for')\n"
    program += "with t.span('x'): pass\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
