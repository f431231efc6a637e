"""A person who decides what may run, while the graph of LangChain waits.

    python examples/langchain_approval.py

With `ask=ask_by_interrupt` each command of a skill interrupts the graph, unless the skill's `allowed-tools` pre-approve
it. The thread is kept; the answer may come a week later, to another process. LangChain's own
`HumanInTheLoopMiddleware` works too: it asks about calls of tools, before it is known what they would run.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import langchain.agents
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted_chat_model import ScriptedChatModel, calling

from openskills.adapters.langchain import SkillRuntimeMiddleware, ask_by_interrupt
from openskills.catalog import Catalog
from openskills.runtime import SessionOptions, SkillRuntime
from openskills.settings import Settings
from openskills.sync import run

SKILLS = Path(__file__).parent.parent / "skills"

# A type checker that is strict does not like how this function is annotated; it is `from langchain.agents import …`.
create_agent = cast("Any", langchain.agents).create_agent


def main() -> None:
    """Two commands: the person says no to the first and yes to the second."""
    model = ScriptedChatModel(
        lines=[
            calling("skill_load", skill="text-tools"),
            calling("skill_run", skill="text-tools", command="rm -rf work"),
            calling("skill_run", skill="text-tools", command="wc -l SKILL.md"),
            "I have only counted.",
        ]
    )
    with tempfile.TemporaryDirectory() as directory:
        settings = replace(Settings.from_env(), state_dir=Path(directory))
        options = SessionOptions(ask=ask_by_interrupt)
        runtime = SkillRuntime(Catalog.from_paths(SKILLS), "auto", settings=settings, options=options)
        agent = create_agent(model, middleware=[SkillRuntimeMiddleware(runtime)], checkpointer=InMemorySaver())
        thread: Any = {"configurable": {"thread_id": "notes"}}
        answer = agent.invoke({"messages": [HumanMessage("Tidy up.")]}, thread)
        while asked := answer.get("__interrupt__"):
            command = asked[0].value["command"]
            decision: bool | str = "nothing is to be removed" if command.startswith("rm") else True
            print(f"May I run {command!r}? {'Yes.' if decision is True else f'No: {decision}.'}")
            answer = agent.invoke(Command(resume=decision), thread)
        run(runtime.close())
    for message in answer["messages"]:
        if isinstance(message, ToolMessage) and message.name == "skill_run":
            print(f"{message.status}: {message.text[:100]}")
    print(f"The agent says: {answer['messages'][-1].text}")


if __name__ == "__main__":
    main()
