"""Requests in words against the skills that ship: which command the rules make of them, or why none."""

from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.settings import Settings
from tests.agent.rule_requests import answer, arguments, loaded, user

SKILLS = Path(__file__).parents[2] / "skills"


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog.from_paths(SKILLS, settings=Settings.from_env({"HOME": str(tmp_path_factory.mktemp("home"))}))


def made(catalog: Catalog, text: str, *files: str) -> str:
    """The command for a request; the answer where there is none."""
    asked = [user(text, *files)]
    first = answer(catalog, asked)
    if not first.calls:
        return first.text
    skill = arguments(first)["skill"]
    then = answer(catalog, [*asked, *loaded(skill, catalog.get(skill).body())])
    return arguments(then)["command"] if then.calls else then.text


@pytest.mark.parametrize(
    ("text", "files", "command"),
    [
        ("convert 10 km to miles", (), "python3 scripts/convert.py 10 km miles"),
        ("convert 10 miles to km", (), "python3 scripts/convert.py 10 miles km"),
        ("max of -3 and 7", (), "python3 scripts/describe.py -3 7"),
        ("sqrt(2) to 10 digits", (), "python3 scripts/evaluate.py 'sqrt(2)' --digits 10"),
        ("What is 17 * 23?", (), "python3 scripts/evaluate.py '17 * 23'"),
        ("解方程 x^2 - 5x + 6 = 0", (), "python3 scripts/solve.py 'x^2 - 5x + 6 = 0'"),
        ("3, 5, 10 的平均数是多少？", (), "python3 scripts/describe.py 3 5 10"),
        ("What is the average amount?", ("sales.csv",), "python3 scripts/report.py inputs/sales.csv"),
        ("Plot amount by month", ("sales.csv",), "scripts/chart.py inputs/sales.csv --x month --y amount --output"),
        ("画出 amount 和 month 的柱状图", ("sales.csv",), "python3 scripts/chart.py inputs/sales.csv"),
        ("Show the top 2 errors", ("app.log",), "python3 scripts/triage.py inputs/app.log --top 2"),
        ("Show the top errors", ("app.log",), "python3 scripts/triage.py inputs/app.log --top 20"),
        ("总结这个日志的错误", ("app.log",), "python3 scripts/triage.py inputs/app.log"),
        ('Replace: find "fox", with "cat"', ("poem.txt",), "--find fox --with cat"),
        ("统计 poem.txt 的字数", ("poem.txt",), "python3 scripts/text.py count inputs/poem.txt"),
        ("Check the links in this document", ("doc.md",), "python3 scripts/check_links.py inputs/doc.md"),
    ],
)
def test_a_request_becomes_the_command_that_it_means(
    catalog: Catalog, text: str, files: tuple[str, ...], command: str
) -> None:
    assert command in made(catalog, text, *files)


@pytest.mark.parametrize(
    ("text", "files", "said"),
    [
        ('find "fox" in poem.txt', ("poem.txt",), "no value for `color`"),
        ("Plot sales.csv", ("sales.csv",), "no value for `month`, no value for `amount`."),
        ('Replace "fox" by "cat" in poem.txt', ("poem.txt",), "no value for"),
        ("Write minutes of this meeting", ("poem.txt",), "This needs a language model: choose one with `--model NAME`"),
        ("What's the weather in Bergen?", (), "No skill here clearly fits this request"),
        ("你好", (), "这里没有明显适合这个请求的技能"),
        ("$no-such-skill do it", (), "Unknown skill no-such-skill"),
        ("What does the paper say about pdf?", (), "was not run: the request has no file."),
    ],
)
def test_what_cannot_be_run_is_said_instead_of_guessed(
    catalog: Catalog, text: str, files: tuple[str, ...], said: str
) -> None:
    assert said in made(catalog, text, *files)
