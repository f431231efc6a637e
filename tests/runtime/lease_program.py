"""A program with one runtime that follows commands on stdin; one line on stdout for each.

Arguments: the address of the store, a directory with skills, the seconds that it waits for a conversation. Commands:
`open`, `log TEXT`, `spam` (log until it fails), `run COMMAND`, `close`, `continue` (check nothing, only answer).
"""

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

from openskills.catalog.catalog import Catalog
from openskills.errors import SkillError
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.settings import Settings


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


async def follow(runtime: SkillRuntime, stack: AsyncExitStack, opened: list[SkillSession], line: str) -> str:
    verb, _, rest = line.partition(" ")
    if verb == "open":
        opened.append(await stack.enter_async_context(runtime.session("s", user="u", app="app")))
        await opened[0].call("skill_load", {"skill": "alpha"})
    elif verb == "log":
        await opened[0].log("note", {"text": rest})
    elif verb == "spam":
        for number in count():
            await opened[0].log("note", {"text": f"{rest}{number}"})
            say(f"logged {number}")
    elif verb == "run":
        result = await opened[0].call("skill_run", {"skill": "alpha", "command": rest})
        return f"done {result.error}"
    elif verb == "close":
        opened.clear()
        await stack.aclose()
    return "done"


async def main() -> None:
    store, directory, wait = sys.argv[1:4]
    leases = {"OPENSKILL_LEASE_TTL": "1s", "OPENSKILL_LEASE_WAIT": wait}
    settings = Settings.from_env({"HOME": directory, "PATH": "/usr/bin:/bin", **leases})
    catalog = Catalog.from_paths(Path(directory) / "skills", settings=settings)
    async with SkillRuntime(catalog, "local", settings=settings, store=store) as runtime:
        stack, opened = AsyncExitStack(), list[SkillSession]()
        say("ready")
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                say(await follow(runtime, stack, opened, line))
            except SkillError as error:
                say(f"error {error.reason} {error.message}")


if __name__ == "__main__":
    asyncio.run(main())
