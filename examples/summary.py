"""A long conversation in fewer words, and what becomes of the skills in it.

    python examples/summary.py

When the history has more than so many tokens, all but its last turns become a summary, written by a rule or by a model.
The log keeps everything; only what the model is sent gets shorter. The text of a loaded skill stood in what was
summarised: it is shown again in a message of its own, or, if you say so, the skill counts as unloaded and the model is
told. It is never loaded and out of sight.
"""

import asyncio
from pathlib import Path

from openskills.agent import Agent, Runner, Summary, summarise_by_model
from openskills.catalog import Catalog
from openskills.runtime import SessionOptions, SkillRuntime
from openskills.testing import ScriptedModel, call_tools

SKILLS = Path(__file__).parent.parent / "skills"
QUESTIONS = ("How do I count the words of a file?", "How do I sort its lines?", "And how do I replace a word?")


async def main() -> None:
    """The same conversation twice: with the skill shown again, and with the skill unloaded."""
    catalog = Catalog.from_paths(SKILLS)
    instructions = catalog.get("text-tools").body().strip()
    for when_lost in ("restore", "unload"):
        print(f'SessionOptions(when_lost="{when_lost}")')
        model = ScriptedModel(
            [
                call_tools(("skill_load", {"skill": "text-tools"})),
                "With `scripts/text.py count`. " + "It says a lot more about the file than you asked for. " * 10,
                "With `scripts/text.py sort`.",
                "With `scripts/text.py replace`.",
            ]
        )
        secretary = ScriptedModel(["The user learns about the skill text-tools: count."])
        agent = Agent(
            "teacher",
            model,
            SkillRuntime(catalog, options=SessionOptions(load_mode="session", when_lost=when_lost)),
            instructions="You teach people to use their files.",
            summary=Summary(summarise_by_model(secretary), tokens=100, keep_turns=1),
        )
        runner = Runner("school", agent)
        for question in QUESTIONS:
            await runner.reply(user="ada", session="lesson", message=question)
        tell(model, instructions)


def tell(model: ScriptedModel, instructions: str) -> None:
    """What the model was sent the last time."""
    sent = model.requests[-1].messages
    for message in sent[1:]:
        print(f"  {message['role']}: {str(message['content']).replace(instructions, '(the instructions)')[:110]!r}")
    is_shown = any(instructions in str(message["content"]) for message in sent)
    print(f"  The model {'still reads' if is_shown else 'does not read'} the instructions of text-tools.\n")


if __name__ == "__main__":
    asyncio.run(main())
