"""Local paths of every kind become folders; what is missing is a problem and not the end."""

import os
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from openskills.catalog.fetch.arriving import alone
from openskills.catalog.fetch.local import LocalSource
from openskills.catalog.fetch.placing import copied, sha256_of
from openskills.catalog.progress import silent
from openskills.catalog.root import Root
from openskills.errors import InvalidArgument, InvalidSkill, SourceUnavailable, UnsupportedMedia
from openskills.skillmd.problem import Severity
from tests.catalog.fetch.archive_bytes import SKILL, tar_of, zip_of


def source(path: Path, pin: str | None = None) -> LocalSource:
    return LocalSource(path, f"./{path.name}", path.parent / "cache", pin)


def test_a_folder_is_its_own_root(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    assert source(tmp_path / "skills").fetch(silent).roots == (Root(tmp_path / "skills", "./skills"),)


@pytest.mark.parametrize("name", ["SKILL.md", "skill.md"])
def test_a_manifest_stands_for_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(SKILL)
    assert source(tmp_path / name).fetch(silent).roots == (Root(tmp_path, f"./{name}"),)


@pytest.mark.parametrize(
    ("name", "data"), [("a.zip", zip_of({"x/SKILL.md": SKILL})), ("b", tar_of({"x/SKILL.md": SKILL}))]
)
def test_an_archive_is_unpacked_once_and_again_when_it_changed(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    local = source(tmp_path / name)
    [root] = local.fetch(silent).roots
    assert (root.path / "x/SKILL.md").read_bytes() == SKILL
    assert (root.confine, root.watch) == (root.path, False)
    assert local.fetch(silent).roots == (root,)
    (tmp_path / name).write_bytes(zip_of({"y/SKILL.md": SKILL}))
    [changed] = local.fetch(silent).roots
    assert (changed.path / "y/SKILL.md").is_file()


def test_a_pinned_archive_is_checked(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_of({"x/SKILL.md": SKILL}))
    assert source(tmp_path / "a.zip", sha256_of(tmp_path / "a.zip")).fetch(silent).roots
    with pytest.raises(InvalidSkill, match=f"has sha256 .*, but {'0' * 64} was expected"):
        source(tmp_path / "a.zip", "0" * 64).fetch(silent)


def test_only_archives_can_be_pinned(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="only an archive can be pinned"):
        source(tmp_path, "0" * 64).fetch(silent)


def test_what_does_not_exist_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    for path in (tmp_path / "gone", tmp_path / "file" / "x", tmp_path / "dangling"):
        fetched = source(path).fetch(silent)
        assert fetched.roots == ()
        [problem] = fetched.problems
        assert (problem.rule, problem.severity) == ("source-missing", Severity.ERROR)
        assert problem.message == f"./{path.name}: there is no such folder or file; create it or correct the path"


def test_a_pipe_is_refused_without_being_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceUnavailable, match="is neither a folder nor a file"):
        source(tmp_path / "pipe").fetch(silent)


def test_a_path_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SourceUnavailable, match="cannot be read: "):
        source(tmp_path / "loop").fetch(silent)


def test_any_other_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UnsupportedMedia, match=r"notes\.txt: is not a zip or tar archive"):
        source(tmp_path / "notes.txt").fetch(silent)


def test_an_archive_that_changes_after_it_was_read_is_not_used_under_its_old_pin(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zip_of({"x/SKILL.md": SKILL}))
    pinned = source(path, sha256_of(path))
    # An emptied place lets the source read the file, and then wait for the lock.
    place = tmp_path / "cache/archives" / sha256_of(path)
    place.mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        with alone(place.parent):
            fetching = pool.submit(pinned.fetch, silent)
            wait([fetching], 0.05)
            path.write_bytes(zip_of({"x/SKILL.md": b"evil"}))
        with pytest.raises(InvalidSkill, match="was expected"):
            fetching.result()
    assert not [found for found in (tmp_path / "cache").rglob("*") if found.name != ".lock" and found.is_file()]


def test_what_is_unpacked_has_the_digest_of_its_place_whatever_happens_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"one")
    with (tmp_path / "a.zip").open("rb") as file, copied(file, tmp_path / "cache", name="a.zip") as (copy, sha256):
        (tmp_path / "a.zip").write_bytes(b"two")
        assert sha256 == sha256_of(copy)
        assert copy.read_bytes() == b"one"
    assert not copy.exists()


def test_a_change_that_hides_its_time_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({"x/SKILL.md": SKILL}, "w:"))
    local, before = source(path), path.stat()
    local.fetch(silent)
    with path.open("r+b") as file:
        file.write(tar_of({"y/SKILL.md": SKILL}, "w:"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    [root] = local.fetch(silent).roots
    assert (root.path / "y/SKILL.md").is_file()
