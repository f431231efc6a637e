"""What the tests of the command line share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.sources.web_server import Web, serving
from tests.cli.command import Command
from tests.servers.warm_openskills import WarmOpenskills
from tests.skill_writer import WriteSkill, skill_writer


@pytest.fixture
def openskills(tmp_path: Path, warm_openskills: WarmOpenskills) -> Command:
    """The command, for a user with an empty home, in an empty directory."""
    return command_in(tmp_path, warm_openskills)


@pytest.fixture
def new_openskills(tmp_path: Path) -> Command:
    """The same, in an interpreter of its own for each call: for tests of how it starts and ends."""
    return command_in(tmp_path, None)


def command_in(directory: Path, warm: WarmOpenskills | None) -> Command:
    for name in ("home", "here"):
        (directory / name).mkdir(exist_ok=True)
    return Command(directory / "home", directory / "here", warm=warm)


@pytest.fixture
def write_skill(tmp_path: Path) -> WriteSkill:
    """Writes a skill, by default below the directory in which the command runs, and gives its folder."""
    return skill_writer(tmp_path, "here/skills")


@pytest.fixture
def web() -> Iterator[Web]:
    """A real server on the loopback interface."""
    with serving() as server:
        yield server
