"""Load first: a skill's commands are for those who have read its instructions. Pure."""

import json

from openskills.catalog.skill import Skill
from openskills.errors import NotLoaded
from openskills.session.state import AgentView
from openskills.tools.tool import ToolContext


def require_loaded(context: ToolContext, name: str) -> Skill:
    """The skill of this name, which the agent has loaded. A load that was seen once (`LoadMode.ONCE`) still counts.

    Raises `UnknownSkill` with the nearest names, then `NotLoaded` with what happened and what to do. With
    `ToolOptions.require_loaded` off every visible skill passes.
    """
    skill = context.skills.get(name)
    if context.options.require_loaded:
        view = context.view()
        if not view.may_run(skill.name):
            raise NotLoaded(_what_to_do(skill.name, view), skill=skill.name)
    return skill


def _what_to_do(name: str, view: AgentView) -> str:
    call = f"call skill_load with {json.dumps({'skill': name}, ensure_ascii=False)}"
    entry = view.entries.get(name)
    if entry is None or not entry.loaded:
        return f"{name!r} is not loaded; {call} first"
    if view.turn > entry.unloaded:
        return f"{name!r} was loaded before the user's last message and is not any more; {call} again first"
    return f"{name!r} was unloaded, or made room for skills that were used more recently; {call} again first"
