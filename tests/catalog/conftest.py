"""What the tests of the catalog share."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openskills.settings import Settings
from tests.catalog.fetch.web_server import Web, serving


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a user whose home lies in the temporary directory."""
    return Settings.from_env({"HOME": str(tmp_path / "home"), "PATH": os.defpath})


@pytest.fixture
def write_skill(tmp_path: Path) -> Callable[..., Path]:
    """Writes a skill below the temporary directory and gives its folder."""

    def write(
        name: str,
        description: str = "Does a thing. Use when asked.",
        *,
        under: str = "skills",
        folder: str | None = None,
        front: str = "",
        body: str = "# Body",
    ) -> Path:
        directory = tmp_path / under / (folder or name)
        directory.mkdir(parents=True, exist_ok=True)
        text = f"---\nname: {name}\ndescription: {description}\n{front}---\n\n{body}\n"
        (directory / "SKILL.md").write_text(text, "utf-8")
        return directory

    return write


@pytest.fixture
def web() -> Iterator[Web]:
    """A real server on the loopback interface."""
    with serving() as server:
        yield server
