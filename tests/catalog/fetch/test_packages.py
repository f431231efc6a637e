"""Skills that come with installed packages are found, and the packages are not imported."""

import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path

import pytest

from openskills.catalog.fetch.packages import PackageSource, PackagesSource
from openskills.catalog.progress import silent
from openskills.errors import InvalidArgument, SourceUnavailable
from tests.catalog.fetch.archive_bytes import SKILL


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "lib" / "site-packages"
    for package in ("openskills_test_pkg", "openskills_test_pkg/sub", "openskills_test_bare"):
        (directory / package).mkdir(parents=True)
        (directory / package / "__init__.py").write_text("raise RuntimeError('imported')")
    for package in ("openskills_test_pkg", "openskills_test_pkg/sub"):
        folder = directory / package / ".agents" / "skills" / "hello"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_bytes(SKILL)
    sys.path.insert(0, str(directory))
    invalidate_caches()
    yield directory
    sys.path.remove(str(directory))


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("openskills_test_pkg", "openskills_test_pkg"),
        ("openskills-test-pkg", "openskills_test_pkg"),
        ("openskills_test_pkg.sub", "openskills_test_pkg/sub"),
    ],
)
def test_the_skills_of_a_package_are_found(name: str, folder: str, site: Path) -> None:
    [root] = PackageSource(name).fetch(silent).roots
    assert (root.path, root.label, root.watch) == (site / folder / ".agents/skills", f"package:{name}", False)
    assert "openskills_test_pkg" not in sys.modules


def test_a_real_package_with_skills_is_found() -> None:
    [root] = PackageSource("typer").fetch(silent).roots
    assert list(root.path.glob("*/SKILL.md"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("openskills_test_bare", "the package has no folder"),
        ("no_such_package_at_all", "no such package is installed"),
        ("__main__", "no such package is installed"),
        ("sys", "no such package is installed"),
    ],
)
def test_a_package_without_skills_is_an_error_that_says_why(name: str, reason: str, site: Path) -> None:
    with pytest.raises(SourceUnavailable, match=f"package:{name}: {reason}"):
        PackageSource(name).fetch(silent)


@pytest.mark.parametrize("name", ["", "a b", "../x", "a..b", "1a", "a/b"])
def test_what_is_no_name_of_a_package_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="is not the name of a package"):
        PackageSource(name)


def test_all_packages_are_looked_through_and_other_places_are_not(site: Path, tmp_path: Path) -> None:
    stray = tmp_path / "project" / "thing" / ".agents" / "skills"
    stray.mkdir(parents=True)
    search_path = ["", str(tmp_path / "project"), str(tmp_path / "gone" / "site-packages"), str(site), str(site)]
    roots = PackagesSource(search_path).fetch(silent).roots
    assert [(root.path, root.label) for root in roots] == [
        (site / "openskills_test_pkg/.agents/skills", "package:openskills_test_pkg")
    ]


def test_the_packages_of_this_interpreter_are_the_default() -> None:
    assert "package:typer" in {root.label for root in PackagesSource().fetch(silent).roots}
