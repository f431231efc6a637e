"""A small library in memory and on disk, for tests of what skills cost."""

import os
from pathlib import Path

from openskills.bench.tasks import SkillContents
from openskills.catalog.catalog import Catalog
from openskills.settings import Settings

BODY, DOC = "Do it step by step. " * 30, "All about forms. " * 40


def contents(name: str, *docs: str, body: str = BODY) -> SkillContents:
    """A skill in memory."""
    return SkillContents(name, f"{name} does things. Use for things.", body, dict.fromkeys(docs, DOC))


def on_disk(base: Path, *skills: SkillContents) -> tuple[Catalog, Settings]:
    """The catalog of these skills, written below `base`."""
    for skill in skills:
        folder = base / "skills" / skill.name
        folder.mkdir(parents=True)
        front = f"---\nname: {skill.name}\ndescription: {skill.description}\n---\n"
        (folder / "SKILL.md").write_text(f"{front}\n{skill.body}\n", encoding="utf-8")
        for path, text in skill.docs.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    settings = Settings.from_env({"HOME": str(base), "PATH": os.defpath})
    return Catalog.from_paths(base / "skills", settings=settings), settings
