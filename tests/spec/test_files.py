"""The clauses that need a disk."""

from pathlib import Path

import pytest

from openskills.catalog.discovery import discover
from openskills.catalog.root import Root
from openskills.catalog.skill import read_skill_text
from openskills.catalog.validate import validate
from openskills.skillmd.problem import Problem
from openskills.skillmd.rules import ALL_RULES
from tests.spec.cases import SOUND

RULES = {rule.id: rule for rule in ALL_RULES}


def read(folder: Path) -> Problem:
    text, problem = read_skill_text(str(folder))
    assert text == ""
    assert problem is not None
    assert problem.severity is RULES[problem.rule].severity
    return problem


def test_a_folder_without_a_skill_file_is_reported(tmp_path: Path) -> None:
    assert read(tmp_path).rule == "file-missing"


def test_a_skill_file_in_other_letters_is_reported_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "pdf-tools").mkdir()
    (tmp_path / "pdf-tools" / "skill.md").write_text(SOUND, "utf-8")
    scan = discover(Root(tmp_path, "test"))
    found = [problem for entry in scan.visited.values() for problem in entry.problems]
    assert [problem.rule for problem in found] == ["file-name"]
    assert found[0].severity is RULES["file-name"].severity


@pytest.mark.parametrize("name", ["link-ded", "link_dead", "Link-Dead"])
def test_a_comment_that_names_no_rule_is_reported_with_the_nearest_rule(tmp_path: Path, name: str) -> None:
    comments = f"<!-- openskills: ignore link-dead, body-lines -->\n  <!-- openskills: ignore-file {name} zzz -->\n"
    (tmp_path / "pdf-tools").mkdir()
    (tmp_path / "pdf-tools" / "SKILL.md").write_text(SOUND + comments, "utf-8")
    (found,) = validate(tmp_path / "pdf-tools").problems
    assert (found.rule, found.severity, found.line, found.column) == (
        "suppression-unknown",
        RULES["suppression-unknown"].severity,
        SOUND.count("\n") + 2,
        3,
    )
    assert found.message == f"the comment names an unknown rule {name!r}; did you mean link-dead?"


def test_a_directory_in_place_of_the_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").mkdir()
    assert read(tmp_path).rule == "file-type"


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    # A link to itself cannot be opened even by root.
    (tmp_path / "SKILL.md").symlink_to("SKILL.md")
    assert read(tmp_path).rule == "file-unreadable"


def test_a_link_out_of_the_folder_is_reported_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text(SOUND, "utf-8")
    (tmp_path / "pdf-tools").mkdir()
    (tmp_path / "pdf-tools" / "SKILL.md").symlink_to(tmp_path / "outside.md")
    assert read(tmp_path / "pdf-tools").rule == "link-leaves-skill"
