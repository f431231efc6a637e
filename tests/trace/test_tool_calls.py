"""A tool call as the GenAI conventions have it."""

import pytest
from opentelemetry.trace import SpanKind

from openskills.errors import NotLoaded
from openskills.trace import bind, counters, execute_tool, span
from tests.trace.telemetry import attributes, logged, measured, metric_reader, watched


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
            assert called.shows is bool(shows)

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
        called.failed(NotLoaded("call skill_load"))
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
            called.failed(NotLoaded("call skill_load"))
        assert attributes(watcher.one("execute_tool skill_run"))["error.type"] == "NOT_LOADED"
    assert log.one("execute_tool skill_run")["error"] == "NOT_LOADED"


def test_a_tool_name_of_a_model_stays_on_one_line() -> None:
    with logged() as log, execute_tool("a\nb"):
        pass
    assert log.lines[0]["span"] == "execute_tool a\\nb"
    assert calls("a\\nb") == {None: 1}
