"""The client program that the conformance suite of MCP runs: `python conformance_client.py URL`.

The suite names the scenario in `MCP_CONFORMANCE_SCENARIO`. Skills are read through a catalog, tools through
`mcp_tools`, as an application would.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from openskills.adapters.mcp import mcp_tools
from openskills.agent import ExtraTool
from openskills.catalog import Catalog
from openskills.catalog.sources.parse import parse_source
from openskills.errors import SkillError
from openskills.settings import Settings

EXAMPLES: Mapping[str, Any] = {"number": 2.5, "integer": 3, "boolean": True, "array": [], "object": {}}


def use_skills(url: str, settings: Settings, *, load: bool) -> None:
    """List the skills; with `load`, load each and read its documents until a file is wrong."""
    catalog = Catalog([parse_source(f"mcp+{url}", settings, trusted=True)], settings)
    for skill in catalog.skills:
        if load:
            skill.body()
            for doc in skill.docs():
                skill.read(doc.path)
    if catalog.problems:
        raise SkillError(catalog.problems[0].message)


def find_example(name: str, schema: Mapping[str, Any], tools: Mapping[str, ExtraTool]) -> Any:
    """A value for one field of a tool's arguments; one scenario wants back the `schema` of its first tool."""
    if name == "schema":
        return dict(next(iter(tools.values())).parameters)
    return schema.get("enum", [EXAMPLES.get(str(schema.get("type")), "text")])[0]


async def use_tools(url: str, settings: Settings, *, call: bool) -> None:
    """Call every tool once, as the suite asks for in its context, else with example arguments."""
    context = json.loads(settings.environment.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    calls = context.get("toolCalls") or context.get("tool_calls")
    tools = mcp_tools(url, settings=settings, timeout=20.0)
    try:
        found = {tool.name: tool for tool in await tools.open()}
        for tool in found.values() if calls is None and call else ():
            properties: Mapping[str, Any] = tool.parameters.get("properties", {})
            await tool.run({key: find_example(key, one, found) for key, one in properties.items()})
        for one in calls or ():
            if one["name"] in found:
                await found[one["name"]].run(one["arguments"])
    finally:
        await tools.close()


def main() -> None:
    """Run one scenario; exit with 1 if it fails, which scenarios with a dishonest server expect."""
    scenario, url = os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), sys.argv[-1]
    with tempfile.TemporaryDirectory() as home:
        settings = Settings.from_env({**os.environ, "HOME": home})
        try:
            if "2640" in scenario:
                use_skills(url, settings, load="no-prefetch" not in scenario)
            else:
                asyncio.run(use_tools(url, settings, call="no-deref" not in scenario))
        except SkillError as error:
            sys.exit(error.message)


if __name__ == "__main__":
    main()
