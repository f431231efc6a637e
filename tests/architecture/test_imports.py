"""What importing costs, what the package promises to the outside, and that the contracts about layers can fail."""

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.project import PACKAGE, ROOT

HEAVY = frozenset({"asyncio", "httpx2", "openskills.catalog", "pydantic", "rich", "typer", "watchfiles", "yaml"})


def heavy_modules_loaded_by(statement: str) -> frozenset[str]:
    program = f"{statement}\nimport sys\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    return HEAVY & set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not heavy_modules_loaded_by("import openskills")


def test_a_heavy_import_is_noticed() -> None:
    assert heavy_modules_loaded_by("import asyncio, yaml") == {"asyncio", "yaml"}


def unpinned(requirements: list[str], pins: set[str]) -> set[str]:
    """Installed packages in the closure of the requirements that have no pin."""
    todo, seen = [Requirement(text) for text in requirements], set[str]()
    found: set[str] = set()
    while todo:
        one = todo.pop()
        if str(one) in seen:
            continue
        seen.add(str(one))
        if normal(one.name) not in pins:
            found.add(normal(one.name))
        for text in metadata.requires(one.name) or ():
            inner = Requirement(text)
            # Two questions, because a marker may ask for an extra or for the platform.
            if any(inner.marker is None or inner.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
                todo.append(inner)
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_has_its_version_in_constraints() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {normal(line.partition("==")[0]) for line in lines if line and not line.startswith("#")}
    missing = unpinned(["openskill-runtime[dev]"], pins | {"openskill-runtime"})
    assert not missing, f"not in constraints.txt, run `make constraints`: {sorted(missing)}"


def test_a_dependency_without_a_version_is_noticed() -> None:
    assert "pluggy" in unpinned(["pytest"], {"pytest"})


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
