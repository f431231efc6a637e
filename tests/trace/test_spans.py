"""Spans: how they nest, what is said about them, and what they cost when nobody watches."""

import asyncio
import subprocess
import sys

import pytest
from opentelemetry.trace import StatusCode

from openskills.errors import CommandDenied
from openskills.sync import run
from openskills.trace import bind, span, trace_id
from tests.trace.telemetry import attributes, logged, place, watched


def test_spans_nest_across_awaits_tasks_and_threads() -> None:
    def in_thread() -> None:
        with span("thread"):
            pass

    async def inner(name: str) -> None:
        await asyncio.sleep(0)
        with span(name):
            await asyncio.sleep(0)

    async def scenario() -> None:
        with span("outer"):
            await inner("awaited")
            await asyncio.gather(inner("task"), asyncio.create_task(inner("other task")))
            await asyncio.to_thread(in_thread)
        with span("after"):
            pass

    with watched() as watcher:
        run(scenario())
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
            failing.failed(CommandDenied("no"))
        assert attributes(watcher.one("x")) == {"error.type": "COMMAND_DENIED"}


def test_a_span_that_another_task_ends_has_nothing_below_it_and_ends_once() -> None:
    async def scenario() -> None:
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

    with watched() as watcher, logged() as log:
        run(scenario())
        assert watcher.parent("running") == watcher.parent("beside") == "starting"
        assert attributes(watcher.one("running")) == {"exit_code": 0}
    assert [line["span"] for line in log.lines] == ["beside", "starting", "running"]


def test_content_is_shown_only_where_it_is_allowed() -> None:
    with watched() as watcher, logged() as log:
        with span("quiet") as quiet:
            assert not quiet.shows
            quiet.show({"gen_ai.tool.call.arguments": "private"})
        with bind(content=True), span("open") as opened:
            assert opened.shows
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


def test_half_a_character_does_not_break_an_exporter() -> None:
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
from openskills.trace import span
assert span("a") is span("b", {"x": 1}, y=2)
with span("a") as watched:
    watched.set(x=1); watched.show(x=1); watched.failed(ValueError()); watched.end()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
import opentelemetry.trace, opentelemetry.metrics
assert span("a") is span("b"), "loaded by some library, and set up by nobody"
logging.getLogger("openskills").setLevel(logging.INFO)
assert span("a") is not span("b")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
