"""Which tools a model gets: a profile, or a list of your own.

    python examples/profiles.py

`full` is everything, `knowledge_only` is for agents that read skills and run nothing, and a list is exactly that list.
A model that calls what it does not have is told so, in words it can act on. No command is run here.
"""

import asyncio
from pathlib import Path

from openskills.catalog import Catalog
from openskills.errors import InvalidArgument
from openskills.runtime import SessionOptions, SkillRuntime

SKILLS = Path(__file__).parent.parent / "skills"

CHOICES = {
    "everything": SessionOptions(profile="full"),
    "knowledge": SessionOptions(profile="knowledge_only"),
    "my-own-list": SessionOptions(tools=["skill_load", "skill_run", "read_file"]),
}


async def main() -> None:
    """Open one session with each choice, and call tools that some of them lack."""
    catalog = Catalog.from_paths(SKILLS)
    async with SkillRuntime(catalog, executor="auto") as runtime:
        for name, options in CHOICES.items():
            async with runtime.session(name, options=options) as session:
                tools = [tool["name"] for tool in session.tools("mcp")]
                print(f"{name}: {len(tools)} tools: {', '.join(tools)}")

        print("\nWith knowledge_only a model that tries to run a command reads:")
        async with runtime.session("knowledge", options=CHOICES["knowledge"]) as session:
            result = await session.call("skill_run", {"skill": "csv-report", "command": "ls"})
            print(f"  {result.text}")

        print("\nWith my own list, a model that swaps two words, or wants more than it has, reads:")
        async with runtime.session("my-own-list", options=CHOICES["my-own-list"]) as session:
            for tool in ("load_skill", "write_file"):
                result = await session.call(tool, {})
                print(f"  {result.text}")

    print("\nA list that can never work is refused when the runtime is made:")
    try:
        SkillRuntime(catalog, executor="auto", options=SessionOptions(tools=["skill_run"]))
    except InvalidArgument as error:
        print(f"  {error}")

    print("\nWithout an executor the profile is knowledge_only by itself:")
    async with SkillRuntime(catalog).session("no-executor") as session:
        print(f"  {', '.join(tool['name'] for tool in session.tools('mcp'))}")


if __name__ == "__main__":
    asyncio.run(main())
