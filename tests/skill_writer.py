"""Skills for tests, written to disk."""

from collections.abc import Callable
from pathlib import Path

WriteSkill = Callable[..., Path]
"""The type of the fixture `write_skill`."""


def skill_writer(base: Path, usual: str) -> WriteSkill:
    """A function that writes a skill below `base`, in the folder `usual` unless told otherwise, and gives its folder.

    `front` is more lines for the front matter; `folder` another name for the skill's own folder.
    """

    def write(
        name: str,
        description: str = "Merges things. Use when the user has several things.",
        *,
        under: str | Path = usual,
        folder: str | None = None,
        front: str = "",
        body: str = "# Body",
    ) -> Path:
        directory = base / under / (folder or name)
        directory.mkdir(parents=True, exist_ok=True)
        text = f"---\nname: {name}\ndescription: {description}\n{front}---\n\n{body}\n"
        (directory / "SKILL.md").write_text(text, "utf-8")
        return directory

    return write
