"""Questions that need a file and some work, in the form of the GAIA benchmark, answered by an agent and scored.

    python examples/gaia.py
    OPENAI_API_KEY=... python examples/gaia.py --model openai/gpt-5 --data gaia-level1

`examples/gaia` has a few questions of our own. The real ones are on Hugging Face, for those who accept their terms;
`gaia_download.py` downloads them. Questions about images and recordings need the skills `ocr` and `whisper` in
`examples/gaia/skills`, and the programs that these name. Without `--model`, a rehearsal plays one: it runs the commands
that are written down for our questions, and answers with what they really print.
"""

import argparse
import asyncio
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gaia_dataset import FINAL, Question, final_answer, is_right, load

from openskills.agent import Agent, Attachment, Model, ModelRequest, Runner
from openskills.catalog import Catalog
from openskills.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.testing import ScriptedModel, call_tools

SKILLS = Path(__file__).parent.parent / "skills"
OURS = Path(__file__).parent / "gaia"
INSTRUCTIONS = f"""\
Answer the question with the skills and files that you have. Say how you did it, then end with a line "{FINAL} ...":
a number without units or thousands separators, as few words as possible, or a list of these, separated by commas."""


async def main(directory: Path, given: argparse.Namespace) -> None:
    """Ask every question in a session of its own, and count what was right; `directory` holds the agents' files."""
    settings = replace(Settings.from_env(), state_dir=directory)
    questions = [question for question in load(given.data) if given.level in (None, question.level)]
    right = 0
    async with SkillRuntime(Catalog.from_paths(SKILLS, OURS / "skills"), "auto", settings=settings) as runtime:
        for question in questions:
            agent = Agent("solver", given.model or rehearsed(question), runtime, instructions=INSTRUCTIONS)
            right += await answered(Runner("gaia", agent), question)
    print(f"{right} of {len(questions)} answers are right.")


async def answered(runner: Runner, question: Question) -> bool:
    """Ask one question; says whether the answer was right."""
    files = [Attachment(question.file.name, question.file.read_bytes())] if question.file else []
    reply = await runner.reply(user="gaia", session=question.task_id, message=question.text, files=files)
    answer = final_answer(reply.text)
    right = question.answer is not None and is_right(answer, question.answer)
    verdict = "right" if right else f"wrong, it is {question.answer}" if question.answer else "nobody may know"
    took = question.notes.get("How long did this take?", "some time")
    print(f"{question.task_id} (level {question.level}, it took a person {took}): {question.text}")
    print(f"  The agent says {answer!r}: {verdict}.\n" if not reply.error else f"  {reply.error['message']}\n")
    return right


def rehearsed(question: Question) -> Model:
    """A model that knows which command answers the question, and nothing of the answer."""
    parts: Mapping[str, Mapping[str, str]] = json.loads((OURS / "rehearsal.json").read_text("utf-8"))
    if question.task_id not in parts:
        raise SystemExit(f"{question.task_id} was not rehearsed; name a model with --model")
    part = parts[question.task_id]

    def answer(request: ModelRequest) -> str:
        printed: str = json.loads(request.messages[-1]["content"])["stdout"]
        return f"I ran {part['skill']}.\n{FINAL} {', '.join(re.findall(part['pick'], printed, re.MULTILINE))}"

    load_skill = call_tools(("skill_load", {"skill": part["skill"]}))
    return ScriptedModel(
        [load_skill, call_tools(("skill_run", {"skill": part["skill"], "command": part["command"]})), answer]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Let an agent answer questions, and score it.")
    parser.add_argument("--data", type=Path, default=OURS)
    parser.add_argument("--model")
    parser.add_argument("--level", type=int)
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory), parser.parse_args()))
