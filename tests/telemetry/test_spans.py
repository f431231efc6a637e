"""Spans: how they nest, what is said about them, and what they cost when nobody watches.

A tool call as the GenAI conventions have it.
"""

import asyncio
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from openskills.errors import CommandDenied, NotLoaded
from openskills.telemetry import otel
from openskills.telemetry.context import bind, trace_id
from openskills.telemetry.metrics import counters
from openskills.telemetry.spans import execute_tool, span
from tests.telemetry.telemetry import attributes, logged, measured, metric_reader, place, watched


async def test_spans_nest_across_awaits_tasks_and_threads() -> None:
    def in_thread() -> None:
        with span("thread"):
            pass

    async def inner(name: str) -> None:
        await asyncio.sleep(0)
        with span(name):
            await asyncio.sleep(0)

    with watched() as watcher:
        with span("outer"):
            await inner("awaited")
            await asyncio.gather(inner("task"), asyncio.create_task(inner("other task")))
            await asyncio.to_thread(in_thread)
        with span("after"):
            pass
        assert [watcher.parent(name) for name in ("awaited", "task", "other task", "thread")] == ["outer"] * 4
        assert [watcher.parent(name) for name in ("outer", "after")] == [None, None]


def test_what_is_said_is_in_the_span_with_what_is_bound_under_its_known_names() -> None:
    with watched() as watcher, bind(session="s", agent="a", tool="t", skill="pdf", tenant="x"):
        with span("workspace.run", {"gen_ai.skill.name": "other"}, count=1) as running:
            running.set({"process.exit.code": 3}, count=2, nothing=None)
        assert attributes(watcher.one("workspace.run")) == {
            "gen_ai.conversation.id": "s",
            "gen_ai.agent.name": "a",
            "gen_ai.tool.name": "t",
            "gen_ai.skill.name": "other",
            "openskills.tenant": "x",
            "count": 2,
            "process.exit.code": 3,
        }


def test_an_error_that_passes_is_told_by_its_type_and_never_by_its_text() -> None:
    with watched() as watcher:
        with pytest.raises(CommandDenied), span("ours"):
            raise CommandDenied("token=hunter2 is not allowed")
        with pytest.raises(ZeroDivisionError), span("theirs"):
            raise ZeroDivisionError("hunter2")
        for name, kind in (("ours", "COMMAND_DENIED"), ("theirs", "ZeroDivisionError")):
            failed = watcher.one(name)
            assert attributes(failed)["error.type"] == kind
            assert failed.status.status_code is StatusCode.ERROR
            assert not failed.events
        assert "hunter2" not in watcher.everything()


def test_an_error_that_became_a_result_can_be_told() -> None:
    with watched() as watcher:
        with span("x") as failing:
            failing.record_error(CommandDenied("no"))
        assert attributes(watcher.one("x")) == {"error.type": "COMMAND_DENIED"}


async def test_a_span_that_another_task_ends_has_nothing_below_it_and_ends_once() -> None:
    with watched() as watcher, logged() as log:
        with span("starting"):
            running = span("running")
            with span("beside"):
                pass

        async def end() -> None:
            running.set(exit_code=0)
            running.end()
            running.end()
            running.set(too_late=True)

        await asyncio.create_task(end())
        assert watcher.parent("running") == watcher.parent("beside") == "starting"
        assert attributes(watcher.one("running")) == {"exit_code": 0}
    assert [line["span"] for line in log.lines] == ["beside", "starting", "running"]


def test_content_is_shown_only_where_it_is_allowed() -> None:
    with watched() as watcher, logged() as log:
        with span("quiet") as quiet:
            assert not quiet.can_show
            quiet.show({"gen_ai.tool.call.arguments": "private"})
        with bind(content=True), span("open") as opened:
            assert opened.can_show
            opened.show({"gen_ai.tool.call.arguments": "public" * 5000})
        assert attributes(watcher.one("quiet")) == {}
        shown = attributes(watcher.one("open"))["gen_ai.tool.call.arguments"]
        assert len(shown) < 20_000
        assert "private" not in watcher.everything() + log.text


def test_lines_and_spans_have_the_same_trace_id() -> None:
    with watched() as watcher, logged() as log:
        with bind(session="s") as here, span("one"), span("two"):
            assert trace_id() == here.trace_id
        ids = {format(place(each).trace_id, "032x") for each in watcher.spans()}
        assert ids == {here.trace_id} == {line["trace_id"] for line in log.lines}
        assert "openskills.trace_id" not in attributes(watcher.one("one"))


def test_a_trace_id_of_the_caller_is_an_attribute_where_the_span_has_another() -> None:
    with watched() as watcher:
        with bind("from-the-header"), span("x"):
            pass
        assert attributes(watcher.one("x")) == {"openskills.trace_id": "from-the-header"}


def test_lines_of_a_span_outside_of_every_block_share_a_trace_id() -> None:
    with logged() as log:
        for _ in range(2):
            with span("out"), span("in"):
                pass
    first, second, third, fourth = (line["trace_id"] for line in log.lines)
    assert first == second != third == fourth


def test_a_lone_surrogate_does_not_break_an_exporter() -> None:
    with watched() as watcher:
        with bind("\udc80" * 5000, skill="\ud800"), span("x\udcff", {"path": "\udcff.txt"}):
            pass
        (found,) = watcher.spans()
        assert f"{found.name}{attributes(found)}".encode()
        assert len(str(attributes(found)["openskills.trace_id"])) < 1100


def test_when_nobody_watches_there_is_one_span_for_all_and_nothing_is_loaded() -> None:
    program = """
import sys, logging
logging.basicConfig(level=logging.WARNING)
from openskills.telemetry import span
assert span("a") is span("b", {"x": 1}, y=2)
with span("a") as watched:
    watched.set(x=1); watched.show(x=1); watched.record_error(ValueError()); watched.end()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
import opentelemetry.trace, opentelemetry.metrics
assert span("a") is span("b"), "loaded by some library, and set up by nobody"
logging.getLogger("openskills").setLevel(logging.INFO)
assert span("a") is not span("b")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def calls(tool: str) -> dict[str | None, int]:
    found = [each for each in counters() if each.name == "openskills.tool.calls" and each.labels["tool"] == tool]
    return {each.labels.get("error"): each.value for each in found}


def test_a_tool_call_has_the_name_and_the_attributes_of_the_conventions() -> None:
    with watched() as watcher:
        with execute_tool("skill_run", call_id="call_1", skill="pdf"), span("workspace.run"):
            pass
        found = watcher.one("execute_tool skill_run")
        assert found.kind is SpanKind.INTERNAL
        assert attributes(found) == {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "skill_run",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": "call_1",
            "gen_ai.skill.name": "pdf",
        }
        assert watcher.parent("workspace.run") == "execute_tool skill_run"


def test_a_load_has_the_skill_in_its_name() -> None:
    with watched() as watcher:
        with execute_tool("skill_load", skill="pdf"):
            pass
        assert attributes(watcher.one("execute_tool skill_load pdf"))["gen_ai.skill.name"] == "pdf"


def test_arguments_and_results_are_shown_only_where_that_is_allowed() -> None:
    def call() -> None:
        with execute_tool("skill_run") as called:
            called.set({"gen_ai.skill.name": "pdf"})
            called.show({"gen_ai.tool.call.arguments": '{"command": "cat diary"}'})
            assert called.can_show is bool(shows)

    for shows in (False, True):
        with watched() as watcher:
            with bind(content=shows):
                call()
            (found,) = watcher.spans()
            assert ("diary" in watcher.everything()) is shows
            assert attributes(found)["gen_ai.skill.name"] == "pdf"


def test_calls_are_counted_and_measured_by_tool_and_error() -> None:
    metric_reader()
    with execute_tool("test_measured"):
        pass
    with execute_tool("test_measured") as called:
        called.record_error(NotLoaded("call skill_load"))
    with pytest.raises(ZeroDivisionError), execute_tool("test_measured"):
        raise ZeroDivisionError
    assert calls("test_measured") == {None: 1, "NOT_LOADED": 1, "ZeroDivisionError": 1}
    points = [
        point
        for point in measured("gen_ai.execute_tool.duration")
        if point.attributes["gen_ai.tool.name"] == "test_measured"
    ]
    assert sorted(point.attributes.get("error.type", "") for point in points) == ["", "NOT_LOADED", "ZeroDivisionError"]
    assert {point.attributes["gen_ai.operation.name"] for point in points} == {"execute_tool"}
    assert all(point.count == 1 and point.explicit_bounds[0] == 0.001 for point in points)


def test_the_error_of_a_call_is_in_its_span_and_its_line() -> None:
    with watched() as watcher, logged() as log:
        with execute_tool("skill_run") as called:
            called.record_error(NotLoaded("call skill_load"))
        assert attributes(watcher.one("execute_tool skill_run"))["error.type"] == "NOT_LOADED"
    assert log.one("execute_tool skill_run")["error"] == "NOT_LOADED"


def test_a_tool_name_of_a_model_stays_on_one_line() -> None:
    with logged() as log, execute_tool("a\nb"):
        pass
    assert log.lines[0]["span"] == "execute_tool a\\nb"
    assert calls("a\\nb") == {None: 1}


@pytest.mark.parametrize(
    "module",
    [
        "openskills",
        "openskills.telemetry",
        "openskills.executors.commands",
        "openskills.cli.main",
        "openskills.testing",
    ],
)
def test_importing_us_loads_no_telemetry(module: str) -> None:
    program = f"import sys, {module}\nprint([name for name in sys.modules if name.startswith('opentelemetry')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_telemetry_everything_works_and_still_loads_none() -> None:
    program = """
import sys, logging, io
sys.modules["opentelemetry"] = None  # as where it is not installed
from openskills.telemetry import *
logging.getLogger("openskills").setLevel(logging.DEBUG)
with bind(session="s"), execute_tool("x", skill="y") as call, span("z"):
    call.set(a=1)
    count("n")
    assert len(trace_id()) == 32
assert {each.name for each in counters()} == {"n", "openskills.tool.calls"}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_tracing_that_is_set_up_later_is_found() -> None:
    program = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from openskills.telemetry import otel
assert otel.find_tracer() is otel.find_tracer() is None
trace.set_tracer_provider(TracerProvider())
assert otel.find_tracer() is otel.find_tracer() is not None
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_tracer_is_made_once_and_has_our_name() -> None:
    with watched():
        assert otel.find_tracer() is otel.find_tracer()
        assert otel.find_tracer() is not None


def test_the_trace_of_the_application_is_known_only_inside_of_it() -> None:
    with watched():
        assert otel.current_trace_id() == ""
        with trace.get_tracer("app").start_as_current_span("request"):
            assert len(otel.current_trace_id()) == 32


def test_spans_of_ours_are_below_those_of_the_application_and_the_other_way_round() -> None:
    app = trace.get_tracer("app")
    with watched() as watcher:
        with app.start_as_current_span("request"), span("ours"), app.start_as_current_span("query"):
            pass
        assert (watcher.parent("ours"), watcher.parent("query")) == ("request", "ours")
        scope = watcher.one("ours").instrumentation_scope
        assert scope
        assert scope.name == "openskills"
