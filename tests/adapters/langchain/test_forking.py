"""Subagents for skills; whole graphs are in the tests of the options."""

from langchain_core.tools import tool

from openskills.adapters.langchain.forking import Delegation, Task


@tool("task")
def task_tool(description: str, subagent_type: str, runtime: str) -> str:
    """Do it."""
    return f"{subagent_type} does {description} in {runtime}"


@tool
def other() -> str:
    """Something else."""
    return ""


def test_an_agent_without_subagents_has_no_task() -> None:
    assert Task.among([other]) is None


def test_a_delegation_is_a_call_of_the_task() -> None:
    task = Task.among([other, task_tool])
    assert task is not None
    assert task.call(Delegation("it"), "here") == "general-purpose does it in here"
