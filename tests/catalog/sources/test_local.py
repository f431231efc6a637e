"""Local paths of every kind become folders; what is missing is a problem and not the end.

Skills that come with installed packages are found, and the packages are not imported.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from importlib import invalidate_caches
from pathlib import Path

import pytest

from openskills.catalog.root import Root, no_progress
from openskills.catalog.sources.archive import hash_content
from openskills.catalog.sources.cache import private_copy
from openskills.catalog.sources.local import LocalSource, PackageSource, PackagesSource
from openskills.errors import InvalidArgument, InvalidSkill, SourceUnavailable, UnsupportedMedia
from openskills.filesystem import try_lock_directory
from openskills.skillmd.problem import Severity
from tests.catalog.sources.archive_bytes import SKILL, tar_of, zip_of


def source(path: Path, pin: str | None = None) -> LocalSource:
    return LocalSource(path, f"./{path.name}", path.parent / "cache", pin)


def test_a_folder_is_its_own_root(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    assert source(tmp_path / "skills").fetch(no_progress).roots == (Root(tmp_path / "skills", "./skills"),)


@pytest.mark.parametrize("name", ["SKILL.md", "skill.md"])
def test_a_manifest_stands_for_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(SKILL)
    assert source(tmp_path / name).fetch(no_progress).roots == (Root(tmp_path, f"./{name}"),)


@pytest.mark.parametrize(
    ("name", "data"), [("a.zip", zip_of({"x/SKILL.md": SKILL})), ("b", tar_of({"x/SKILL.md": SKILL}))]
)
def test_an_archive_is_unpacked_once_and_again_when_it_changed(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    local = source(tmp_path / name)
    [root] = local.fetch(no_progress).roots
    assert (root.path / "x/SKILL.md").read_bytes() == SKILL
    assert (root.confine, root.watch) == (root.path, False)
    assert local.fetch(no_progress).roots == (root,)
    (tmp_path / name).write_bytes(zip_of({"y/SKILL.md": SKILL}))
    [changed] = local.fetch(no_progress).roots
    assert (changed.path / "y/SKILL.md").is_file()


def test_a_pinned_archive_is_checked(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_of({"x/SKILL.md": SKILL}))
    assert source(tmp_path / "a.zip", hash_content(tmp_path / "a.zip")[0]).fetch(no_progress).roots
    with pytest.raises(InvalidSkill, match=f"sha256 is .*, expected {'0' * 64}"):
        source(tmp_path / "a.zip", "0" * 64).fetch(no_progress)


def test_only_archives_can_be_pinned(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="only an archive can be pinned"):
        source(tmp_path, "0" * 64).fetch(no_progress)


def test_what_does_not_exist_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    for path in (tmp_path / "gone", tmp_path / "file" / "x", tmp_path / "dangling"):
        fetched = source(path).fetch(no_progress)
        assert fetched.roots == ()
        [problem] = fetched.problems
        assert (problem.rule, problem.severity) == ("source-missing", Severity.ERROR)
        assert problem.message == f"./{path.name}: no such file or folder; create it or correct the path"


def test_a_pipe_is_refused_without_being_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceUnavailable, match="neither a folder nor a file"):
        source(tmp_path / "pipe").fetch(no_progress)


def test_a_path_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SourceUnavailable, match="cannot be read: "):
        source(tmp_path / "loop").fetch(no_progress)


def test_any_other_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UnsupportedMedia, match=r"notes\.txt: not a zip or tar archive"):
        source(tmp_path / "notes.txt").fetch(no_progress)


def test_an_archive_that_changes_after_it_was_read_is_not_used_under_its_old_pin(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zip_of({"x/SKILL.md": SKILL}))
    pinned = source(path, hash_content(path)[0])
    # An emptied place lets the source read the file, and then wait for the lock.
    place = tmp_path / "cache/archives" / hash_content(path)[0]
    place.mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        with try_lock_directory(place.parent):
            fetching = pool.submit(pinned.fetch, no_progress)
            wait([fetching], 0.05)
            path.write_bytes(zip_of({"x/SKILL.md": b"evil"}))
        with pytest.raises(InvalidSkill, match=r"sha256 is .*, expected"):
            fetching.result()
    assert not [found for found in (tmp_path / "cache").rglob("*") if found.name != ".lock" and found.is_file()]


def test_what_is_unpacked_has_the_digest_of_its_place_whatever_happens_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"one")
    with (
        (tmp_path / "a.zip").open("rb") as file,
        private_copy(file, tmp_path / "cache", name="a.zip") as (copy, sha256),
    ):
        (tmp_path / "a.zip").write_bytes(b"two")
        assert sha256 == hash_content(copy)[0]
        assert copy.read_bytes() == b"one"
    assert not copy.exists()


def test_a_change_that_hides_its_time_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({"x/SKILL.md": SKILL}, "w:"))
    local, before = source(path), path.stat()
    local.fetch(no_progress)
    with path.open("r+b") as file:
        file.write(tar_of({"y/SKILL.md": SKILL}, "w:"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    [root] = local.fetch(no_progress).roots
    assert (root.path / "y/SKILL.md").is_file()


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
    [root] = PackageSource(name).fetch(no_progress).roots
    assert (root.path, root.label, root.watch) == (site / folder / ".agents/skills", f"package:{name}", False)
    assert "openskills_test_pkg" not in sys.modules


def test_a_real_package_with_skills_is_found() -> None:
    [root] = PackageSource("typer").fetch(no_progress).roots
    assert list(root.path.glob("*/SKILL.md"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("openskills_test_bare", "the package has no folder"),
        ("no_such_package_at_all", "the package is not installed"),
        ("__main__", "the package is not installed"),
        ("sys", "the package is not installed"),
    ],
)
def test_a_package_without_skills_is_an_error_that_says_why(name: str, reason: str, site: Path) -> None:
    with pytest.raises(SourceUnavailable, match=f"package:{name}: {reason}"):
        PackageSource(name).fetch(no_progress)


@pytest.mark.parametrize("name", ["", "a b", "../x", "a..b", "1a", "a/b"])
def test_what_is_not_a_name_of_a_package_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid package name"):
        PackageSource(name)


def test_all_packages_are_looked_through_and_other_places_are_not(site: Path, tmp_path: Path) -> None:
    stray = tmp_path / "project" / "thing" / ".agents" / "skills"
    stray.mkdir(parents=True)
    search_path = ["", str(tmp_path / "project"), str(tmp_path / "gone" / "site-packages"), str(site), str(site)]
    roots = PackagesSource(search_path).fetch(no_progress).roots
    assert [(root.path, root.label) for root in roots] == [
        (site / "openskills_test_pkg/.agents/skills", "package:openskills_test_pkg")
    ]


def test_the_packages_of_this_interpreter_are_the_default() -> None:
    assert "package:typer" in {root.label for root in PackagesSource().fetch(no_progress).roots}
