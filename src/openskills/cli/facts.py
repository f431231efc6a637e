"""What can be said about one skill, gathered once for people and for programs."""

import os
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from openskills.cli.problems import problem_json
from openskills.errors import SkillError
from openskills.tokens import estimate

if TYPE_CHECKING:
    from openskills.catalog.resources import Resource
    from openskills.catalog.skill import Skill
    from openskills.catalog.snapshot import Snapshot
    from openskills.skillmd.manifest import SkillManifest
    from openskills.skillmd.problem import Problem

_READ_AT_MOST = 1024 * 1024
_SAID_ELSEWHERE = frozenset({"name", "description", "requirements"})


@dataclass(frozen=True, slots=True)
class Facts:
    """A skill with everything around it. All token counts are estimates; None where a file is not text."""

    skill: "Skill"
    hidden: str | None
    body_lines: int
    body_tokens: int
    resources: "tuple[tuple[Resource, int | None], ...]"
    shadows: "tuple[Skill, ...]"
    shadowed_by: "Skill | None"
    problems: "tuple[Problem, ...]"


def gather(skill: "Skill", hidden: str | None, around: "Snapshot") -> Facts:
    """Read the skill's files and find its relations among the skills `around` it. Raises `InvalidSkill`."""
    from openskills.catalog.validate import validate

    body = skill.body()
    return Facts(
        skill=skill,
        hidden=hidden,
        body_lines=len(body.splitlines()),
        body_tokens=estimate(body),
        resources=tuple((resource, _tokens(skill, resource)) for resource in skill.resources()),
        shadows=tuple(each.skill for each in around.shadowed if _same(each.by, skill)),
        shadowed_by=next((each.by for each in around.shadowed if _same(each.skill, skill)), None),
        problems=validate(skill.path).problems,
    )


def fields_of(manifest: "SkillManifest") -> dict[str, object]:
    """The fields that were given, beside those that are shown on their own."""
    given: dict[str, object] = {}
    for field in fields(manifest):
        value = getattr(manifest, field.name)
        if field.name not in _SAID_ELSEWHERE and value not in (None, (), {}, _DEFAULTS.get(field.name)):
            given[field.name] = value
    return given


def facts_json(facts: Facts) -> dict[str, object]:
    """The facts for a program."""
    skill = facts.skill
    return {
        "name": skill.name,
        "description": skill.description,
        "location": skill.location,
        "source": skill.source,
        "hidden": facts.hidden,
        "fields": fields_of(skill.manifest),
        "requirements": asdict(skill.manifest.requirements),
        "body": {"lines": facts.body_lines, "estimated_tokens": facts.body_tokens},
        "resources": [
            {"path": resource.path, "kind": resource.kind.value, "size": resource.size, "estimated_tokens": tokens}
            for resource, tokens in facts.resources
        ],
        "shadows": [other.location for other in facts.shadows],
        "shadowed_by": facts.shadowed_by.location if facts.shadowed_by else None,
        "problems": [problem_json(problem) for problem in facts.problems],
    }


_DEFAULTS = {"disable_model_invocation": False, "user_invocable": True}


def _same(one: "Skill", other: "Skill") -> bool:
    return os.path.realpath(one.directory) == os.path.realpath(other.directory)


def _tokens(skill: "Skill", resource: "Resource") -> int | None:
    """None for what is not text, has gone meanwhile, or is too large for anybody to load."""
    try:
        text = skill.read(resource.path, limit=_READ_AT_MOST).decode("utf-8")
    except (UnicodeDecodeError, SkillError, OSError):
        return None
    return None if "\0" in text else estimate(text)
