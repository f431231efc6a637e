"""Which skill a request goes to."""

from pathlib import Path

import pytest

from openskills.agent.rules.routing import (
    RULES,
    Route,
    RouteReason,
    extract_words,
    route,
    strip_skill_name,
)
from openskills.catalog.snapshot import CatalogSnapshot
from tests.agent.rule_requests import catalog_in

TABLES = "Summarise a CSV file with missing values and statistics. Use when the user gives a table (表格, 统计)."
LOGS = "分析日志文件：合并相同的错误。Group the errors of a log file. Use when the user gives a log."
LINKS = "Check the relative links of Markdown files. Use when the user renames files."


@pytest.fixture
def skills(tmp_path: Path) -> CatalogSnapshot:
    return catalog_in(tmp_path, csv_report=TABLES, log_triage=LOGS, markdown_links=LINKS).snapshot


@pytest.mark.parametrize(
    "text",
    ["$csv-report do it", "/csv-report", "use $csv-report on it", "the csv-report skill, please", "用csv-report看看"],
)
def test_a_skill_that_is_named_is_taken_whatever_else_the_words_say(skills: CatalogSnapshot, text: str) -> None:
    assert route(f"{text} 日志 log errors", (), skills) == Route("csv-report", RouteReason.NAMED)


def test_the_longest_name_that_stands_in_the_text_is_meant(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, pdf="Reads pages.", pdf_forms="Fills fields.").snapshot
    assert route("use pdf-forms now", (), skills).skill == "pdf-forms"
    assert route("read my.pdf", (), skills).reason is not RouteReason.NAMED
    assert route("use pdf.", (), skills).skill == "pdf"


def test_a_name_that_no_skill_has_is_said_with_the_nearest(skills: CatalogSnapshot) -> None:
    assert route("$csv-reprot now", (), skills) == Route(None, RouteReason.UNKNOWN, "csv-reprot", ("csv-report",))
    assert route("it costs $5, see /etc/hosts", (), skills).reason is RouteReason.NOTHING


@pytest.mark.parametrize(("name", "chosen"), [("log_transform", "log-transform"), ("logs", "logs")])
def test_a_rule_takes_the_skill_of_its_name_or_kind(tmp_path: Path, name: str, chosen: str) -> None:
    found = route("parse this", (), catalog_in(tmp_path, **{name: "Does things.", "zz_log": "Other."}).snapshot)
    assert (found.reason, found.detail, found.why) == (RouteReason.RULE, "log_transform", "rule:log_transform")
    assert found.skill in (chosen, "zz-log")


def test_the_skill_of_the_rules_own_name_comes_first(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, log_transform="Does things.", log_aaa="Parse logs, parse, parse.").snapshot
    assert route("parse the log", (), skills).skill == "log-transform"


def test_every_rule_finds_its_skill(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, echo="A.", file_search="B.", calculator="C.", log_transform="D.").snapshot
    for text, skill in (
        ("echo: hi", "echo"),
        ("检索 openSkill", "file-search"),
        ("median of 1 2 3", "calculator"),
        ("转换成 jsonl", "log-transform"),
    ):
        assert route(text, (), skills).skill == skill


def test_a_rule_without_a_fitting_skill_leaves_it_to_search(skills: CatalogSnapshot) -> None:
    found = route("find missing values in the table", (), skills)
    assert (found.skill, found.reason) == ("csv-report", RouteReason.SEARCH)


def test_a_rule_does_not_send_a_file_to_a_skill_that_is_not_for_it(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, csv_report=TABLES, calculator="Mean, median and more of numbers.").snapshot
    assert route("the mean of 1 and 2", (), skills).skill == "calculator"
    assert route("the mean of every column of the table", ("sales.csv",), skills).skill == "csv-report"


@pytest.mark.parametrize("text", ["Summarise this table", "这张表格的统计", "what is missing in this csv"])
def test_search_takes_what_shares_enough_words(skills: CatalogSnapshot, text: str) -> None:
    found = route(text, (), skills)
    assert (found.skill, found.reason) == ("csv-report", RouteReason.SEARCH)


def test_a_file_says_what_a_request_of_few_words_is_about(skills: CatalogSnapshot) -> None:
    assert route("What is this?", ("sales.csv",), skills).skill == "csv-report"


@pytest.mark.parametrize(
    "text", ["tell me a joke", "write a poem about a table in spring", "今天天气怎么样", "what can you do"]
)
def test_a_request_that_fits_nothing_goes_nowhere(skills: CatalogSnapshot, text: str) -> None:
    found = route(text, (), skills)
    assert (found.skill, found.reason) == (None, RouteReason.NOTHING)


def test_the_nearest_skills_share_at_least_a_word(skills: CatalogSnapshot) -> None:
    assert route("write a poem about a table in spring", (), skills).near == ("csv-report",)
    assert route("tell me a joke", (), skills).near == ()


def test_a_loaded_skill_is_kept_unless_the_request_is_about_another(skills: CatalogSnapshot) -> None:
    assert route("go on", (), skills, ["csv-report"]) == Route("csv-report", RouteReason.LOADED)
    assert route("check the links and files", (), skills, ["csv-report"]).skill == "markdown-links"
    assert route("check the links and files", (), skills, ["gone"]).skill == "markdown-links"


def test_the_reason_for_a_log_has_nothing_that_a_user_wrote(skills: CatalogSnapshot) -> None:
    assert route("$secret-word", (), skills).why == "unknown"


def test_a_request_without_its_name_is_what_is_left() -> None:
    assert strip_skill_name("$csv-report what is it", "csv-report") == "what is it"
    assert strip_skill_name("use /csv-report now, not $csv-report-2", "csv-report") == "use now, not $csv-report-2"


def test_names_of_files_do_not_count_as_words_of_the_request(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, text_tools="Sort lines of text.", meeting_notes="Writes minutes and notes.").snapshot
    assert route("sort notes.txt", ("notes.txt",), skills).skill == "text-tools"


def test_a_kind_of_file_is_known_by_the_word_that_skills_use(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, markdown_links=LINKS, writer="Write a SKILL.md and check it.").snapshot
    assert route("check the links", ("a.md",), skills).skill == "markdown-links"


def first_rule(text: str) -> str | None:
    return next((rule.skill_id for rule in RULES if rule.pattern.search(text)), None)


@pytest.mark.parametrize(
    ("text", "skill_id"),
    [
        ("echo: hello", "echo"),
        ("Echo：你好", "echo"),
        ("搜索 openSkill", "file_search"),
        ("find openSkill in the docs", "file_search"),
        ("grep TODO", "file_search"),
        ("在文档里检索关键词", "file_search"),
        ("这些价格的平均是多少", "calculator"),
        ("求均值", "calculator"),
        ("mean of 1, 2 and 3", "calculator"),
        ("中位数", "calculator"),
        ("MEDIAN please", "calculator"),
        ("min and max", "calculator"),
        ("比较 10 和 12", "calculator"),
        ("the average of 1 and 2", "calculator"),
        ("平均值", "calculator"),
        ("Minimum and maximum of these", "calculator"),
        ("17 * 23", "calculator"),
        ("把日志整理一下", "log_transform"),
        ("parse app.log", "log_transform"),
        ("log文件转换为jsonl", "log_transform"),
        ("convert to jsonl", "log_transform"),
    ],
)
def test_each_word_of_a_rule_asks_for_its_skill(text: str, skill_id: str) -> None:
    assert first_rule(text) == skill_id


@pytest.mark.parametrize("text", ["a catalog of logic", "please echo: x", "2026-01-31 3/4", "findings", "sparse", ""])
def test_a_word_within_another_asks_for_nothing(text: str) -> None:
    assert first_rule(text) is None


def test_the_first_rule_counts() -> None:
    assert first_rule("find the mean in the log") == "file_search"


def test_words_are_compared_in_one_form_and_little_words_not_at_all() -> None:
    assert extract_words("Please summarise the Tables for me") == extract_words("summarised table")
    assert extract_words("what is it 17") == set()


def test_words_for_the_same_work_are_one_in_both_languages() -> None:
    assert "chart" in extract_words("plot it") & extract_words("画一个图表") & extract_words("scripts/chart.py")
    assert extract_words("日志里的错误") >= {"log", "error"}
