"""What authors import, and what that costs."""

import subprocess
import sys

import pytest

import openskills.skillkit as kit


def test_every_name_that_is_offered_is_there() -> None:
    assert all(getattr(kit, name) is not None for name in kit.__all__)


def test_a_misspelt_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Rooot'"):
        getattr(kit, "Rooot")  # noqa: B009


def test_importing_it_loads_neither_files_nor_anything_heavy() -> None:
    code = "import sys; import openskills.skillkit; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "openskills.skillkit.entry" in loaded
    assert not loaded & {
        *("openskills.paths", "openskills.settings", "openskills.skillkit.files", "openskills.skillkit.files"),
        *("pathlib", "inspect", "dataclasses", "difflib", "decimal", "asyncio", "subprocess", "pydantic", "yaml"),
    }
