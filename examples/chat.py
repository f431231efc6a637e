"""A conversation at the terminal with an agent that uses skills.

    python examples/chat.py [--model openai/gpt-5] [--executor container] [FILE ...]

Write a request and press Enter; an empty line ends it. The files go with the first message. The answer appears as the
model makes it, with the commands that it runs. Unless you name a model, rules play it. `openskills chat` can do more.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from openskills.agent import Agent, Attachment, Runner
from openskills.catalog import Catalog
from openskills.runtime import SkillRuntime
from openskills.settings import Settings

SKILLS = Path(__file__).parent.parent / "skills"


async def main(directory: Path, model: str, executor: str, files: Sequence[Path]) -> None:
    """Read what the user writes, and let the agent answer, until nothing more is written."""
    settings = replace(Settings.from_env(), state_dir=directory)
    attached = [Attachment(file.name, file.read_bytes()) for file in files]
    async with SkillRuntime(Catalog.from_paths(SKILLS), executor, settings=settings) as runtime:
        runner = Runner("chat", Agent("assistant", model, runtime))
        while message := await typed():
            await answer(runner, message, attached)
            attached = []
    print("Goodbye.")


async def answer(runner: Runner, message: str, files: Sequence[Attachment]) -> None:
    """One turn. Whatever goes wrong in it, the next one begins as always."""
    async for event in runner.run(user="you", session="chat", message=message, files=files):
        match event.kind:
            case "assistant.delta":
                print(event.payload["text"], end="", flush=True)
            case "tool.call":
                print(f"[{event.payload['tool']} {event.payload['arguments']}]")
            case "error":
                print(f"Sorry: {event.payload['message']}")
            case "end":
                print("\n")
            case _:
                pass


async def typed() -> str:
    """The next line; nothing at the end of the input. Waiting for it must not hold up the event loop."""
    try:
        return (await asyncio.to_thread(input, "> ")).strip()
    except EOFError:
        return ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Talk to an agent that uses skills.")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--model", default="rule")
    parser.add_argument("--executor", default="auto")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory), given.model, given.executor, given.files))
