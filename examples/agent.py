"""An agent that uses skills, as events that happen, and a conversation that outlives its process.

    python examples/agent.py
    OPENAI_API_KEY=... python examples/agent.py openai/gpt-5

A file is sent with a message. The agent finds the skill for it, reads its instructions, runs its script in the sandbox,
and keeps what it made. Unless you name a model, rules play it: they need no key, and no language model is asked.
"""

import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from openskills.agent import Agent, Attachment, Runner
from openskills.catalog import Catalog
from openskills.runtime import SkillRuntime
from openskills.session import Event
from openskills.settings import Settings

SKILLS = Path(__file__).parent.parent / "skills"
SALES = Attachment("sales.csv", b"month,amount\n2026-01,12\n2026-02,19\n")


async def main(directory: Path, model: str) -> None:
    """Two messages of a user, each to a new runtime, as if the program had ended in between."""
    async with runtime_in(directory) as runtime:
        agent = Agent("assistant", model, runtime, instructions="You help an office with its files.")
        async for event in Runner("office", agent).run(
            user="ada", session="sales", message="Make a report of sales.csv, please.", files=[SALES]
        ):
            tell(event)

    print("\nThe program ends here, and begins again. The session is in a file, and so is the report.")
    async with runtime_in(directory) as runtime:
        runner = Runner("office", Agent("assistant", model, runtime))
        reply = await runner.reply(user="ada", session="sales", message="Once more: a report of sales.csv.")
        new = [event.payload["ref"] for event in reply.events if event.kind == "artifact"]
        print(f"Without the file being sent again, the agent makes {', '.join(new)}.")
        print(f"The log of the session has {reply.events[-1].seq} events.")


def runtime_in(directory: Path) -> SkillRuntime:
    """Skills, a sandbox, and sessions in an SQLite file; `directory` holds everything."""
    settings = replace(Settings.from_env(), state_dir=directory)
    return SkillRuntime(Catalog.from_paths(SKILLS), "auto", settings=settings, store=f"sqlite:///{directory}/s.db")


def tell(event: Event) -> None:
    """What has happened, as it happens. Every event is in the log of the session, except for pieces of an answer."""
    said = event.payload
    match event.kind:
        case "message" if event.author == "user":
            print(f"User: {said['message']['content']}")
        case "tool.call":
            print(f"  {said['tool']} {said['arguments']}")
        case "tool.response":
            print(f"    gives {said['content'][:70]}")
        case "artifact":
            print(f"    keeps {said['ref']}")
        case "assistant.delta":
            print(said["text"], end="")
        case "end":
            print(f"\nIt took {said['steps']} answers of the model and {said['tool_calls']} calls of tools.")
        case "error":
            print(f"It came to nothing: {said['message']}")
        case _:
            pass


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory), *(sys.argv[1:] or ["rule"])))
