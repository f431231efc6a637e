"""The layers are checked by import-linter in `make check`; here: that its contracts can fail."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.project import PACKAGE, ROOT


def lint_imports_with(code: str, module: str, tmp_path: Path) -> str:
    """What import-linter says about a copy of the package that has one more module."""
    copy = tmp_path / "src" / "openskills"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (copy / module).write_text(code)
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(copy.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode, f"import-linter is content with {code!r} in {module}"
    return done.stdout


@pytest.mark.parametrize(
    ("code", "module", "complaint"),
    [
        ("import openskills.catalog.skill", "skillmd/extra.py", "skillmd is not allowed to import openskills.catalog"),
        ("import openskills.settings", "paths.py", "paths is not allowed to import openskills.settings"),
        ("import os", "prompt/extra.py", "openskills.prompt is not allowed to import os"),
        ("x = 1", "extra.py", "openskills.extra"),
    ],
)
def test_a_module_out_of_place_is_named(code: str, module: str, complaint: str, tmp_path: Path) -> None:
    assert complaint in " ".join(lint_imports_with(code, module, tmp_path).split())
