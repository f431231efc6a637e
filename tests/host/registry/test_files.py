"""Which files are manifests, and reading them whatever they are."""

import os
import time
from pathlib import Path

import pytest

from openskills.host.registry.files import MOST_FILES, ManifestFile, look, read, stamp_of


def names(files: tuple[ManifestFile, ...]) -> list[tuple[str, str]]:
    return [(file.name, file.skill) for file in files]


def test_manifests_and_scripts_are_found_and_hidden_names_are_not(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "s.py", "_private.py", ".hidden.yaml", "notes.txt", "README.md"):
        (tmp_path / name).touch()
    for name in ("folder/manifest.yaml", "empty/other.yaml", "_lib/manifest.yaml"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    found = look(tmp_path)
    assert names(found.manifests) == [
        ("a.yml", "a"),
        ("b.yaml", "b"),
        ("c.json", "c"),
        ("folder/manifest.yaml", "folder"),
    ]
    assert names(found.scripts) == [("s.py", "s")]
    assert [file.is_json for file in found.manifests] == [False, False, True, False]


def test_a_directory_that_is_not_there_is_empty_and_one_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    assert look(tmp_path / "nowhere").problems == ()
    (tmp_path / "file").touch()
    (problem,) = look(tmp_path / "file").problems
    assert (problem.rule, problem.path) == ("directory-unreadable", str(tmp_path / "file"))


def test_a_name_that_is_no_utf8_gives_an_id_that_can_be_printed(tmp_path: Path) -> None:
    try:
        (tmp_path / os.fsdecode(b"\xff.yaml")).touch()
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    assert names(look(tmp_path).manifests) == [(os.fsdecode(b"\xff.yaml"), "\\xff")]


def test_of_too_many_files_the_first_are_taken_and_it_is_told(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 1):
        (tmp_path / f"{number:06}.yaml").touch()
    found = look(tmp_path)
    assert len(found.manifests) == MOST_FILES
    assert [problem.rule for problem in found.problems] == ["directory-size"]


def test_a_file_is_read_with_its_stamp_once_that_can_be_trusted(tmp_path: Path) -> None:
    file = ManifestFile(tmp_path, "a.yaml", "a")
    deadline = time.monotonic() + 30
    # A machine that stands still for a moment makes a new file old.
    while True:
        file.path.write_bytes(b"id: a")
        if read(file) == (None, b"id: a", None):
            break
        assert time.monotonic() < deadline
    while read(file)[0] is None:
        assert time.monotonic() < deadline
    assert read(file) == (stamp_of(file.path), b"id: a", None)
    assert stamp_of(tmp_path / "nowhere") is None


def test_a_link_is_followed_while_it_stays_as_mounted_configurations_have_them(tmp_path: Path) -> None:
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "a.yaml").write_bytes(b"id: a")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    assert names(look(tmp_path).manifests) == [("a.yaml", "a")]
    assert read(look(tmp_path).manifests[0])[1] == b"id: a"


def test_what_cannot_be_read_is_a_problem_and_nothing_blocks(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to("/etc/passwd")
    (tmp_path / "dead.yaml").symlink_to("nowhere")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "big.yaml").write_bytes(b"x" * 10_000_000)
    rules = {file.skill: problem.rule for file in look(tmp_path).manifests if (problem := read(file)[2]) is not None}
    assert rules == {
        "link": "link-leaves",
        "dead": "file-unreadable",
        "loop": "file-unreadable",
        "pipe": "file-type",
        "big": "file-size",
    }


def test_a_folder_that_is_a_link_to_elsewhere_gives_nothing_away(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.yaml").write_bytes(b"id: a")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a").symlink_to(tmp_path / "other")
    (file,) = look(tmp_path / "here").manifests
    problem = read(file)[2]
    assert problem is not None
    assert problem.rule == "link-leaves"
