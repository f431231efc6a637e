"""`skill_unload`: the text of a skill leaves the model's sight."""

from pydantic import Field

from openskills.session.changes import Unloaded
from openskills.tools.result import ToolResult
from openskills.tools.tool import Arguments, Tool, ToolContext


class UnloadArguments(Arguments):
    """What `skill_unload` takes."""

    skill: str = Field(description="Name of a loaded skill")


async def unload(context: ToolContext, arguments: UnloadArguments) -> ToolResult:
    """Unload a skill with its documents. One that has left the catalog can be unloaded, too."""
    name, view = arguments.skill.strip(), context.view()
    known = name if name in view.entries else context.skills.get(name).name
    was_loaded = view.may_run(known)
    text = f"unloaded: {known}" if was_loaded else f"{known} was not loaded; nothing has changed"
    data = {"skill": known, "was_loaded": was_loaded}
    return ToolResult(text, data, changes=(Unloaded(known),) if was_loaded else ())


SKILL_UNLOAD = Tool(
    "skill_unload",
    "Take a loaded skill and its documents out of your sight when you are done with it.",
    UnloadArguments,
    unload,
)
