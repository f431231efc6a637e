"""What tests of examples may ask for."""

from pathlib import Path

import pytest

from tests.conftest import RequireProgram
from tests.examples.newcomer import Newcomer


@pytest.fixture
def newcomer(tmp_path: Path, require_program: RequireProgram) -> Newcomer:
    """Somebody who can run commands in the sandbox."""
    require_program("bwrap")
    return Newcomer(tmp_path / "home")
