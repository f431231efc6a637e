"""The span of an invocation: below the caller's, with the child below it."""

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path

from openskills.host.books.keys import ANONYMOUS
from openskills.host.invocation import Asked
from openskills.host.registration import Registration
from openskills.host.spans import invocation
from openskills.trace import JsonFormatter, trace_id

ECHO = Registration("echo", "inproc", "x:y", "0.1.0")
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def asked(parent: str | None = None) -> Asked:
    return Asked("echo", {}, "t-1", ANONYMOUS, 0.0, parent=parent)


def test_what_is_logged_in_an_invocation_has_its_trace_id_and_no_secret() -> None:
    with invocation(ECHO, asked(), {"TOKEN": "hunter22"}):
        record = logging.LogRecord("x", logging.INFO, "", 0, "with %s", ("hunter22",), None)
        line = json.loads(JsonFormatter().format(record))
        assert trace_id() == "t-1"
    assert (line["trace_id"], line["skill"], line["message"]) == ("t-1", "echo", "with [secret TOKEN]")
    assert trace_id() == ""


UNWATCHED = """
from tests.host.test_spans import ECHO, PARENT, asked
from openskills.host.spans import invocation, traceparent_here
with invocation(ECHO, asked(parent=PARENT), {}) as span:
    print(traceparent_here(span, "here"))
"""


def test_when_nobody_watches_the_childs_parent_is_the_one_of_the_request() -> None:
    # In a process of its own: another test may have set up a tracer in this one.
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", UNWATCHED], cwd=root, capture_output=True, timeout=60, check=True)
    assert done.stdout == b"here\n"


def test_two_invocations_at_a_time_have_their_own_trace_ids() -> None:
    async def one(name: str) -> str:
        with invocation(ECHO, Asked("echo", {}, name, ANONYMOUS, 0.0), {}):
            await asyncio.sleep(0.01)
            return trace_id()

    async def both() -> list[str]:
        return list(await asyncio.gather(one("a"), one("b")))

    assert asyncio.run(both()) == ["a", "b"]


PROGRAM = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
from tests.host.test_spans import ECHO, PARENT, asked
from openskills.host.spans import invocation, traceparent_here
with invocation(ECHO, asked(parent=PARENT), {}) as span:
    child = traceparent_here(span, None)
(found,) = exporter.get_finished_spans()
assert found.name == "execute_tool echo", found.name
assert format(found.context.trace_id, "032x") == PARENT[3:35]
assert format(found.parent.span_id, "016x") == PARENT[36:52]
assert child == f"{PARENT[:36]}{found.context.span_id:016x}-01", child
"""


def test_with_a_tracer_the_span_is_between_the_caller_and_the_child() -> None:
    # In a process of its own: a tracer is set up for the whole of one.
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
