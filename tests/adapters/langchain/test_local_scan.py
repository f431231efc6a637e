"""Skills of a directory of this machine: what the backend would answer, quicker."""

import os
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import LsResult

from openskills.adapters.langchain.local_scan import LARGEST, LocalScan, scan
from tests.skill_writer import WriteSkill


class Quiet(FilesystemBackend):
    """Answers as its base does."""


class Other(FilesystemBackend):
    """Answers differently."""

    def ls(self, path: str) -> LsResult:
        return LsResult(error=f"not {path}")


def paths(backend: Any, source: str) -> list[str]:
    found = scan(backend, source)
    assert found is not None
    return [file.path for file in found.files]


@pytest.mark.parametrize("source", ["/skills/", "skills", "/skills", "/"])
def test_paths_are_those_of_the_backend(write_skill: WriteSkill, backend: Any, source: str) -> None:
    for name in ("b", "a"):
        write_skill(name, under="skills" if source != "/" else ".")
    listed = [entry["path"] for entry in backend.ls(source).entries if entry["is_dir"]]
    expected = [f"{path}SKILL.md" for path in listed if "skills/" not in path or source != "/"]
    assert paths(backend, source) == sorted(expected)


def test_without_virtual_paths_they_are_real_ones(write_skill: WriteSkill, tmp_path: Path) -> None:
    write_skill("a")
    backend = FilesystemBackend(root_dir=tmp_path, virtual_mode=False)
    assert paths(backend, str(tmp_path / "skills")) == [str(tmp_path / "skills" / "a" / "SKILL.md")]
    assert paths(backend, "skills") == [str(tmp_path / "skills" / "a" / "SKILL.md")]


@pytest.mark.parametrize("source", ["/../", "/nowhere", "~/skills", "/a\0b", "/file"])
def test_what_the_backend_refuses_is_left_to_it(backend: Any, tmp_path: Path, source: str) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    assert scan(backend, source) is None


def test_a_source_that_leads_out_of_the_root_is_left_to_the_backend(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside" / "a").mkdir(parents=True)
    (tmp_path / "root" / "skills").symlink_to(tmp_path / "outside")
    assert scan(FilesystemBackend(root_dir=tmp_path / "root"), "/skills") is None


def test_linked_skills_are_left_to_the_backend(write_skill: WriteSkill, backend: Any, tmp_path: Path) -> None:
    write_skill("a")
    (tmp_path / "skills" / "b").symlink_to(tmp_path / "skills" / "a")
    assert scan(backend, "/skills/") is None


def test_a_linked_file_is_left_to_the_backend(write_skill: WriteSkill, backend: Any, tmp_path: Path) -> None:
    skill = write_skill("a")
    (skill / "SKILL.md").rename(skill / "real.md")
    (skill / "SKILL.md").symlink_to("real.md")
    (tmp_path / "skills" / "d" / "SKILL.md").mkdir(parents=True)
    found = scan(backend, "/skills/")
    assert found is not None
    assert (found.files, found.others) == ((), ("/skills/a/SKILL.md", "/skills/d/SKILL.md"))


def test_other_backends_are_asked_themselves(tmp_path: Path) -> None:
    assert scan(Other(root_dir=tmp_path), "/") is None
    assert scan(None, "/") is None
    assert scan(Quiet(root_dir=tmp_path), "/") == LocalScan(())


def test_directories_without_a_skill_and_files_are_passed_over(backend: Any, tmp_path: Path) -> None:
    (tmp_path / "skills" / "empty").mkdir()
    (tmp_path / "skills" / "file").write_text("x", "utf-8")
    assert paths(backend, "/skills/") == []


def test_a_file_that_is_gone_or_became_something_else_is_not_read(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("a")
    found = scan(backend, "/skills/")
    assert found is not None
    (skill / "SKILL.md").unlink()
    assert found.files[0].read() is None
    os.mkfifo(skill / "SKILL.md")
    assert found.files[0].read() is None


def test_no_more_is_read_than_can_be_used(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("a")
    with (skill / "SKILL.md").open("wb") as file:
        file.truncate(LARGEST + 100)
    found = scan(backend, "/skills/")
    assert found is not None
    content = found.files[0].read()
    assert content is not None
    assert len(content) == LARGEST + 1
