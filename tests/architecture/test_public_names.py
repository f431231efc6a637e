"""The public names: few, all there, each with its contract and a place in the reference."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module, metadata

import pytest

import openskills
from openskills.lazy import lazy_exports
from tests.architecture.project import PACKAGE, ROOT
from tests.architecture.tree_rules import undocumented

NAMES = [name for name in openskills.__all__ if name != "__version__"]


def test_there_are_at_most_30_public_names() -> None:
    assert len(openskills.__all__) <= 30
    assert len(set(openskills.__all__)) == len(openskills.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_had_and_has_a_docstring(name: str) -> None:
    value: object = getattr(openskills, name)
    doc = inspect.getdoc(value) or ""
    # A dataclass without docstring shows its signature there.
    assert doc, f"{name} has no docstring"
    assert not doc.startswith(f"{name}("), f"{name} has no docstring"


def test_every_public_name_is_in_the_reference() -> None:
    pages = sorted((ROOT / "docs" / "reference").rglob("*.md"))
    missing = undocumented(NAMES, "\n".join(page.read_text("utf-8") for page in pages))
    assert not missing, "\n".join(missing)


def test_a_name_is_in_the_reference_only_as_heading_or_code() -> None:
    reference = "# `Catalog`\n\n## Skill\n\nUse `parse(text)` and Problem, or `Severity.ERROR`.\n"
    assert undocumented(["Catalog", "Skill", "parse", "Severity"], reference) == []
    assert len(undocumented(["Problem", "Cat", "ERR"], reference)) == 3


def test_dir_shows_the_public_names() -> None:
    assert set(openskills.__all__) <= set(dir(openskills))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'openskills' has no attribute 'Katalog'"):
        _: object = getattr(openskills, "Katalog")  # noqa: B009


def test_the_version_is_the_one_of_the_distribution() -> None:
    assert openskills.__version__ == metadata.version("openskill-runtime")


def test_type_checkers_see_the_same_names_as_the_interpreter() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in guarded.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module or "" for node in imports for alias in node.names}
    assert seen.keys() == set(openskills.__all__)
    for name, module in seen.items():
        assert getattr(openskills, name) is getattr(import_module(module), name), name


PACKAGES = (
    *("agent", "artifacts", "catalog", "executors", "host", "prompt", "runtime", "session", "skillkit", "skillmd"),
    *("telemetry", "testing", "tools"),
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_listed_name_can_be_imported_and_is_shown_by_dir(package: str) -> None:
    module = import_module(f"openskills.{package}")
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_hidden_by_a_module_of_the_same_name(package: str) -> None:
    module = import_module(f"openskills.{package}")
    program = (
        f"import openskills.{package} as p; print(*(n for n in p.__all__ if type(getattr(p, n)).__name__ == 'module'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not done.stdout.split(), module


def test_an_unknown_name_is_an_attribute_error_that_names_the_package() -> None:
    get, list_names = lazy_exports("openskills", {"Catalog": "catalog.catalog"})
    with pytest.raises(AttributeError, match="module 'openskills' has no attribute 'Katalog'"):
        get("Katalog")
    assert "Catalog" in list_names()
