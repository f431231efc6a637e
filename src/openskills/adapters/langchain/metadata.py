"""A SKILL.md to what upstream's state holds about a skill.

Read by our own parser, so what clients usually stumble over (a byte-order mark, an unquoted colon, a missing last line
end) costs no skill. What upstream only warns of, we only warn of.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, cast

from deepagents.middleware.skills import SkillMetadata as UpstreamMetadata

from openskills.adapters.langchain.local_scan import LARGEST
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.parse import parse

logger = logging.getLogger(__name__)

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500


class SkillMetadata(UpstreamMetadata):
    """What is known of a skill without loading it: upstream's seven fields.

    `extensions` is there only when an option asks for fields beyond the specification.
    """

    extensions: NotRequired[dict[str, Any]]


def metadata_of(content: bytes, path: str, directory: str, *, extended: bool = False) -> SkillMetadata | None:
    """What the file at `path`, in a directory of this name, declares; None, with a warning, for what is no skill."""
    if len(content) > LARGEST:
        return _skipped(path, "it is larger than 10 MiB")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return _skipped(path, f"it is not UTF-8 ({error})")
    parsed = parse(text)
    manifest = parsed.manifest
    if manifest is None:
        problems = "; ".join(problem.message for problem in parsed.problems)
        return _skipped(path, problems or "it has no front matter")
    # A name is shown in lines of their own, and written by a model in calls.
    name, description = " ".join(manifest.name.split()), manifest.description.strip()
    if not name or not description:
        return _skipped(path, "name or description is missing")
    _warn_of_name(name, directory, path)
    found = SkillMetadata(
        path=path,
        name=name,
        description=_shortened(description, LONGEST_DESCRIPTION, "description", path),
        license=_text(manifest.license),
        compatibility=_shortened(_text(manifest.compatibility) or "", LONGEST_COMPATIBILITY, "compatibility", path)
        or None,
        metadata={str(key): _flat(value) for key, value in manifest.metadata.items()},
        allowed_tools=list(manifest.allowed_tools),
    )
    if extended:
        found["extensions"] = extensions_of(manifest)
    return found


def extensions_of(manifest: SkillManifest) -> dict[str, Any]:
    """The fields beyond the specification that an option can give a meaning to, those that are set."""
    fields = {
        "disable_model_invocation": manifest.disable_model_invocation,
        "argument_hint": manifest.argument_hint,
        "model": manifest.model,
        "context": manifest.context,
        "agent": manifest.agent,
        "hooks": manifest.hooks,
    }
    return {key: value for key, value in fields.items() if value}


def extension(skill: Mapping[str, Any], field: str) -> Any:
    """A field beyond the specification; None when it is not set or was not asked for."""
    return cast("Mapping[str, Any]", skill.get("extensions") or {}).get(field)


def loaded_skills(skills: Sequence[SkillMetadata], loaded: Sequence[str]) -> list[SkillMetadata]:
    """The loaded ones of these skills, in the order of loading."""
    by_name = {skill["name"]: skill for skill in skills}
    return [by_name[name] for name in loaded if name in by_name]


def _skipped(path: str, why: str) -> None:
    logger.warning("Skipping the skill at %s: %s", path, why)


def _warn_of_name(name: str, directory: str, path: str) -> None:
    if name == directory and len(name) <= LONGEST_NAME and _is_well_formed(name):
        return
    wanted = f"at most {LONGEST_NAME} lowercase letters, digits and single hyphens, the same as the directory"
    logger.warning("The skill name %r in %s does not follow the specification: %s", name, path, wanted)


def _is_well_formed(name: str) -> bool:
    plain = name.replace("-", "")
    small = plain.isalnum() and plain == plain.lower()
    return small and not name.startswith("-") and not name.endswith("-") and "--" not in name


def _shortened(text: str, limit: int, field: str, path: str) -> str:
    if len(text) <= limit:
        return text
    logger.warning("The %s in %s has %d characters; the first %d are used", field, path, len(text), limit)
    return text[:limit]


def _text(value: str | None) -> str | None:
    return (value or "").strip() or None


def _flat(value: object) -> str:
    return value if isinstance(value, str) else str(value)
