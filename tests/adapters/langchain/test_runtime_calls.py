"""Calls in a graph."""

from langchain_core.messages import AIMessage, HumanMessage

from openskills.adapters.langchain.runtime_calls import place_of, tool_message
from openskills.errors import InvalidArgument
from openskills.tools.result import ToolResult
from tests.adapters.langchain.scripted import call, says


def test_a_call_has_the_place_that_it_has_in_the_last_answer() -> None:
    messages = [says(call("a", "3")), HumanMessage("hi"), says(call("a", "1"), call("b", "2"))]
    assert [place_of(call_id, messages) for call_id in ("1", "2", "3")] == [0, 1, 0]


def test_a_call_of_nobody_has_the_first_place() -> None:
    assert place_of("1", []) == 0
    assert place_of("1", [HumanMessage("hi"), AIMessage("done")]) == 0


def test_a_result_says_whether_it_is_an_error() -> None:
    assert tool_message("t", "1", ToolResult("fine")).status == "success"
    failed = tool_message("t", "1", ToolResult.failed(InvalidArgument("skill", "is missing")))
    assert failed.status == "error"
    assert failed.text == "error: skill: is missing"


def test_only_kept_files_are_beside_the_text() -> None:
    assert tool_message("t", "1", ToolResult("fine", {"stdout": "x"})).artifact is None
    files = [{"name": "a", "version": 0}]
    assert tool_message("t", "1", ToolResult("fine", {"artifact_files": files})).artifact == {"artifact_files": files}
