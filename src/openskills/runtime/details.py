"""Everything about one skill: fields, files with tokens, problems, requirements, and what it shadows."""

import os
from dataclasses import asdict, dataclass, fields

from openskills.catalog.skill import Resource, Skill
from openskills.catalog.snapshot import CatalogSnapshot, Machine, find_missing
from openskills.catalog.validate import validate
from openskills.errors import SkillError
from openskills.executors.hints import SkillNeeds, find_needs
from openskills.executors.staging.packages import distribution_from_module
from openskills.settings import Settings
from openskills.skillmd.manifest import Requirements, SkillManifest
from openskills.skillmd.problem import Problem
from openskills.tokens import estimate_tokens

_MAX_READ_BYTES = 1024 * 1024
_SEPARATE_FIELDS = frozenset({"name", "description", "requirements"})
_DEFAULTS = {"disable_model_invocation": False, "user_invocable": True}


@dataclass(frozen=True, slots=True)
class SkillDetails:
    """Everything about a skill. Token counts are estimates; None for files that are not text."""

    skill: Skill
    hidden: str | None
    missing: Requirements
    body_lines: int
    body_tokens: int
    resources: tuple[tuple[Resource, int | None], ...]
    shadows: tuple[Skill, ...]
    shadowed_by: Skill | None
    problems: tuple[Problem, ...]
    needs: SkillNeeds


def collect_details(skill: Skill, hidden: str | None, around: CatalogSnapshot, settings: Settings) -> SkillDetails:
    """Read the skill's files, and find what it shadows in the catalog `around`. Raises `InvalidSkill`."""
    skill.download()
    body = skill.body()
    return SkillDetails(
        skill=skill,
        hidden=hidden,
        missing=find_missing(skill.manifest.requirements, Machine.current(settings)),
        body_lines=len(body.splitlines()),
        body_tokens=estimate_tokens(body),
        resources=tuple((resource, _count_tokens(skill, resource)) for resource in skill.resources()),
        shadows=tuple(each.skill for each in around.shadowed if _is_same(each.by, skill)),
        shadowed_by=next((each.by for each in around.shadowed if _is_same(each.skill, skill)), None),
        problems=validate(skill.path).problems,
        needs=find_needs(skill),
    )


def manifest_fields(manifest: SkillManifest) -> dict[str, object]:
    """The fields that are set, except those that are shown separately."""
    shown = [one.name for one in fields(manifest) if one.name not in _SEPARATE_FIELDS]
    values = ((name, getattr(manifest, name)) for name in shown)
    return {name: value for name, value in values if value not in (None, (), {}, _DEFAULTS.get(name))}


def details_json(facts: SkillDetails) -> dict[str, object]:
    """The details as JSON."""
    skill = facts.skill
    return {
        "name": skill.name,
        "description": skill.manifest.description,
        "location": skill.location,
        "source": skill.source,
        "hidden": facts.hidden,
        "fields": manifest_fields(skill.manifest),
        "requirements": asdict(skill.manifest.requirements),
        "missing": {
            name: names for name, names in asdict(facts.missing).items() if name not in ("always", "optional_env")
        },
        "body": {"lines": facts.body_lines, "estimated_tokens": facts.body_tokens},
        "resources": [
            {"path": resource.path, "kind": resource.kind.value, "size": resource.size, "estimated_tokens": tokens}
            for resource, tokens in facts.resources
        ],
        "shadows": [other.location for other in facts.shadows],
        "shadowed_by": facts.shadowed_by.location if facts.shadowed_by else None,
        "problems": [problem.to_dict() for problem in facts.problems],
        "needs": needs_json(facts.needs),
    }


def needs_json(needs: SkillNeeds) -> dict[str, object]:
    """What a skill needs as JSON."""
    packages = needs.declared.packages
    return {
        "packages": list(packages.python),
        "npm": list(packages.npm),
        "declared_in": list(needs.declared.sources),
        "imports": {module: distribution_from_module(module) for module in needs.imports},
        "programs": list(needs.programs),
        "warnings": list(needs.declared.warnings),
    }


def _is_same(one: Skill, other: Skill) -> bool:
    return os.path.realpath(one.directory) == os.path.realpath(other.directory)


def _count_tokens(skill: Skill, resource: Resource) -> int | None:
    """None for a file that is not text, is gone, or is too large to load."""
    try:
        text = skill.read(resource.path, limit=_MAX_READ_BYTES).decode("utf-8")
    except (UnicodeDecodeError, SkillError, OSError):
        return None
    return None if "\0" in text else estimate_tokens(text)
