"""A skill reads its body and files when asked, as they are then, and nothing outside its folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.catalog.skill import Skill
from openskills.errors import ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded
from openskills.skillmd.manifest import SkillManifest

WriteSkill = Callable[..., Path]


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
    for path in ("missing.md", "references"):
        with pytest.raises(InvalidArgument, match="is not a file of the skill 'alpha'"):
            skill.read(path)


def test_a_resource_over_the_limit_is_refused(skill: Skill) -> None:
    with pytest.raises(LimitExceeded, match="more than 3 bytes"):
        skill.read("run.py", limit=3)
    assert skill.read("run.py", limit=7) == b"print()"
