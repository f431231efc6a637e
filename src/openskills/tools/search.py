"""`skill_search`: find skills that the overview has no room for."""

import asyncio

from pydantic import Field

from openskills.paths import printable
from openskills.prompt.escape import one_line
from openskills.tools.result import ToolResult
from openskills.tools.tool import Arguments, Tool, ToolContext

MOST = 20
_SHOWN = 200
_LONGEST = 2_000
_FITTING = 0.5


class SearchArguments(Arguments):
    """What `skill_search` takes."""

    query: str = Field(description="What you want to do, in a few words")
    limit: int = Field(default=5, ge=1, le=MOST, description="How many skills to list at most")


async def search(context: ToolContext, arguments: SearchArguments) -> ToolResult:
    """The skills that fit a query, best first."""
    # The first search makes the index.
    hits = await asyncio.to_thread(context.skills.search, arguments.query, arguments.limit)
    found = [
        {"name": printable(hit.skill.name), "description": one_line(hit.skill.description)[:_LONGEST]} for hit in hits
    ]
    asked = arguments.query if len(arguments.query) <= _SHOWN else f"{arguments.query[:_SHOWN]}…"
    data = {"query": printable(asked), "skills": found}
    if not found:
        data["hint"] = "nothing fits; try other words, or words from the task itself"
    elif hits[0].fit < _FITTING:
        data["hint"] = "none of these fits well; try other words, or go on without a skill"
    return ToolResult.json(data)


SKILL_SEARCH = Tool(
    "skill_search",
    "Find skills by what they do, when the list of available skills is not complete. Load one with skill_load.",
    SearchArguments,
    search,
)
