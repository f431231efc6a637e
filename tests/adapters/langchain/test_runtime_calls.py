"""Calls in a graph."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from openskills.adapters.langchain.runtime_calls import changing_before, place_of, tool_message
from openskills.errors import InvalidArgument
from openskills.tools.result import ToolResult
from tests.adapters.langchain.scripted import call, says


def test_a_call_has_the_place_that_it_has_in_the_last_answer() -> None:
    messages = [says(call("a", "3")), HumanMessage("hi"), says(call("a", "1"), call("b", "2"))]
    assert [place_of(call_id, messages) for call_id in ("1", "2", "3")] == [0, 1, 0]


def test_a_call_of_nobody_has_the_first_place() -> None:
    assert place_of("1", []) == 0
    assert place_of("1", [HumanMessage("hi"), AIMessage("done")]) == 0


def test_calls_before_one_count_if_they_may_change_what_is_loaded_and_have_no_result() -> None:
    calls = [call("skill_load", "1"), call("skill_run", "2"), call("skill_unload", "3"), call("skill_select_docs", "4")]
    messages = [says(call("skill_load", "0")), says(*calls), ToolMessage("no", tool_call_id="3")]
    assert [(place, one["id"]) for place, one in changing_before("4", messages)] == [(0, "1")]
    assert changing_before("1", messages) == []
    assert changing_before("unknown", messages) == []
    assert changing_before("1", []) == []


def test_a_result_says_whether_it_is_an_error() -> None:
    assert tool_message("t", "1", ToolResult("fine")).status == "success"
    failed = tool_message("t", "1", ToolResult.failed(InvalidArgument("skill", "is missing")))
    assert failed.status == "error"
    assert failed.text == "error: skill: is missing"


def test_only_kept_files_are_beside_the_text() -> None:
    assert tool_message("t", "1", ToolResult("fine", {"stdout": "x"})).artifact is None
    files = [{"name": "a", "version": 0}]
    assert tool_message("t", "1", ToolResult("fine", {"artifact_files": files})).artifact == {"artifact_files": files}
