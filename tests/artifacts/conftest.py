"""What tests of artifacts share."""

from pathlib import Path

import pytest

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import ArtifactStore, Scope


@pytest.fixture
def scope() -> Scope:
    return Scope("app", "erika", "session-1")


@pytest.fixture
def files(tmp_path: Path) -> FileArtifactStore:
    """A store in a directory that is not there yet."""
    return FileArtifactStore(tmp_path / "store")


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    """Each of our stores."""
    return MemoryArtifactStore() if request.param == "memory" else FileArtifactStore(tmp_path / "store")
