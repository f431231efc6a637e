"""Skills as the state of a thread holds them."""

from typing import Any, cast

from openskills.adapters.langchain.state import SkillMetadata


def entry(name: str, **more: Any) -> SkillMetadata:
    """What is known of a skill of this name; `more` replaces fields."""
    fields: dict[str, Any] = {"license": None, "compatibility": None, "metadata": {}, "allowed_tools": []}
    path = f"/skills/{name}/SKILL.md"
    return cast("SkillMetadata", {"name": name, "description": "Does it.", "path": path, **fields, **more})
