"""The strict attitude: everything is said, nothing is raised, and safe fixes change the file and nothing else."""

from pathlib import Path

import pytest

from openskills.catalog.validate import SkillFolderList, find_skill_folders, fix, validate
from openskills.errors import InvalidArgument
from tests.skill_writer import WriteSkill


def test_a_good_skill_is_valid(write_skill: WriteSkill) -> None:
    verdict = validate(write_skill("alpha"))
    assert (verdict.is_valid, verdict.name, verdict.problems) == (True, "alpha", ())


def test_a_folder_its_file_and_a_relative_path_are_the_same_skill(
    write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_skill("alpha")
    monkeypatch.chdir(folder)
    verdicts = {validate(path) for path in (folder, folder / "SKILL.md", ".", "SKILL.md", "./SKILL.md")}
    assert len(verdicts) == 1
    assert verdicts.pop().is_valid


def test_what_a_loader_tolerates_a_validator_does_not(write_skill: WriteSkill) -> None:
    verdict = validate(write_skill("alpha", folder="beta"))
    assert not verdict.is_valid
    assert [problem.severity.value for problem in verdict.problems] == ["error"]


def test_problems_carry_the_file_and_the_place(write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", "Use when: always")
    (problem,) = (each for each in validate(folder).problems if each.rule == "yaml-unquoted")
    assert (problem.path, problem.line) == (str(folder / "SKILL.md"), 3)


def test_an_unreadable_file_is_a_verdict_and_no_exception(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "SKILL.md").write_bytes(b"\xff\xfe")
    verdict = validate(tmp_path / "a")
    assert (verdict.is_valid, verdict.name) == (False, None)
    assert [problem.rule for problem in verdict.problems] == ["text-encoding"]


def test_a_folder_without_a_skill_is_a_verdict_too(tmp_path: Path) -> None:
    assert [problem.rule for problem in validate(tmp_path).problems] == ["file-missing"]


def test_a_path_that_does_not_exist_is_an_error_of_the_caller(tmp_path: Path) -> None:
    for wrong in (tmp_path / "missing", tmp_path / "file.txt"):
        (tmp_path / "file.txt").write_text("x")
        with pytest.raises(InvalidArgument, match="path"):
            validate(wrong)


def test_a_directory_stands_for_the_skills_in_it(tmp_path: Path, write_skill: WriteSkill) -> None:
    folders = [write_skill("alpha"), write_skill("beta", under="skills/group")]
    assert find_skill_folders([tmp_path / "skills", folders[0]]) == SkillFolderList(tuple(folders), ())
    (tmp_path / "empty").mkdir()
    assert find_skill_folders([tmp_path / "empty"]).skills == (tmp_path / "empty",)


def test_a_misspelt_file_next_to_good_skills_is_not_passed_over(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    (tmp_path / "skills" / "beta").mkdir()
    (tmp_path / "skills" / "beta" / "Skill.md").write_text("---\nname: beta\ndescription: b\n---\n")
    (odd,) = find_skill_folders([tmp_path / "skills"]).oddities
    assert (odd.path, odd.problems[0].rule) == (str(tmp_path / "skills" / "beta" / "Skill.md"), "file-name")


def test_safe_fixes_mend_the_file_and_keep_its_mode(write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", "Merge files. Use when: always")
    file = folder / "SKILL.md"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    file.chmod(0o640)
    verdict = fix(folder)
    assert {problem.rule for problem in verdict.fixed} == {"text-bom", "yaml-unquoted"}
    assert verdict.is_valid
    assert verdict.problems == ()
    assert file.read_text() == '---\nname: alpha\ndescription: "Merge files. Use when: always"\n---\n\n# Body\n'
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in folder.iterdir()] == ["SKILL.md"]


def test_a_fix_goes_to_the_file_behind_a_link_and_the_link_stays(write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", "Merge files. Use when: always")
    (folder / "docs").mkdir()
    target = (folder / "SKILL.md").rename(folder / "docs" / "text.md")
    target.chmod(0o640)
    (folder / "SKILL.md").symlink_to("docs/text.md")
    assert [problem.rule for problem in fix(folder).fixed] == ["yaml-unquoted"]
    assert (folder / "SKILL.md").readlink() == Path("docs/text.md")
    assert 'description: "Merge files. Use when: always"' in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in (folder / "docs").iterdir()] == ["text.md"]


def test_a_skill_that_needs_no_fix_is_not_touched(write_skill: WriteSkill) -> None:
    folder = write_skill("alpha")
    before = (folder / "SKILL.md").stat().st_mtime_ns
    assert fix(folder).fixed == ()
    assert (folder / "SKILL.md").stat().st_mtime_ns == before


def test_what_cannot_be_mended_is_left_as_it_is(write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", folder="beta")
    before = (folder / "SKILL.md").read_bytes()
    assert not fix(folder).is_valid
    assert (folder / "SKILL.md").read_bytes() == before


def test_a_text_that_only_another_text_points_at_is_noticed(write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", body="# Body\n\nSee [one](references/one.md).")
    (folder / "references").mkdir()
    (folder / "references" / "one.md").write_text("See [two](two.md).")
    (folder / "references" / "two.md").write_text("The end.")
    assert [problem.rule for problem in validate(folder).problems] == ["reference-depth"]
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "And [two](references/two.md).\n")
    assert validate(folder).problems == ()
