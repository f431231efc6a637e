"""A person decides what may run: once, for the session, or not at all.

    python examples/approvals.py

`ask` is called before every command that the skill's own `allowed-tools` do not cover. Here a list of rules plays the
person. With `restrict` nobody is asked: what `allowed-tools` do not name is refused. Everything is in the audit log,
what was refused, too.
"""

import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from openskills.catalog import Catalog
from openskills.runtime import SessionOptions, SkillRuntime, SkillSession
from openskills.settings import Settings
from openskills.tools import ApprovalDecision, ApprovalQuestion

SKILLS = Path(__file__).parent.parent / "skills"


async def ask(question: ApprovalQuestion) -> ApprovalDecision | str:
    """What a person would answer. Text that is not a decision means no, with the text as the reason for the model."""
    print(f"  {question.skill} wants to run {question.command!r}.", end=" ")
    if question.command.startswith("python3 scripts/"):
        print("Yes, for the session.")
        return ApprovalDecision.ALLOW_SESSION
    if question.command.startswith("ls"):
        print("Yes, once.")
        return ApprovalDecision.ALLOW_ONCE
    print("No.")
    return "nothing is deleted without a backup"


async def main(directory: Path) -> None:
    """Commands under `ask`, then under `restrict`, then the log; `directory` is where everything is kept."""
    settings = replace(Settings.from_env(), state_dir=directory)
    async with SkillRuntime(Catalog.from_paths(SKILLS), executor="auto", settings=settings) as runtime:
        async with runtime.session("asking", options=SessionOptions(ask=ask)) as session:
            print("Asked before a command is run:")
            await run(session, "csv-report", "python3 scripts/report.py --help")
            await run(session, "csv-report", "python3 scripts/report.py --help")
            await run(session, "csv-report", "ls out")
            await run(session, "csv-report", "ls out")
            await run(session, "csv-report", "rm -r out")

            print("\nNot asked, because the allowed-tools of this skill have Bash(python3:*) among them:")
            await run(session, "markdown-links", "python3 scripts/check_links.py SKILL.md")

        async with runtime.session("restricted", options=SessionOptions(restrict=True)) as session:
            print("\nWith restrict, nothing but what allowed-tools name is run:")
            await run(session, "markdown-links", "python3 scripts/check_links.py SKILL.md")
            await run(session, "markdown-links", "ls out")

    print("\nThe audit log:")
    for line in (directory / "audit.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        if record["event"] != "end":
            print(f"  {record['session']}: {record['argv'][-1]}: {record.get('approval', 'refused')}")


async def run(session: SkillSession, skill: str, command: str) -> None:
    """Have a model run a command of a skill, and say how it went."""
    await session.call("skill_load", {"skill": skill})
    result = await session.call("skill_run", {"skill": skill, "command": command})
    print(f"  -> {result.text if result.error else 'it was run'}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
