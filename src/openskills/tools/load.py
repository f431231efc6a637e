"""`skill_load`: the text of a skill comes into the model's sight."""

import asyncio

from pydantic import Field

from openskills.session.changes import Loaded
from openskills.tools.documents import checked_docs
from openskills.tools.lenient import Texts
from openskills.tools.result import ToolResult
from openskills.tools.tool import Arguments, Tool, ToolContext


class LoadArguments(Arguments):
    """What `skill_load` takes."""

    skill: str = Field(description="Name of the skill, as it is listed")
    docs: Texts | None = Field(default=None, description="Documents of the skill to show as well, by path")
    include_all_docs: bool = Field(default=False, description="Show every document; prefer a few")


async def load(context: ToolContext, arguments: LoadArguments) -> ToolResult:
    """Load a skill, and documents with it when some are named; those that were selected before stay otherwise."""
    skill = context.skills.get(arguments.skill)
    docs = checked_docs(skill, arguments.docs, include_all=arguments.include_all_docs)
    # Read here: what cannot be read is not loaded, and the model is told why.
    body = await asyncio.to_thread(context.shelf.load, skill)
    pieces = await asyncio.to_thread(context.shelf.select, skill, docs or ())
    data = {
        "skill": skill.name,
        "docs": [piece.path for piece in pieces],
        "estimated_tokens": body.tokens + sum(piece.tokens for piece in pieces),
        "cut": [piece.path for piece in (body, *pieces) if piece.cut_after is not None],
    }
    return ToolResult(f"loaded: {skill.name}", data, changes=(Loaded(skill.name, docs),))


SKILL_LOAD = Tool(
    "skill_load",
    "Load a skill: its instructions are shown to you with this result. Load a skill before you rely on it or run it; "
    "add only the documents you need. Not for finding out which skills there are.",
    LoadArguments,
    load,
)
