"""The list of skills as the model sees it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from openskills.adapters.langchain.metadata import SkillMetadata, extension
from openskills.adapters.langchain.resources import ResourceMetadata, resource_summary

Listing = Literal["marked", "stable"]
"""`marked` shows in the list what is loaded; `stable` is the same text whatever is loaded, for prompt caches."""

LISTINGS: tuple[Listing, ...] = ("marked", "stable")


def skills_list(
    skills: Sequence[SkillMetadata],
    loaded: Collection[str],
    resources: Mapping[str, Sequence[ResourceMetadata]],
    *,
    hints: bool = False,
) -> str:
    """One entry for each skill: what it is for, and what to do with it now."""
    names = frozenset(loaded)
    lines: list[str] = []
    for skill in skills:
        lines += _entry(skill, skill["name"] in names, resources.get(skill["name"], ()), hints)
    return "\n".join(lines)


def _entry(skill: SkillMetadata, is_loaded: bool, resources: Sequence[ResourceMetadata], hints: bool) -> list[str]:
    name = skill["name"]
    manual = " (Manual only)" if hints and extension(skill, "disable_model_invocation") else ""
    lines = [f"- **{name}**{' [Loaded]' if is_loaded else ''}{manual}: {skill['description']}{_annotations(skill)}"]
    if skill["allowed_tools"]:
        lines.append(f"  -> Recommended tools: {', '.join(skill['allowed_tools'])}")
    if is_loaded:
        if resources:
            lines.append(f"  -> Resources: {resource_summary(resources)}")
    elif manual:
        lines.append(f"  -> Do not load this skill yourself; the user starts it (`{skill['path']}`)")
    else:
        hint = extension(skill, "argument_hint") if hints else None
        call = f'load_skill("{name}", args="{hint}")' if hint else f'load_skill("{name}")'
        lines.append(f"  -> Use `{call}` to read full instructions (`{skill['path']}`)")
    return lines


def _annotations(skill: SkillMetadata) -> str:
    license_, needs = skill.get("license"), skill.get("compatibility")
    parts = [f"License: {license_}"] if license_ else []
    if needs:
        parts.append(f"Compatibility: {needs}")
    return f" ({', '.join(parts)})" if parts else ""
