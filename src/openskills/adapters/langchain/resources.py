"""The files that come with a skill, found when it is loaded."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

from typing_extensions import TypedDict

from openskills.adapters.langchain.steps import Steps, listed

logger = logging.getLogger(__name__)

ResourceType = Literal["script", "reference", "asset", "other"]

RESOURCE_TYPE_MAP: Mapping[str, ResourceType] = {"scripts": "script", "references": "reference", "assets": "asset"}
"""The directories of the specification, and what is in them."""


class ResourceMetadata(TypedDict):
    """One file of a skill: its path in the backend, and its kind by the directory it is in."""

    path: str
    type: ResourceType
    skill_name: str


def discover_resources(directory: str, skill: str) -> Steps[list[ResourceMetadata]]:
    """The files in the skill's directory and in its standard directories, not deeper.

    What cannot be listed is left out with a warning: a skill without its list of files is better than none.
    """
    found: list[ResourceMetadata] = []
    for entry in (yield from _entries(directory, skill)):
        path = str(entry["path"])
        name = PurePosixPath(path).name
        if not entry.get("is_dir"):
            if name != "SKILL.md":
                found.append(ResourceMetadata(path=path, type="other", skill_name=skill))
        elif (kind := RESOURCE_TYPE_MAP.get(name)) is not None:
            inner = yield from _entries(path, skill)
            files = (str(file["path"]) for file in inner if not file.get("is_dir"))
            found += [ResourceMetadata(path=file, type=kind, skill_name=skill) for file in files]
    return found


def resource_summary(resources: Sequence[ResourceMetadata]) -> str:
    """How many there are of each kind, as in `1 reference, 2 scripts`."""
    counts = Counter(resource["type"] for resource in resources)
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in sorted(counts.items()))


def _entries(directory: str, skill: str) -> Steps[Sequence[Any]]:
    entries, error = yield from listed(directory, tolerant=True)
    if error is not None:
        logger.warning("Failed to list resources for skill '%s' at %s: %s", skill, directory, error)
    return entries
