"""A skill reads its body and files when asked, as they are then, and nothing outside its folder."""

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from openskills.catalog.skill import Skill
from openskills.errors import ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded
from openskills.skillmd.manifest import SkillManifest
from tests.skill_writer import WriteSkill


@pytest.fixture
def skill(write_skill: WriteSkill) -> Skill:
    folder = write_skill("alpha", body="# One\n\ntext --- text\n---\nmore")
    (folder / "references").mkdir()
    (folder / "references" / "a.md").write_bytes(b"caf\xe9\r\n")
    (folder / "run.py").write_text("print()")
    return Skill(SkillManifest("alpha", "Does a thing."), str(folder), "test")


def test_the_body_is_read_whole_and_fresh(skill: Skill) -> None:
    assert skill.body() == "# One\n\ntext --- text\n---\nmore"
    Path(skill.location).write_text("---\nname: alpha\ndescription: b\n---\nnew")
    assert skill.body() == "new"


def test_a_body_that_has_gone_is_an_error_that_says_so(skill: Skill) -> None:
    Path(skill.location).unlink()
    with pytest.raises(InvalidSkill, match=r"alpha: there is no SKILL\.md") as caught:
        skill.body()
    assert len(caught.value.problems) == 1


def test_docs_are_those_that_a_model_may_select(skill: Skill) -> None:
    assert [resource.path for resource in skill.resources()] == ["references/a.md", "run.py"]
    assert [resource.path for resource in skill.docs()] == ["references/a.md"]


def test_a_resource_is_bytes_unchanged(skill: Skill) -> None:
    assert skill.read("references/a.md") == b"caf\xe9\r\n"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x"])
def test_a_path_that_leaves_the_skill_is_forbidden(skill: Skill, path: str) -> None:
    with pytest.raises(ForbiddenPath):
        skill.read(path)


def test_a_link_that_leaves_the_skill_is_forbidden(skill: Skill, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (skill.path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ForbiddenPath):
        skill.read("link")


def test_what_is_no_file_is_an_error_of_the_caller(skill: Skill) -> None:
    with pytest.raises(InvalidArgument, match=r"'missing\.md' of the skill 'alpha' cannot be read"):
        skill.read("missing.md")
    with pytest.raises(InvalidArgument, match="is not a file of the skill 'alpha'"):
        skill.read("references")
    for path in ("a/" * 2040 + "b", "x" * 300):
        with pytest.raises(InvalidArgument):
            skill.read(path)
    with pytest.raises(InvalidArgument, match="limit"):
        skill.read("run.py", limit=-5)


def test_a_folder_that_was_swapped_for_a_link_to_other_files_gives_none_of_them(skill: Skill, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    skill.path.rename(tmp_path / "moved")
    skill.path.symlink_to(tmp_path / "private")
    with pytest.raises(InvalidSkill, match="no skill any more"):
        skill.read("key")
    with pytest.raises(InvalidSkill, match="no skill any more"):
        skill.resources()


def test_a_link_that_is_swapped_while_it_is_read_never_leads_out(skill: Skill, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    good, bad, shown = skill.path / "good", skill.path / "bad", skill.path / "shown"
    good.write_text("good")
    bad.symlink_to(tmp_path / "secret")
    shown.write_text("good")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.replace(good, shown)
            good.write_text("good")
            os.replace(bad, shown)
            bad.symlink_to(tmp_path / "secret")

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[bytes] = set()
    try:
        for _ in range(3000):
            with suppress(ForbiddenPath, InvalidArgument):
                seen.add(skill.read("shown"))
    finally:
        stop.set()
        swapper.join()
    assert seen <= {b"good", b""}


def test_a_resource_over_the_limit_is_refused(skill: Skill) -> None:
    with pytest.raises(LimitExceeded, match="more than 3 bytes"):
        skill.read("run.py", limit=3)
    assert skill.read("run.py", limit=7) == b"print()"
