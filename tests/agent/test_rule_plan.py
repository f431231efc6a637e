"""What the rules do next."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from openskills.agent.rule_plan import Action, Load, Plan, Run, Say
from openskills.agent.rule_turn import turn_of
from openskills.catalog.catalog import Catalog
from tests.agent.rule_requests import called, catalog_in, ended, loaded, user

BODY = """\
Describe it:

```
python3 scripts/report.py table.csv --output report.md
```

Draw a chart:

```
python3 scripts/chart.py table.csv --x month --output chart.svg
```
"""
BOTH = ("skill_load", "skill_run")
REPORT = "python3 scripts/report.py inputs/a.csv --output out/report.md"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return catalog_in(tmp_path, csv_report=("Describe a CSV table, draw a chart of it.", BODY), notes="Writes minutes.")


def planned(catalog: Catalog, *messages: dict[str, Any], tools: Collection[str] = BOTH) -> Action:
    return Plan(turn_of(messages), tools, catalog.snapshot).next()


def said(action: Action) -> str:
    assert isinstance(action, Say)
    return action.text


def test_the_skill_that_fits_is_loaded_then_run_then_told(catalog: Catalog) -> None:
    asked = user("Describe this table", "a.csv")
    assert planned(catalog, asked) == Load("csv-report")
    turn = [asked, *loaded("csv-report", BODY)]
    assert planned(catalog, *turn) == Run("csv-report", REPORT)
    turn += ended("run-1", "csv-report", REPORT, stdout="6 rows")
    text = said(planned(catalog, *turn))
    assert "    6 rows" in text
    assert text.endswith("Nobody has read the result.")
    assert "of all skills it shares the most" in text


def test_a_skill_that_is_in_sight_already_is_not_loaded_again(catalog: Catalog) -> None:
    system = {"role": "system", "content": f"Loaded skill context:\n\n[Loaded] csv-report\n\n{BODY}"}
    assert planned(catalog, system, user("go on", "a.csv")) == Run("csv-report", REPORT)


def test_one_file_at_a_time_two_at_most_and_the_rest_is_named(catalog: Catalog) -> None:
    turn = [user("Describe these tables", "a.csv", "b.csv", "c.csv"), *loaded("csv-report", BODY)]
    for name in ("a", "b"):
        command = f"python3 scripts/report.py inputs/{name}.csv --output out/{name}-report.md"
        assert planned(catalog, *turn) == Run("csv-report", command)
        turn += ended(f"run-{name}", "csv-report", command, stdout=f"rows of {name}")
    text = said(planned(catalog, *turn))
    assert "rows of a" in text
    assert "rows of b" in text
    assert "c.csv. Ask again" in text


def test_when_the_command_of_the_words_fails_the_first_of_the_skill_is_run_once(catalog: Catalog) -> None:
    chart = "python3 scripts/chart.py inputs/a.csv --x month --output out/chart.svg"
    turn = [user("plot it", "a.csv"), *loaded("csv-report", BODY)]
    assert planned(catalog, *turn) == Run("csv-report", chart)
    turn += ended("run-1", "csv-report", chart, exit_code=2, stderr="no column month")
    assert planned(catalog, *turn) == Run("csv-report", REPORT)
    turn += ended("run-2", "csv-report", REPORT, exit_code=2, stderr="no table")
    text = said(planned(catalog, *turn))
    assert "no column month" in text
    assert "no table" in text


def test_the_first_command_is_not_repeated_when_it_fails(catalog: Catalog) -> None:
    turn = [user("Describe this table", "a.csv"), *loaded("csv-report", BODY)]
    turn += ended("run-1", "csv-report", REPORT, exit_code=3, stderr="no table")
    assert "no table" in said(planned(catalog, *turn))


def test_a_file_of_an_earlier_message_is_used_when_none_comes_with_this_one(catalog: Catalog) -> None:
    turn = [user("hello", "a.csv"), user("describe that table"), *loaded("csv-report", BODY)]
    assert planned(catalog, *turn) == Run("csv-report", REPORT)


def test_without_a_file_nothing_is_run(catalog: Catalog) -> None:
    assert "Attach one" in said(planned(catalog, user("describe my table"), *loaded("csv-report", BODY)))


def test_where_nothing_can_be_run_the_text_of_the_skill_is_the_answer(catalog: Catalog) -> None:
    turn = [user("describe my table"), *loaded("csv-report", BODY)]
    text = said(planned(catalog, *turn, tools=("skill_load",)))
    assert text.startswith("No command can be run here")
    assert "    Describe it:" in text


def test_a_skill_without_a_command_is_for_a_language_model(catalog: Catalog) -> None:
    text = said(planned(catalog, user("$notes"), *loaded("notes", "Read all of it.")))
    assert "no command that a rule could run" in text
    assert "    Read all of it." in text


def test_where_nothing_can_be_loaded_nothing_is_done(catalog: Catalog) -> None:
    assert "cannot be loaded here" in said(planned(catalog, user("$notes"), tools=()))


def test_a_skill_that_cannot_be_loaded_is_not_tried_again(catalog: Catalog) -> None:
    turn = [user("$notes"), *called("load-1", "skill_load", "error: it is broken", skill="notes")]
    assert "could not be loaded: it is broken" in said(planned(catalog, *turn))


def test_the_answer_of_a_skill_that_works_elsewhere_is_passed_on(catalog: Catalog) -> None:
    turn = [user("$notes"), *called("load-1", "skill_load", "The minutes are done.", skill="notes")]
    assert "The minutes are done." in said(planned(catalog, *turn))


def test_a_step_without_a_result_ends_the_turn(catalog: Catalog) -> None:
    turn = [user("$notes"), *called("load-1", "skill_load", skill="notes")]
    assert "no result of the last step" in said(planned(catalog, *turn))


def test_no_request_and_no_fitting_skill_are_said(catalog: Catalog) -> None:
    assert said(planned(catalog)).startswith("There is no request.")
    assert said(planned(catalog, user("tell me a joke"))).startswith("No skill here clearly fits")


def test_a_chinese_request_is_answered_in_chinese(catalog: Catalog) -> None:
    assert said(planned(catalog, user("讲个笑话"))).startswith("这里没有明显适合这个请求的技能")
