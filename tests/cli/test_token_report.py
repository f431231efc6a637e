"""`token-report`: what skills cost, for people and for programs."""

import json

from openskills.cli.token_report import align_columns, report_json
from openskills.runtime.token_report import Cost, DisclosureMode, TaskReport, TokenReport
from tests.cli.command import Command
from tests.skill_writer import WriteSkill


def test_a_report_compares_three_ways_and_says_how_it_counted(openskills: Command, write_skill: WriteSkill) -> None:
    (write_skill("forms", body="Fill in. " * 200) / "guide.md").write_text("All about forms. " * 50)
    write_skill("notes")
    found = openskills("token-report", "--skills", "skills", "--estimate", "--json").json
    assert found["counted"] == {"by": "estimate", "exact": False}
    assert found["library"]["skills"] == 2
    assert list(found["ways"]) == ["progressive", "bodies", "bodies and docs"]
    assert found["ways"]["progressive"]["saved"] == 0
    one = found["tasks"][0]["ways"]["bodies"]
    assert one["tokens"] == sum(request["tokens"] for request in one["each"])
    assert set(one["each"][0]["layers"]) >= {"overview", "guidance", "tools", "body", "docs", "other"}


def test_tables_say_that_tokens_are_estimated(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("notes")
    ran = openskills("token-report", "--skills", "skills", "--estimate", "--requests")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].startswith("1 skill, in estimated tokens")
    for title in ("2 tasks together", "By layer", "By task", "By request"):
        assert title in ran.lines


def test_tasks_of_the_user_are_played(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("notes")
    turns = [{"user": "Write notes", "steps": [{"load": "notes"}, {"answer": "three lines"}]}]
    (openskills.cwd / "tasks.json").write_text(json.dumps({"tasks": [{"name": "mine", "turns": turns}]}))
    (task,) = openskills("token-report", "--skills", "skills", "--tasks", "tasks.json", "--json").json["tasks"]
    assert (task["name"], task["ways"]["progressive"]["requests"]) == ("mine", 3)


def test_tasks_that_do_not_fit_are_refused_with_what_is_wrong(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("notes")
    turns = [{"user": "Go", "steps": [{"load": "nobody"}]}]
    (openskills.cwd / "tasks.json").write_text(json.dumps({"tasks": [{"name": "mine", "turns": turns}]}))
    ran = openskills("token-report", "--skills", "skills", "--tasks", "tasks.json")
    assert ran.code == 2
    assert "skill_load of 'nobody' failed" in ran.err
    assert openskills("token-report", "--skills", "skills", "--tasks", "none.json").code == 2


def test_a_place_without_skills_is_an_error_and_no_report(openskills: Command) -> None:
    (openskills.cwd / "empty").mkdir()
    ran = openskills("token-report", "--skills", "empty")
    assert (ran.code, ran.out) == (2, "")
    assert "no skill is visible to models" in ran.err
    assert openskills("token-report", "--skills", "nowhere").code == 1


def report() -> TokenReport:
    costs = {
        DisclosureMode.PROGRESSIVE: (Cost(10, 10), Cost(15, 5)),
        DisclosureMode.BODIES: (Cost(100, 100),),
        DisclosureMode.EVERYTHING: (Cost(0, 0),),
    }
    return TokenReport("estimate", False, 1, (), 5, 50, 0, (TaskReport("one", costs),))


def test_numbers_stand_to_the_right_below_their_heading() -> None:
    assert align_columns([["", "tokens"], ["all", "1,234"], ["one of them", "7"]]).splitlines() == [
        "             tokens",
        "all           1,234",
        "one of them       7",
    ]


def test_json_has_what_is_saved_and_nothing_is_saved_of_nothing() -> None:
    ways = report_json(report())["ways"]
    assert isinstance(ways, dict)
    assert [ways[way]["saved"] for way in DisclosureMode] == [0.0, 0.75, 0.0]
