"""The list of skills as the model sees it."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from openskills.adapters.langchain.metadata import SkillMetadata, extension
from openskills.adapters.langchain.resources import ResourceMetadata, resource_summary

Listing = Literal["marked", "stable"]
"""`marked` shows in the list what is loaded; `stable` is the same text whatever is loaded, for prompt caches."""

LISTINGS: tuple[Listing, ...] = ("marked", "stable")


# Fields come with skills, and skills from anywhere: none of them may look like another entry, or like our own words.
_LOADED = re.compile(r"\[\s*loaded\s*\]", re.IGNORECASE)


def one_line(text: str) -> str:
    """A field of a skill as part of a line."""
    return _LOADED.sub("(loaded)", " ".join(text.split())).replace("`", "'")


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
    name, path = one_line(skill["name"]), one_line(skill["path"])
    manual = " (Manual only)" if hints and extension(skill, "disable_model_invocation") else ""
    state = f"{' [Loaded]' if is_loaded else ''}{manual}"
    lines = [f"- **{name.replace('*', '')}**{state}: {one_line(skill['description'])}{_annotations(skill)}"]
    if skill["allowed_tools"]:
        lines.append(f"  -> Recommended tools: {', '.join(map(one_line, skill['allowed_tools']))}")
    if is_loaded:
        if resources:
            lines.append(f"  -> Resources: {resource_summary(resources)}")
    elif manual:
        lines.append(f"  -> Do not load this skill yourself; the user starts it (`{path}`)")
    else:
        hint = extension(skill, "argument_hint") if hints else None
        more = f', args="{_quoted(str(hint))}"' if hint else ""
        lines.append(f'  -> Use `load_skill("{_quoted(name)}"{more})` to read full instructions (`{path}`)')
    return lines


def _annotations(skill: SkillMetadata) -> str:
    license_, needs = skill.get("license"), skill.get("compatibility")
    parts = [f"License: {one_line(license_)}"] if license_ else []
    if needs:
        parts.append(f"Compatibility: {one_line(needs)}")
    return f" ({', '.join(parts)})" if parts else ""


def _quoted(text: str) -> str:
    return one_line(text).replace('"', "'")
