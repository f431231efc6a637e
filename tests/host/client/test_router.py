"""Which skill a request is for: rules, search, and a default that says that it is one.

The input that a request says, and what has to be asked for.

Numbers and operations of a request, in two languages; what is doubtful is not read.
"""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument
from openskills.host.client.router import (
    PartialInput,
    RoutableSkill,
    RouteDecision,
    Router,
    RouteStage,
    extract_input,
    find_numbers,
    find_operations,
    is_comparison,
    remove_percentiles,
)
from openskills.skillmd.manifest import SkillManifest
from openskills.telemetry.context import JsonFormatter

FOUR = (
    RoutableSkill("echo", "Gives a text back as it came."),
    RoutableSkill("file_search", "Finds lines in files."),
    RoutableSkill("calculator", "Statistics of numbers."),
    RoutableSkill("log_transform", "Logs to records."),
)
INVOICE = RoutableSkill("invoice_pdf", "Makes an invoice as a PDF from a list of positions. 生成发票")
FOLDER = Skill(SkillManifest("brand-voice", "Writes press releases in the tone of the company."), "/x", "skills")


@pytest.mark.parametrize(
    ("text", "skill_id", "word"),
    [
        ("echo: find the mean", "echo", "echo:"),
        ("ECHO：你好", "echo", "echo:"),
        ("搜索 openSkill", "file_search", "搜索"),
        ("please grep TODO", "file_search", "grep"),
        ("find the mean of the logs", "file_search", "find"),
        ("比较 10 和 12", "calculator", "比较"),
        ("MEDIAN of 17 * 23", "calculator", "median"),
        ("把 data/app.log 转换成 jsonl", "log_transform", "log"),
        ("parse it", "log_transform", "parse"),
    ],
)
def test_the_rules_of_the_document_come_first_and_in_their_order(text: str, skill_id: str, word: str) -> None:
    found = Router(FOUR).choose(text)
    assert (found.selected_skill_id, found.stage, found.detail) == (skill_id, RouteStage.RULE, word)
    assert found.routing_reason == f"rule:{word}"
    assert found.hosted


def test_other_rules_that_fit_are_named() -> None:
    assert Router(FOUR).choose("find the mean of the logs").near == ("calculator", "log_transform")


def test_an_id_is_found_however_it_separates_its_words() -> None:
    assert Router([RoutableSkill("file-search")]).choose("grep x").selected_skill_id == "file-search"


def test_a_rule_for_a_skill_that_the_host_does_not_have_is_not_followed_and_that_is_said() -> None:
    found = Router([RoutableSkill("echo")]).choose("mean of 1 and 2")
    assert (found.selected_skill_id, found.stage) == ("echo", RouteStage.DEFAULT)
    assert "the rule for calculator matches 'mean', but the host does not have this skill" in found.notes


def test_without_a_host_the_rules_decide_and_nobody_claims_that_it_is_hosted() -> None:
    assert Router(None).choose("mean of 1 and 2") == RouteDecision("calculator", RouteStage.RULE, "mean")


@pytest.mark.parametrize("text", ["make me an invoice", "帮我生成一张发票"])
def test_search_over_the_skills_of_the_host_is_the_second_stage(text: str) -> None:
    found = Router((*FOUR, INVOICE)).choose(text)
    assert (found.selected_skill_id, found.stage, found.hosted) == ("invoice_pdf", RouteStage.SEARCH, True)
    assert found.routing_reason == "search"


def test_a_skill_folder_that_fits_is_named_and_not_called_hosted() -> None:
    found = Router(FOUR, [FOLDER]).choose("write a press release for the company")
    assert (found.selected_skill_id, found.stage, found.hosted) == ("brand-voice", RouteStage.CATALOG, False)


def test_a_skill_of_the_host_comes_before_a_folder() -> None:
    folder = Skill(SkillManifest("invoices", "Makes an invoice."), "/x", "skills")
    found = Router([INVOICE], [folder]).choose("make an invoice as PDF")
    assert (found.selected_skill_id, found.near) == ("invoice_pdf", ("invoices",))


@pytest.mark.parametrize("text", ["hello there", "17 * 23", "the catalog of minutes", "write a poem about the sea"])
def test_what_fits_nothing_goes_to_the_default_and_says_so(text: str) -> None:
    found = Router((*FOUR, INVOICE), [FOLDER]).choose(text)
    assert (found.selected_skill_id, found.stage, found.is_understood) == ("echo", RouteStage.DEFAULT, False)
    assert found.routing_reason == "default"


def test_a_host_without_the_default_is_not_said_to_have_it() -> None:
    assert Router([]).choose("hello").hosted is False
    assert Router(None).choose("hello").hosted is None


def test_a_request_without_a_word_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="text"):
        Router(FOUR).choose(" \n")


class Kept(logging.Handler):
    """Keeps lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler, logger = Kept(), logging.getLogger("openskills.host.client.router")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_a_decision_is_a_line_of_the_log_with_the_fields_of_the_document(kept: Kept) -> None:
    Router(FOUR).choose("mean of my secret 42", trace_id="demo-123")
    (line,) = map(json.loads, kept.lines)
    assert (line["trace_id"], line["selected_skill_id"], line["routing_reason"]) == (
        "demo-123",
        "calculator",
        "rule:mean",
    )
    assert "secret" not in kept.lines[0]


@pytest.mark.parametrize(
    ("skill_id", "text", "expected"),
    [
        ("echo", "echo: hello", {"text": "hello"}),
        ("echo", "echo：你好", {"text": "你好"}),
        ("echo", "no rule fits this", {"text": "no rule fits this"}),
        ("file_search", "grep TODO", {"query": "TODO"}),
        ("file-search", "search for openSkill in ./data/docs", {"query": "openSkill", "root_dir": "./data/docs"}),
        ("file_search", 'find "two words" *.md top 5', {"query": "two words", "glob": "*.md", "limit": 5}),
        ("file_search", "find all files containing the budget in **/*.md", {"query": "budget", "glob": "**/*.md"}),
        ("file_search", "find love in paris", {"query": "love in paris"}),
        ("file_search", "搜索 预算 相关的文件", {"query": "预算"}),
        ("file_search", "在docs目录下检索预算", {"query": "预算", "root_dir": "docs"}),
        ("file_search", "检索“原材料 价格”最多3条", {"query": "原材料 价格", "limit": 3}),
        ("calculator", "mean of 10.5, 9.9", {"numbers": [10.5, 9.9], "ops": ["mean"]}),
        ("calculator", "p90 of 1 2 3", {"numbers": [1, 2, 3], "ops": ["p90"]}),
        ("calculator", "比较 10 和 12", {"numbers": [10, 12], "ops": ["min", "max"], "compare": {"a": 10, "b": 12}}),
        ("calculator", "compare the mean of 1 2 3", {"numbers": [1, 2, 3], "ops": ["mean"]}),
        ("log_transform", "parse ./data/logs/app.log", {"input_path": "./data/logs/app.log"}),
        ("log_transform", "转换./data/logs/app.log为jsonl", {"input_path": "./data/logs/app.log"}),
        ("log_transform", "parse 'my logs/a b.log'", {"input_path": "my logs/a b.log"}),
        (
            "log_transform",
            "日志 data/a.jsonl 保存 前50",
            {"input_path": "data/a.jsonl", "format": "jsonl", "output": "file", "limit": 50},
        ),
    ],
)
def test_what_a_request_says_becomes_the_input(skill_id: str, text: str, expected: dict[str, Any]) -> None:
    assert extract_input(skill_id, text) == PartialInput(expected)


@pytest.mark.parametrize(
    ("skill_id", "text", "field", "question"),
    [
        ("echo", "echo:  ", "text", "what to say"),
        ("file_search", "find the files", "query", "what to look for"),
        ("calculator", "mean please", "numbers", "which numbers"),
        ("calculator", "mean of 10kg", "numbers", "'10kg' is not a plain number"),
        ("calculator", "1 2 3", "ops", "what to compute"),
        ("calculator", "compare 1 2 3", "compare", "two numbers"),
        ("log_transform", "parse the log", "input_path", "which file"),
        ("log_transform", "parse a.log and b.log", "input_path", "one file of a.log, b.log"),
    ],
)
def test_what_it_does_not_say_is_asked_for(skill_id: str, text: str, field: str, question: str) -> None:
    found = extract_input(skill_id, text)
    assert found is not None
    assert question in found.missing[field]


def test_nobody_guesses_the_input_of_another_skill() -> None:
    assert extract_input("invoice_pdf", "make an invoice") is None


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        ("mean and median", ["mean", "median"]),
        ("the average, then the MAX", ["mean", "max"]),
        ("平均值和中位数", ["mean", "median"]),
        ("最大、最小、总和", ["max", "min", "sum"]),
        ("standard  deviation and variance", ["stdev", "variance"]),
        ("标准差与方差", ["stdev", "variance"]),
        ("众数 个数 极差", ["mode", "count", "range"]),
        ("p90, p99.9 and the 50th percentile", ["p90", "p99.9", "p50"]),
        ("第95百分位", ["p95"]),
        ("p101 mean mean", ["mean"]),
        ("minutes of the maximal meaning", []),
    ],
)
def test_operations_are_found_in_the_order_of_the_words(text: str, operations: list[str]) -> None:
    assert find_operations(text) == operations


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("mean of 10.5, 9.9, 11.2", [10.5, 9.9, 11.2]),
        ("1,2,3", [1, 2, 3]),
        ("1 -2 +3 −4", [1, -2, 3, -4]),
        ("求 3、4、-5 的平均", [3, 4, -5]),
        ("平均1和2", [1, 2]),
        (".5 and 3.", [0.5, 3]),
        ("none at all", []),
    ],
)
def test_plain_numbers_are_read(text: str, numbers: list[float]) -> None:
    found, doubt = find_numbers(text)
    assert (found, doubt) == (numbers, "")
    assert [type(one) for one in found] == [type(one) for one in numbers]


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        ("mean of 100,200,300", "100,200,300"),
        ("1,234", "1,234"),
        ("10kg and 12kg", "10kg"),
        ("1e5 and 3", "1e5"),
        ("2024-01-02", "2024-01-02"),
        ("5-3", "5-3"),
        ("1/2", "1/2"),
        ("12%", "12%"),
        ("１２ and 3", "１２"),
        ("1.2.3", "1.2.3"),
        ("x1 and 2", "x1"),
    ],
)
def test_what_could_be_read_in_two_ways_is_asked_about(text: str, strange: str) -> None:
    found, doubt = find_numbers(text)
    assert found == []
    assert strange in doubt


def test_the_rank_of_a_percentile_is_not_a_number_of_the_list() -> None:
    assert find_numbers(remove_percentiles("p90 and 99.9th percentile of 1 2 3")) == ([1, 2, 3], "")


def test_a_comparison_is_noticed() -> None:
    assert is_comparison("compare a and b")
    assert is_comparison("比较")
    assert not is_comparison("comparepoint")
