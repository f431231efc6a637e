"""What happens around calls of tools; whole graphs are in the tests of options and hooks."""

from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from openskills.adapters.langchain.discovery import Discovery
from openskills.adapters.langchain.hook_runs import HookEnd, HookRun
from openskills.adapters.langchain.options import SkillOptions
from openskills.adapters.langchain.steps import blocking
from openskills.adapters.langchain.tool_call import ToolCalls
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.runtimes import runtime
from tests.adapters.langchain.scripted import call, says
from tests.skill_writer import WriteSkill


class Fine:
    """Every command ends well."""

    async def run(self, run: HookRun) -> HookEnd:  # noqa: ARG002
        return HookEnd(0)


def request(tool: str, state: dict[str, Any], call_id: str = "1", **args: Any) -> ToolCallRequest:
    made = runtime(state, call_id)
    return ToolCallRequest(tool_call=call(tool, call_id, **args), tool=None, state=made.state, runtime=made)


def calls(**options: Any) -> ToolCalls:
    return ToolCalls(SkillOptions(**options), Discovery(["/skills/"]), 80_000)


def test_a_call_goes_on_as_it_is_when_nothing_is_loaded_or_nothing_is_on(backend: Any) -> None:
    for state in ({}, {"skills_loaded": ["a"]}):
        made = request("search", state)
        begun = blocking(calls().begin(made), backend)
        assert (begun.request, begun.answer) == (made, None)


def test_rules_hold_after_an_interrupt_when_the_list_of_skills_has_to_be_found_again(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("a", front="allowed-tools: search\n")
    state = {"skills_loaded": ["a"], "skills_metadata": None}
    begun = blocking(calls(allowed_tools="restrict").begin(request("send", state)), backend)
    assert isinstance(begun.answer, ToolMessage)
    assert (begun.answer.status, begun.answer.tool_call_id, begun.answer.name) == ("error", "1", "send")


def test_tools_that_a_skill_disclosed_are_allowed(backend: Any) -> None:
    state = {"skills_loaded": ["a"], "skills_metadata": [entry("a", allowed_tools=["search"])]}
    disclosed = {**state, "_skill_tools_disclosed": {"stamp": "stamp"}}
    restricting = calls(allowed_tools="restrict")
    assert blocking(restricting.begin(request("stamp", state)), backend).answer is not None
    assert blocking(restricting.begin(request("stamp", disclosed)), backend).answer is None


def test_a_hook_that_runs_once_is_due_for_the_first_call_of_a_message(backend: Any) -> None:
    hooks = {"PostToolUse": [{"matcher": "search", "type": "prompt", "prompt": "Cite.", "once": "true"}]}
    skills = [entry("a", extensions={"hooks": hooks})]
    message = says(call("other", "0"), call("search", "1"), call("search", "2"))
    state: dict[str, Any] = {"skills_loaded": ["a"], "skills_metadata": skills, "messages": [message]}
    hooked = calls(hooks=Fine())

    def result(call_id: str, **more: Any) -> Any:
        begun = blocking(hooked.begin(request("search", {**state, **more}, call_id)), backend)
        return blocking(hooked.end(begun, ToolMessage("found", tool_call_id=call_id)), backend)

    first = result("1")
    assert isinstance(first, Command)
    update: Any = first.update
    assert update["messages"][0].text == "found\n\n[a] Cite."
    assert result("2").text == "found"
    assert result("1", skill_hooks_done=update["skill_hooks_done"]).text == "found"
