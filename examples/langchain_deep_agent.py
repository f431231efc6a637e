"""Skills in a deep agent: our middleware in the place of deepagents' own, with skills that are loaded and unloaded.

    python examples/langchain_deep_agent.py

`SkillsMiddleware` takes the arguments of deepagents' class of the same name, and the place of it in
`create_deep_agent`. It reads skills through the backend of the agent, whatever that is.
"""

import tempfile
from pathlib import Path
from shutil import copytree
from typing import Any, cast

import deepagents
from deepagents.backends import FilesystemBackend
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted_chat_model import ScriptedChatModel, calling

from openskills.adapters.langchain import SkillsMiddleware

SKILLS = Path(__file__).parent.parent / "skills"

# A type checker that is strict does not like how this function is annotated; it is `from deepagents import …`.
create_deep_agent = cast("Any", deepagents).create_deep_agent


def main() -> None:
    """A skill is loaded, turns out to be the wrong one, and makes room for another."""
    model = ScriptedChatModel(
        lines=[
            calling("load_skill", skill_name="csv-report"),
            calling("unload_skill", skill_name="csv-report"),
            calling("load_skill", skill_name="text-tools"),
            "Now I know how.",
        ]
    )
    with tempfile.TemporaryDirectory() as directory:
        copytree(SKILLS, Path(directory, "skills"))
        backend = FilesystemBackend(root_dir=directory, virtual_mode=True)
        skills = SkillsMiddleware(backend=backend, sources=["/skills/"], max_loaded_skills=1, listing="stable")
        agent = create_deep_agent(model, backend=backend, middleware=[skills], checkpointer=InMemorySaver())
        thread: Any = {"configurable": {"thread_id": "files"}}
        answer = agent.invoke({"messages": [HumanMessage("Count the words of my notes.")]}, thread)
    for message in answer["messages"]:
        if isinstance(message, ToolMessage):
            print(f"{message.name}: {message.text.splitlines()[0][:90]}")
    prompts = {request[0].text for request in model.requests}
    print(f"Loaded: {', '.join(agent.get_state(thread).values['skills_loaded'])}")
    print(f"The prompt of all {len(model.requests)} requests was {'the same' if len(prompts) == 1 else 'changed'}.")


if __name__ == "__main__":
    main()
