"""What happens around calls of tools; whole graphs are in the tests of options and hooks.

The tools as LangChain sees them.
"""

from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from openskills.adapters.langchain.backend_io import run_blocking
from openskills.adapters.langchain.discovery import BackendDiscovery
from openskills.adapters.langchain.hooks import HookResult, HookRun
from openskills.adapters.langchain.options import SkillOptions
from openskills.adapters.langchain.skill_tools import ToolCallGuard, build_skill_tools
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.runtimes import runtime
from tests.adapters.langchain.scripted import call, says
from tests.skill_writer import WriteSkill


class Fine:
    """Every command ends well."""

    async def run(self, run: HookRun) -> HookResult:  # noqa: ARG002
        return HookResult(0)


def request(tool: str, state: dict[str, Any], call_id: str = "1", **args: Any) -> ToolCallRequest:
    made = runtime(state, call_id)
    return ToolCallRequest(tool_call=call(tool, call_id, **args), tool=None, state=made.state, runtime=made)


def calls(**options: Any) -> ToolCallGuard:
    return ToolCallGuard(SkillOptions(**options), BackendDiscovery(["/skills/"]), 80_000)


def test_a_call_goes_on_as_it_is_when_nothing_is_loaded_or_nothing_is_on(backend: Any) -> None:
    for state in ({}, {"skills_loaded": ["a"]}):
        made = request("search", state)
        begun = run_blocking(calls().before_call(made), backend)
        assert (begun.request, begun.answer) == (made, None)


def test_rules_hold_after_an_interrupt_when_the_list_of_skills_has_to_be_found_again(
    write_skill: WriteSkill, backend: Any
) -> None:
    write_skill("a", front="allowed-tools: search\n")
    state = {"skills_loaded": ["a"], "skills_metadata": None}
    begun = run_blocking(calls(allowed_tools="restrict").before_call(request("send", state)), backend)
    assert isinstance(begun.answer, ToolMessage)
    assert (begun.answer.status, begun.answer.tool_call_id, begun.answer.name) == ("error", "1", "send")


def test_tools_that_a_skill_disclosed_are_allowed(backend: Any) -> None:
    state = {"skills_loaded": ["a"], "skills_metadata": [entry("a", allowed_tools=["search"])]}
    disclosed = {**state, "_skill_tools_disclosed": {"stamp": "stamp"}}
    restricting = calls(allowed_tools="restrict")
    assert run_blocking(restricting.before_call(request("stamp", state)), backend).answer is not None
    assert run_blocking(restricting.before_call(request("stamp", disclosed)), backend).answer is None


def test_a_hook_that_runs_once_is_due_for_the_first_call_of_a_message(backend: Any) -> None:
    hooks = {"PostToolUse": [{"matcher": "search", "type": "prompt", "prompt": "Cite.", "once": "true"}]}
    skills = [entry("a", extensions={"hooks": hooks})]
    message = says(call("other", "0"), call("search", "1"), call("search", "2"))
    state: dict[str, Any] = {"skills_loaded": ["a"], "skills_metadata": skills, "messages": [message]}
    hooked = calls(hooks=Fine())

    def result(call_id: str, **more: Any) -> Any:
        begun = run_blocking(hooked.before_call(request("search", {**state, **more}, call_id)), backend)
        return run_blocking(hooked.after_call(begun, ToolMessage("found", tool_call_id=call_id)), backend)

    first = result("1")
    assert isinstance(first, Command)
    update: Any = first.update
    assert update["messages"][0].text == "found\n\n[a] Cite."
    assert result("2").text == "found"
    assert result("1", skill_hooks_done=update["skill_hooks_done"]).text == "found"


class NoDoor:
    """Nobody calls these tools here."""

    def load_blocking(self, skill: str, args: str, runtime: Any) -> str:  # noqa: ARG002
        return skill + args

    async def load(self, skill: str, args: str, runtime: Any) -> str:  # noqa: ARG002
        return skill + args

    def unload(self, skill: str, runtime: Any) -> str:  # noqa: ARG002
        return skill


def schemas(*, with_arguments: bool) -> dict[str, Any]:
    door = NoDoor()
    tools = build_skill_tools(door.load_blocking, door.load, door.unload, with_arguments=with_arguments)
    return {tool.name: tool.tool_call_schema.model_json_schema() for tool in tools}  # type: ignore[union-attr]


def test_a_model_sees_the_name_of_the_skill_and_nothing_of_ours() -> None:
    found = schemas(with_arguments=False)
    assert {name: list(schema["properties"]) for name, schema in found.items()} == {
        "load_skill": ["skill_name"],
        "unload_skill": ["skill_name"],
    }
    assert found["load_skill"]["properties"]["skill_name"]["description"].startswith("Name of the skill to load")


def test_arguments_are_offered_when_skills_take_them() -> None:
    found = schemas(with_arguments=True)["load_skill"]
    assert list(found["properties"]) == ["skill_name", "args"]
    assert found["required"] == ["skill_name"]
