"""What the tests of the catalog share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openskills.settings import Settings
from tests.catalog.sources.web_server import Web, serving
from tests.skill_writer import WriteSkill, skill_writer


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a user whose home lies in the temporary directory."""
    return Settings.from_env({"HOME": str(tmp_path / "home"), "PATH": os.defpath})


@pytest.fixture
def write_skill(tmp_path: Path) -> WriteSkill:
    """Writes a skill below the temporary directory and gives its folder."""
    return skill_writer(tmp_path, "skills")


@pytest.fixture
def web() -> Iterator[Web]:
    """A real server on the loopback interface."""
    with serving() as server:
        yield server
