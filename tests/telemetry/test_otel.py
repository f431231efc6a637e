"""OpenTelemetry is used where it is, and never loaded by us."""

import subprocess
import sys

import pytest
from opentelemetry import trace

from openskills.telemetry import otel
from openskills.telemetry.spans import span
from tests.telemetry.telemetry import watched


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
