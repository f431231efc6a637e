"""What the tests of the command line share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.catalog.fetch.web_server import Web, serving
from tests.cli.command import Command

WriteSkill = Callable[..., Path]
"""The type of the fixture `write_skill`."""


@pytest.fixture
def openskills(tmp_path: Path) -> Command:
    """The command, for a user with an empty home, in an empty directory."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    return Command(tmp_path / "home", tmp_path / "here")


@pytest.fixture
def write_skill(tmp_path: Path) -> WriteSkill:
    """Writes a skill, by default below the directory in which the command runs, and gives its folder."""

    def write(
        name: str,
        description: str = "Merges things. Use when the user has several things.",
        *,
        under: str | Path = "here/skills",
        folder: str | None = None,
        front: str = "",
        body: str = "# Steps\n\nMerge the things.\n",
    ) -> Path:
        directory = tmp_path / under / (folder or name)
        directory.mkdir(parents=True, exist_ok=True)
        text = f"---\nname: {name}\ndescription: {description}\n{front}---\n{body}"
        (directory / "SKILL.md").write_text(text, "utf-8")
        return directory

    return write


@pytest.fixture
def web() -> Iterator[Web]:
    """A real server on the loopback interface."""
    with serving() as server:
        yield server
