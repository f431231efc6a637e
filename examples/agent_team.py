"""An agent that gives work to others: sub-agents as its tools, and a skill that asks for an agent of its own.

    python examples/agent_team.py

The lead sees two agents among its tools. Each works on a task with its own model and its own loaded skills, in the same
workspace, and gives back one answer. So the lead's requests stay short: it never reads the instructions that others
need. A skill with `context: fork` in its front matter gets such an agent without anybody naming one.
"""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from openskills.agent import Agent, Attachment, Runner
from openskills.catalog import Catalog
from openskills.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.testing import ScriptedModel, call_tools

SKILLS = Path(__file__).parent.parent / "skills"
LOG = Attachment("app.log", b"2026-03-01T10:00:00 ERROR disk 7 is full\n2026-03-01T10:05:00 ERROR disk 9 is full\n")
TRIAGE = "python3 scripts/triage.py inputs/app.log --output incident.txt"
FORKING = "---\nname: apology\ndescription: Write to customers.\ncontext: fork\n---\nBegin with: We are sorry.\n"

ANALYST = ScriptedModel(
    [
        call_tools(("skill_load", {"skill": "log-triage"})),
        call_tools(("skill_run", {"skill": "log-triage", "command": TRIAGE})),
        "Two errors of one kind: a full disk. The list is in out/incident.txt.",
    ]
)
WRITER = ScriptedModel(
    [
        call_tools(("skill_load", {"skill": "meeting-notes"})),
        call_tools(("read_file", {"file_name": "out/incident.txt"})),
        "Minutes: the disks were full; Ada orders new ones.",
    ]
)
LEAD = ScriptedModel(
    [
        call_tools(("analyst", {"task": "What went wrong, according to app.log?"})),
        call_tools(("writer", {"task": "Minutes of our talk about out/incident.txt. Ada orders new disks."})),
        call_tools(("skill_load", {"skill": "apology"})),
        "We are sorry. Two disks were full; new ones are ordered.",  # said by the agent of the skill
        "The disks were full. The minutes and a letter to the customers are written.",
    ]
)


async def main(directory: Path) -> None:
    """One request to the lead, and what everybody saw of it; `directory` holds everything."""
    (directory / "skills" / "apology").mkdir(parents=True)
    (directory / "skills" / "apology" / "SKILL.md").write_text(FORKING)
    settings = replace(Settings.from_env(), state_dir=directory / "state", cache_dir=directory / "cache")
    catalog = Catalog.from_paths(SKILLS, directory / "skills", settings=settings)
    async with SkillRuntime(catalog, "auto", settings=settings) as runtime:
        analyst = Agent("analyst", ANALYST, runtime, description="Finds out what a log says.")
        writer = Agent("writer", WRITER, runtime, description="Writes minutes.")
        lead = Agent("lead", LEAD, runtime, sub_agents=[analyst, writer])
        events = Runner("office", lead).run(user="ada", session="incident", message="What happened?", files=[LOG])
        async for event in events:
            if event.kind in ("tool.call", "end"):
                said = event.payload.get("text") or f"{event.payload['tool']} {event.payload['arguments']}"
                print(f"{event.author}: {said}")

    print("\nInstructions that were in the last request of each:")
    for name, model in (("lead", LEAD), ("analyst", ANALYST), ("writer", WRITER)):
        print(f"  {name}: {loaded(model)}")


def loaded(model: ScriptedModel) -> str:
    """The skills whose instructions the model saw last."""
    lines = [line for message in model.requests[-1].messages for line in str(message["content"]).splitlines()]
    return ", ".join(line.removeprefix("[Loaded] ") for line in lines if line.startswith("[Loaded] ")) or "none"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
