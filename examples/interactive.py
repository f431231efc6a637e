"""A command that asks questions, and a model that answers them.

    python examples/interactive.py

`skill_exec` starts a command and returns what it prints first, `skill_write_stdin` types into it, `skill_poll_session`
reads on. The command lives until it ends, through any number of calls and turns. Its last answer has the same `result`
that `skill_run` gives. The skill for it is written here, into a temporary directory.
"""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from openskills.catalog import Catalog
from openskills.runtime import SkillRuntime
from openskills.settings import Settings

SKILL_MD = """\
---
name: name-badge
description: Make a name badge. Use when the user wants a badge for a conference.
---

Run `python3 scripts/badge.py`. It asks for a name and a company, and writes out/badge.txt.
"""

BADGE_PY = """\
import os, pathlib

name = input("Your name? ")
company = input("Your company? ")
badge = pathlib.Path(os.environ["OUTPUT_DIR"]) / "badge.txt"
badge.write_text(f"{name}, {company}\\n")
"""


async def main(directory: Path) -> None:
    """Start the command, answer its two questions, and see what it made; `directory` holds everything."""
    write_skill(directory / "skills" / "name-badge")
    settings = replace(Settings.from_env(), state_dir=directory / "state", cache_dir=directory / "cache")
    catalog = Catalog.from_paths(directory / "skills", settings=settings)
    async with (
        SkillRuntime(catalog, executor="auto", settings=settings) as runtime,
        runtime.session("conference") as session,
    ):
        await session.call("skill_load", {"skill": "name-badge"})

        # A call waits for `yield_ms` at most, and comes back as soon as the command seems to wait for input.
        command = {"skill": "name-badge", "command": "python3 scripts/badge.py", "yield_ms": 30_000}
        first = await session.call("skill_exec", command)
        if first.error:
            raise SystemExit(first.text)
        print(f"The command is {first.data['status']} and asks {first.data['output']!r}")

        talk = {"session_id": first.data["session_id"], "yield_ms": 30_000}
        second = await session.call("skill_write_stdin", {**talk, "chars": "Ada Lovelace", "submit": True})
        print(f"The command is {second.data['status']} and asks {second.data['output']!r}")
        print(f"It needs input: {second.data['interaction']['needs_input']}")

        # The model need not wait: it types, does something else, and comes back later to see how it went.
        answer = {**talk, "chars": "Analytical Engines", "submit": True, "yield_ms": 0}
        await session.call("skill_write_stdin", answer)
        last = await session.call("skill_poll_session", talk)
        result = last.data["result"]
        print(f"The command has {last.data['status']} with code {result['exit_code']}.")
        made = result["primary_output"]
        print(f"It made {made['ref']}: {made['content']!r}")


def write_skill(folder: Path) -> None:
    """A skill is a folder with a SKILL.md; this one has a script, too."""
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL_MD)
    (folder / "scripts" / "badge.py").write_text(BADGE_PY)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
