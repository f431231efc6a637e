"""Calls of one answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openskills.agent.extra_tool import ExtraTool
from openskills.agent.model import Answer, ToolCall
from openskills.errors import InvalidArgument
from openskills.sync import run
from openskills.tools.result import ToolResult
from tests.agent.agents import agent_in, calling, heard, kinds, skills_for_agents


async def shout(arguments: Mapping[str, Any]) -> str:
    if "text" not in arguments:
        raise InvalidArgument("text", "is missing")
    if not arguments["text"]:
        raise KeyError("nobody thought of this")
    return str(arguments["text"]).upper()


def test_tools_of_your_own_are_called_beside_those_of_skills(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    broken = Answer(
        "",
        (
            ToolCall("a", "shout", "[]"),
            ToolCall("b", "shout", "{"),
            ToolCall("c", "shout", "{}"),
            ToolCall("d", "shout", '{"text": ""}'),
        ),
    )
    agent, model = agent_in(
        tmp_path,
        [calling(("shout", {"text": "hi"})), broken, Answer("ok")],
        tools=[ExtraTool("shout", "Shouts.", shout)],
    )
    run(heard(agent))
    results = [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]
    assert results[0] == "HI"
    assert all(result.startswith("error: ") for result in results[1:])
    assert model.requests[0].tools[-1]["function"]["name"] == "shout"


def test_what_a_command_keeps_is_an_event(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    arguments = {"skill": "alpha", "command": "echo hi > out/a.txt", "outputs": {"globs": ["out/*"], "save": True}}
    agent, _ = agent_in(
        tmp_path,
        [calling(("skill_load", {"skill": "alpha"})), calling(("skill_run", arguments)), Answer("ok")],
        executor="local",
    )
    events = run(heard(agent))
    assert "artifact" in kinds(events)
    kept = next(event for event in events if event.kind == "artifact")
    assert kept.payload["ref"] == "artifact://out/a.txt@0"


@pytest.mark.parametrize("data", [{"artifact_files": "oops"}, {"artifact_files": [3]}, {"model_usage": {"a": 1}}])
def test_what_a_tool_of_the_application_calls_as_we_do_breaks_no_run(tmp_path: Path, data: dict[str, Any]) -> None:
    async def odd(arguments: object) -> ToolResult:
        return ToolResult("fine", data)

    skills_for_agents(tmp_path)
    agent, _ = agent_in(tmp_path, [calling(("odd", {})), Answer("ok")], tools=[ExtraTool("odd", "", odd)])
    assert run(heard(agent))[-1].payload["text"] == "ok"


def test_a_command_waits_for_the_load_of_its_skill_in_the_same_answer(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    run_it = {"skill": "alpha", "command": "echo hi"}
    both = calling(("skill_load", {"skill": "alpha"}), ("skill_run", run_it), ("skill_list_docs", {"skill": "beta"}))
    agent, model = agent_in(tmp_path, [both, Answer("ok")], executor="local")
    run(heard(agent))
    results = [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]
    assert [text[:14] for text in results[:2]] == ["loaded: alpha\n", '{"stdout":"hi\\']
