"""Packages load their public names when they are first used, and list all of them."""

import importlib
import subprocess
import sys

import pytest

from openskills.lazy import lazy_exports

PACKAGES = (
    *("agent", "artifacts", "catalog", "executors", "host", "prompt", "runtime", "session", "skillkit", "skillmd"),
    *("telemetry", "testing", "tools"),
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_listed_name_can_be_imported_and_is_shown_by_dir(package: str) -> None:
    module = importlib.import_module(f"openskills.{package}")
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_hidden_by_a_module_of_the_same_name(package: str) -> None:
    module = importlib.import_module(f"openskills.{package}")
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
