"""Skills in an agent of LangChain: all tools of OpenSkill, commands in a sandbox, files that are kept.

    python examples/langchain_agent.py

The agent is LangChain's own `create_agent`. The middleware shows it the skills, gives it the tools, and keeps what is
loaded in the state of the thread: going back to an earlier checkpoint goes back to what was loaded there.
"""

import base64
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import langchain.agents
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted_chat_model import ScriptedChatModel, calling

from openskills.adapters.langchain import SkillRuntimeMiddleware, loaded_skills
from openskills.catalog import Catalog
from openskills.runtime import SessionOptions, SkillRuntime
from openskills.settings import Settings
from openskills.sync import run

SKILLS = Path(__file__).parent.parent / "skills"
TABLE = b"month,amount\n2026-01,120\n2026-02,80\n2026-03,\n"
REPORT = "python3 scripts/report.py work/inputs/sales.csv --output report.md"

# A type checker that is strict does not like how this function is annotated; it is `from langchain.agents import …`.
create_agent = cast("Any", langchain.agents).create_agent


def main() -> None:
    """Two turns of a thread, and one that begins where the first ended."""
    model = ScriptedChatModel(
        lines=[
            calling("skill_load", skill="csv-report"),
            calling("skill_run", skill="csv-report", command=REPORT, save_as_artifacts=True),
            "One month has no amount; the report is ready.",
            calling("skill_unload", skill="csv-report"),
            "You are welcome.",
            "It is still there.",
        ]
    )
    with tempfile.TemporaryDirectory() as directory:
        settings = replace(Settings.from_env(), state_dir=Path(directory))
        options = SessionOptions(load_mode="session")
        runtime = SkillRuntime(Catalog.from_paths(SKILLS), "auto", settings=settings, options=options)
        converse(model, runtime)
        run(runtime.close())


def converse(model: ScriptedChatModel, runtime: SkillRuntime) -> None:
    """What an application does with an agent."""
    agent = create_agent(model, middleware=[SkillRuntimeMiddleware(runtime)], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "sales"}}

    file = {"type": "file", "base64": base64.b64encode(TABLE).decode(), "extras": {"filename": "sales.csv"}}
    answer = agent.invoke({"messages": [HumanMessage(["What is in this table?", file])]}, thread)
    for message in answer["messages"]:
        if isinstance(message, ToolMessage):
            print(f"{message.name}: {message.text.splitlines()[0][:60]}")
            files: dict[str, Any] = message.artifact or {}
            for kept in files.get("artifact_files", ()):
                print(f"  kept {kept['ref']}")
    print(f"The agent says: {answer['messages'][-1].text}")
    print(f"Loaded: {', '.join(loaded_skills(agent.get_state(thread).values))}")
    first = agent.get_state(thread).config

    agent.invoke({"messages": [HumanMessage("Thank you.")]}, thread)
    print(f"After the next turn: {', '.join(loaded_skills(agent.get_state(thread).values)) or 'nothing'}")

    agent.invoke({"messages": [HumanMessage("And if I had asked something else?")]}, first)
    print(f"Back where the first turn ended: {', '.join(loaded_skills(agent.get_state(thread).values))}")


if __name__ == "__main__":
    main()
