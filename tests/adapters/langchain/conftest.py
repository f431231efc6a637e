"""Skills on disk, and deep agents with a scripted model."""

from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import FilesystemBackend

from tests.skill_writer import WriteSkill, skill_writer


@pytest.fixture
def write_skill(tmp_path: Path) -> WriteSkill:
    """Writes a skill into the source `/skills/` of the backend."""
    return skill_writer(tmp_path, "skills")


@pytest.fixture
def backend(tmp_path: Path) -> Any:
    """A backend of real files, with the directory of the test as its root."""
    (tmp_path / "skills").mkdir(exist_ok=True)
    return FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
