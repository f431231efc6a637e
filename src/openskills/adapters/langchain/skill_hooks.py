"""Hooks of a skill, out of its front matter. Pure."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from openskills.adapters.langchain.metadata import SkillMetadata, extension
from openskills.adapters.langchain.tool_names import names_of
from openskills.tools.starred import fits

logger = logging.getLogger(__name__)

Event = Literal["PreToolUse", "PostToolUse"]
EVENTS: Mapping[str, Event] = {"PreToolUse": "PreToolUse", "PostToolUse": "PostToolUse"}

_LONGEST_MATCHER = 500
# A matcher comes with a skill, and skills come from anywhere: no expression that could take forever is ever run.
_SPECIAL = re.compile(r"[()\[\]{}+?^$\\]")
_AROUND = re.compile(r"\^?(?:\(([^()]*)\)|([^()]*?))\$?")


@dataclass(frozen=True, slots=True)
class Hook:
    """Something to do before or after calls of tools that `matcher` fits: a command to run, or words for the model."""

    id: str
    skill: str
    event: Event
    matcher: str
    kind: Literal["command", "prompt"]
    text: str
    once: bool = False

    def fits(self, tool: str) -> bool:
        """Whether it is for this tool, under whatever name the skill knows it.

        A matcher is made of names, `|` between them, and `*` or `.*` in them; no other expressions.
        """
        if self.matcher in {"", "*"}:
            return True
        if len(self.matcher) > _LONGEST_MATCHER:
            return self._unfit("it is too long")
        inner = _AROUND.fullmatch(self.matcher)
        text = (inner[1] or inner[2] or "") if inner else self.matcher
        if inner is None or _SPECIAL.search(text):
            return self._unfit("only names, `|` and `.*` are understood")
        return any(fits(one.replace(".*", "*"), name) for one in text.split("|") for name in names_of(tool))

    def _unfit(self, why: str) -> bool:
        logger.warning("The matcher %.200r of a hook of skill '%s' is not used: %s", self.matcher, self.skill, why)
        return False


def hooks_of(skill: SkillMetadata) -> list[Hook]:
    """The hooks that a skill declares; what we do not understand is passed over with a warning."""
    declared = extension(skill, "hooks")
    if not isinstance(declared, Mapping):
        return []
    found: list[Hook] = []
    for event, groups in cast("Mapping[str, object]", declared).items():
        if event not in EVENTS:
            logger.warning("Skill '%s' has hooks for %s, which is not supported", skill["name"], event)
            continue
        for group in _maps(groups):
            matcher = str(group.get("matcher") or "")
            # Handlers stand in a list below the matcher, or beside it when there is one only.
            handlers = _maps(group["hooks"]) if "hooks" in group else [group]
            for handler in handlers:
                hook = _hook(skill["name"], EVENTS[event], matcher, handler, len(found))
                found += [hook] if hook else []
    return found


def hooks_for(skills: Iterable[SkillMetadata], event: Event, tool: str) -> list[Hook]:
    """The hooks of these skills that are for this event and tool, in order."""
    return [hook for skill in skills for hook in hooks_of(skill) if hook.event == event and hook.fits(tool)]


def _hook(skill: str, event: Event, matcher: str, handler: Mapping[str, Any], number: int) -> Hook | None:
    kind = handler.get("type", "command")
    text = handler.get("command") if kind == "command" else handler.get("prompt")
    if kind not in {"command", "prompt"} or not isinstance(text, str) or not text.strip():
        logger.warning("Skill '%s' has a hook of type %r that is not supported or empty", skill, kind)
        return None
    once = str(handler.get("once", "")).lower() in {"true", "yes", "on", "1"}
    # The text is part of the name: a hook that was changed is another one.
    name = f"{skill}:{event}:{number}:{text}"
    return Hook(name, skill, event, matcher, "command" if kind == "command" else "prompt", text.strip(), once)


def _maps(value: object) -> list[Mapping[str, Any]]:
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping)]
