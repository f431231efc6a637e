"""Agents of one conversation share its files, and not the skills that they loaded.

    python examples/sub_agents.py

A lead and an analyst work in the same session. Each sees only what it loaded itself, so neither pays for the other's
instructions. An editor begins with what the lead has, because it is told to.
"""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from openskills.catalog import Catalog
from openskills.runtime import SkillRuntime, SkillSession
from openskills.settings import Settings

SKILLS = Path(__file__).parent.parent / "skills"


async def main(directory: Path) -> None:
    """Three agents in the session `meeting`; `directory` holds their files while they work."""
    settings = replace(Settings.from_env(), state_dir=directory)
    async with (
        SkillRuntime(Catalog.from_paths(SKILLS), executor="auto", settings=settings) as runtime,
        runtime.session("meeting", agent="lead") as lead,
        runtime.session("meeting", agent="analyst") as analyst,
    ):
        await lead.call("skill_load", {"skill": "meeting-notes"})
        await analyst.call("skill_load", {"skill": "csv-report", "docs": ["references/types.md"]})
        print(f"The lead sees {seen_by(lead)}.")
        print(f"The analyst sees {seen_by(analyst)}.")

        print("\nWhat the session remembers:")
        for key, value in sorted(lead.state().items()):
            print(f"  {key} = {value}")

        print("\nFiles belong to the session, not to an agent:")
        await lead.call("write_file", {"file_name": "work/plan.md", "contents": "Begin with the sales of March."})
        plan = await analyst.call("read_file", {"file_name": "work/plan.md"})
        print(f"  the lead writes a plan, and the analyst reads {plan.data.get('contents', plan.text)!r}")

        print("\nAn editor that inherits from the lead:")
        async with runtime.session("meeting", agent="editor", inherit_from="lead") as editor:
            print(f"  it begins with {seen_by(editor)}")
            await editor.call("skill_unload", {"skill": "meeting-notes"})
            print(f"  it unloads that and sees {seen_by(editor)}; the lead still sees {seen_by(lead)}")


def seen_by(session: SkillSession) -> str:
    """The skills whose instructions are in a request to this agent's model."""
    request = session.context([{"role": "user", "content": "Begin."}])
    lines = [line for message in request for line in message["content"].splitlines()]
    skills = [line.removeprefix("[Loaded] ") for line in lines if line.startswith("[Loaded] ")]
    return ", ".join(skills) or "no skill"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
