"""`search`: the best first, for people and for programs."""

from tests.cli.command import Command
from tests.skill_writer import WriteSkill


def test_the_best_hit_comes_first(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("pdf-tools", "Merges PDF files. Use when the user has several PDFs.")
    write_skill("brand-voice", "Writes in the tone of the company. Use for public texts.")
    ran = openskills("search", "merge two pdfs", "skills")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "pdf-tools\tMerges PDF files. Use when the user has several PDFs.\tskills\n"


def test_json_has_a_score_and_the_limit_counts(openskills: Command, write_skill: WriteSkill) -> None:
    for number in range(5):
        write_skill(f"merge-{number}")
    skills = openskills("search", "merge", "skills", "--limit", "2", "--json").json["skills"]
    assert len(skills) == 2
    assert list(skills[0]) == ["name", "description", "location", "source", "score"]
    assert skills[0]["score"] > 0


def test_no_hit_is_said_and_is_no_failure(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    ran = openskills("search", "\x1bzzzz", "skills")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("none of 1 visible skill")
    assert "\x1b" not in ran.err


def test_a_place_that_is_missing_explains_a_missing_result(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    assert "[project-untrusted]" in openskills("search", "things").err
    assert openskills("search", "things", "nowhere").code == 1


def test_problems_of_single_skills_are_not_repeated_here(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("Alpha")
    assert openskills("search", "things", "skills").err == ""
