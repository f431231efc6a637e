"""What the tests of the command line share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.fetch.web_server import Web, serving
from tests.cli.command import Command
from tests.skill_writer import WriteSkill, skill_writer


@pytest.fixture
def openskills(tmp_path: Path) -> Command:
    """The command, for a user with an empty home, in an empty directory."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    return Command(tmp_path / "home", tmp_path / "here")


@pytest.fixture
def write_skill(tmp_path: Path) -> WriteSkill:
    """Writes a skill, by default below the directory in which the command runs, and gives its folder."""
    return skill_writer(tmp_path, "here/skills")


@pytest.fixture
def web() -> Iterator[Web]:
    """A real server on the loopback interface."""
    with serving() as server:
        yield server
