"""`skill_select_docs` and `skill_list_docs`: which documents of a loaded skill are in the model's sight."""

import asyncio
from typing import Any, Literal

from pydantic import Field

from openskills.errors import NotLoaded
from openskills.session.changes import ALL, Change, DocsChosen, Loaded
from openskills.tools.documents import checked_docs
from openskills.tools.lenient import Texts
from openskills.tools.result import ToolResult
from openskills.tools.tool import Arguments, Tool, ToolContext


class SelectDocsArguments(Arguments):
    """What `skill_select_docs` takes."""

    skill: str = Field(description="Name of a loaded skill")
    docs: Texts | None = Field(
        default=None, description="Documents by path; 'guide.md#L120' or 'guide.md#L120-L180' for some lines"
    )
    include_all_docs: bool = Field(default=False, description="Every document; prefer a few")
    mode: Literal["add", "replace", "clear"] = Field(
        default="replace", description="add keeps those selected before, replace sets the whole list, clear empties it"
    )


class ListDocsArguments(Arguments):
    """What `skill_list_docs` takes."""

    skill: str = Field(description="Name of the skill")


async def select_docs(context: ToolContext, arguments: SelectDocsArguments) -> ToolResult:
    """Choose documents of a loaded skill; those that are new are shown with this result."""
    skill = context.skills.get(arguments.skill)
    view = context.view()
    if not view.may_run(skill.name):
        raise NotLoaded(f'{skill.name!r} is not loaded; call skill_load with {{"skill": "{skill.name}"}} first')
    wanted = () if arguments.mode == "clear" else _wanted(context, arguments) or ()
    added = arguments.mode == "add"
    await asyncio.to_thread(context.shelf.select, skill, wanted)
    changes: tuple[Change, ...] = (DocsChosen(skill.name, wanted, added),)
    if not view.is_loaded(skill.name):
        # It was shown once and is gone; documents without their instructions would be no use.
        changes = (Loaded(skill.name), *changes)
    after = tuple(dict.fromkeys((*view.docs(skill.name), *wanted))) if added else wanted
    return ToolResult.json({"skill": skill.name, "mode": arguments.mode, **_selection(after)}, changes)


async def list_docs(context: ToolContext, arguments: ListDocsArguments) -> ToolResult:
    """Paths and sizes of a skill's documents, and which of them are selected."""
    skill = context.skills.get(arguments.skill)
    selected = context.view().docs(skill.name)
    docs = [
        {
            "path": doc.path,
            "size_bytes": doc.size,
            "estimated_tokens": (doc.size + 3) // 4,
            "selected": selected == (ALL,) or doc.path in selected,
        }
        for doc in await asyncio.to_thread(skill.docs)
    ]
    return ToolResult.json({"skill": skill.name, "docs": docs})


def _wanted(context: ToolContext, arguments: SelectDocsArguments) -> tuple[str, ...] | None:
    skill = context.skills.get(arguments.skill)
    return checked_docs(skill, arguments.docs, include_all=arguments.include_all_docs)


def _selection(docs: tuple[str, ...]) -> dict[str, Any]:
    return {"include_all_docs": True} if ALL in docs else {"selected_docs": sorted(docs)}


SKILL_SELECT_DOCS = Tool(
    "skill_select_docs",
    "Show documents of a loaded skill, or take them away. Choose all that you need at once.",
    SelectDocsArguments,
    select_docs,
)
SKILL_LIST_DOCS = Tool(
    "skill_list_docs", "List a skill's documents with their sizes, to choose from.", ListDocsArguments, list_docs
)
