"""Which skill a request goes to."""

from pathlib import Path

import pytest

from openskills.agent.rule_routing import Reason, Route, route, without_name
from openskills.catalog.snapshot import Snapshot
from tests.agent.rule_requests import catalog_in

TABLES = "Summarise a CSV file with missing values and statistics. Use when the user gives a table (表格, 统计)."
LOGS = "分析日志文件：合并相同的错误。Group the errors of a log file. Use when the user gives a log."
LINKS = "Check the relative links of Markdown files. Use when the user renames files."


@pytest.fixture
def skills(tmp_path: Path) -> Snapshot:
    return catalog_in(tmp_path, csv_report=TABLES, log_triage=LOGS, markdown_links=LINKS).snapshot


@pytest.mark.parametrize(
    "text",
    ["$csv-report do it", "/csv-report", "use $csv-report on it", "the csv-report skill, please", "用csv-report看看"],
)
def test_a_skill_that_is_named_is_taken_whatever_else_the_words_say(skills: Snapshot, text: str) -> None:
    assert route(f"{text} 日志 log errors", (), skills) == Route("csv-report", Reason.NAMED)


def test_the_longest_name_that_stands_in_the_text_is_meant(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, pdf="Reads pages.", pdf_forms="Fills fields.").snapshot
    assert route("use pdf-forms now", (), skills).skill == "pdf-forms"
    assert route("read my.pdf", (), skills).reason is not Reason.NAMED
    assert route("use pdf.", (), skills).skill == "pdf"


def test_a_name_that_no_skill_has_is_said_with_the_nearest(skills: Snapshot) -> None:
    assert route("$csv-reprot now", (), skills) == Route(None, Reason.UNKNOWN, "csv-reprot", ("csv-report",))
    assert route("it costs $5, see /etc/hosts", (), skills).reason is Reason.NOTHING


@pytest.mark.parametrize(("name", "chosen"), [("log_transform", "log-transform"), ("logs", "logs")])
def test_a_rule_takes_the_skill_of_its_name_or_kind(tmp_path: Path, name: str, chosen: str) -> None:
    found = route("parse this", (), catalog_in(tmp_path, **{name: "Does things.", "zz_log": "Other."}).snapshot)
    assert (found.reason, found.detail, found.why) == (Reason.RULE, "log_transform", "rule:log_transform")
    assert found.skill in (chosen, "zz-log")


def test_the_skill_of_the_rules_own_name_comes_first(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, log_transform="Does things.", log_aaa="Parse logs, parse, parse.").snapshot
    assert route("parse the log", (), skills).skill == "log-transform"


def test_every_rule_of_the_document_finds_its_skill(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, echo="A.", file_search="B.", calculator="C.", log_transform="D.").snapshot
    for text, skill in (
        ("echo: hi", "echo"),
        ("检索 openSkill", "file-search"),
        ("median of 1 2 3", "calculator"),
        ("转换成 jsonl", "log-transform"),
    ):
        assert route(text, (), skills).skill == skill


def test_a_rule_without_a_fitting_skill_leaves_it_to_search(skills: Snapshot) -> None:
    found = route("find missing values in the table", (), skills)
    assert (found.skill, found.reason) == ("csv-report", Reason.SEARCH)


def test_a_rule_does_not_send_a_file_to_a_skill_that_is_not_for_it(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, csv_report=TABLES, calculator="Mean, median and more of numbers.").snapshot
    assert route("the mean of 1 and 2", (), skills).skill == "calculator"
    assert route("the mean of every column of the table", ("sales.csv",), skills).skill == "csv-report"


@pytest.mark.parametrize("text", ["Summarise this table", "这张表格的统计", "what is missing in this csv"])
def test_search_takes_what_shares_enough_words(skills: Snapshot, text: str) -> None:
    found = route(text, (), skills)
    assert (found.skill, found.reason) == ("csv-report", Reason.SEARCH)


def test_a_file_says_what_a_request_of_few_words_is_about(skills: Snapshot) -> None:
    assert route("What is this?", ("sales.csv",), skills).skill == "csv-report"


@pytest.mark.parametrize(
    "text", ["tell me a joke", "write a poem about a table in spring", "今天天气怎么样", "what can you do"]
)
def test_a_request_that_fits_nothing_goes_nowhere(skills: Snapshot, text: str) -> None:
    found = route(text, (), skills)
    assert (found.skill, found.reason) == (None, Reason.NOTHING)


def test_the_nearest_skills_share_at_least_a_word(skills: Snapshot) -> None:
    assert route("write a poem about a table in spring", (), skills).near == ("csv-report",)
    assert route("tell me a joke", (), skills).near == ()


def test_a_loaded_skill_is_kept_unless_the_request_is_about_another(skills: Snapshot) -> None:
    assert route("go on", (), skills, ["csv-report"]) == Route("csv-report", Reason.LOADED)
    assert route("check the links and files", (), skills, ["csv-report"]).skill == "markdown-links"
    assert route("check the links and files", (), skills, ["gone"]).skill == "markdown-links"


def test_the_reason_for_a_log_has_nothing_that_a_user_wrote(skills: Snapshot) -> None:
    assert route("$secret-word", (), skills).why == "unknown"


def test_a_request_without_its_name_is_what_is_left() -> None:
    assert without_name("$csv-report what is it", "csv-report") == "what is it"
    assert without_name("use /csv-report now, not $csv-report-2", "csv-report") == "use now, not $csv-report-2"


def test_names_of_files_do_not_count_as_words_of_the_request(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, text_tools="Sort lines of text.", meeting_notes="Writes minutes and notes.").snapshot
    assert route("sort notes.txt", ("notes.txt",), skills).skill == "text-tools"


def test_a_kind_of_file_is_known_by_the_word_that_skills_use(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, markdown_links=LINKS, writer="Write a SKILL.md and check it.").snapshot
    assert route("check the links", ("a.md",), skills).skill == "markdown-links"
