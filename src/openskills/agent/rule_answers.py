"""Answers of the rules that are not about a run. Every answer says once that no language model gave it. Pure."""

from openskills.agent.rule_arguments import Filled
from openskills.agent.rule_phrases import Phrases
from openskills.agent.rule_routing import Reason, Route
from openskills.catalog.snapshot import Snapshot
from openskills.prompt.escape import one_line

_DESCRIBED = 100
_LISTED = 5


def signed(text: str, say: Phrases, route: Route, *, ran: bool = False) -> str:
    """The answer with who chose, and why; after a run, also that nobody has looked at its result."""
    if route.skill is None:
        return f"{text}\n\n{say.unsigned}"
    why = say.chosen[route.reason].format(detail=route.detail)
    said = say.signed.format(skill=route.skill, why=why)
    return f"{text}\n\n{said}{say.unread if ran else ''}"


def nothing(route: Route, skills: Snapshot, say: Phrases) -> str:
    """Nothing was done, and these skills come nearest; or these are there when none is near."""
    if not skills.skills:
        return say.no_skills
    names = route.near or tuple(skill.name for skill in skills.skills)[:_LISTED]
    listed = [f"- {name}: {_short(skills.get(name).description)}" for name in names]
    others = len(skills.skills) - len(names)
    lines = "\n".join([*listed, *([f"- {say.others.format(count=others)}"] if others else [])])
    said = say.unknown.format(name=route.detail) if route.reason is Reason.UNKNOWN else say.nothing_fits
    head = say.nearest if route.near else say.there_are
    return f"{said}\n\n{head}\n\n{lines}\n\n{say.name_one.format(name=names[0])}"


def lacking(ready: Filled, skill: str, say: Phrases) -> str:
    """What a command needs and nobody gave."""
    known = [say.needs[what].format(skill=skill) for what in ready.missing if what in say.needs]
    other = [what for what in ready.missing if what not in say.needs]
    if other:
        unknown = say.needs_other.format(what=", ".join(other), command=ready.command, skill=skill)
        known.append(f"{unknown} {say.ask_again}")
    return "\n\n".join(known)


def _short(description: str) -> str:
    line = one_line(description)
    return line if len(line) <= _DESCRIBED else f"{line[:_DESCRIBED].rstrip()}…"
