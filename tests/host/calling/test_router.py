"""Which skill a request is for: rules, search, and a default that says that it is one."""

import json
import logging
from collections.abc import Iterator

import pytest

from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument
from openskills.host.calling.router import Decision, Offered, Router, Stage
from openskills.skillmd.manifest import SkillManifest
from openskills.trace import JsonFormatter

FOUR = (
    Offered("echo", "Gives a text back as it came."),
    Offered("file_search", "Finds lines in files."),
    Offered("calculator", "Statistics of numbers."),
    Offered("log_transform", "Logs to records."),
)
INVOICE = Offered("invoice_pdf", "Makes an invoice as a PDF from a list of positions. 生成发票")
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
    assert (found.selected_skill_id, found.stage, found.detail) == (skill_id, Stage.RULE, word)
    assert found.routing_reason == f"rule:{word}"
    assert found.hosted


def test_other_rules_that_fit_are_named() -> None:
    assert Router(FOUR).choose("find the mean of the logs").near == ("calculator", "log_transform")


def test_an_id_is_found_however_it_separates_its_words() -> None:
    assert Router([Offered("file-search")]).choose("grep x").selected_skill_id == "file-search"


def test_a_rule_for_a_skill_that_the_host_does_not_have_is_not_followed_and_that_is_said() -> None:
    found = Router([Offered("echo")]).choose("mean of 1 and 2")
    assert (found.selected_skill_id, found.stage) == ("echo", Stage.DEFAULT)
    assert "the rule for calculator fits 'mean', but the host has no such skill" in found.notes


def test_without_a_host_the_rules_decide_and_nobody_claims_that_it_is_hosted() -> None:
    assert Router(None).choose("mean of 1 and 2") == Decision("calculator", Stage.RULE, "mean")


@pytest.mark.parametrize("text", ["make me an invoice", "帮我生成一张发票"])
def test_search_over_the_skills_of_the_host_is_the_second_stage(text: str) -> None:
    found = Router((*FOUR, INVOICE)).choose(text)
    assert (found.selected_skill_id, found.stage, found.hosted) == ("invoice_pdf", Stage.SEARCH, True)
    assert found.routing_reason == "search"


def test_a_skill_folder_that_fits_is_named_and_not_called_hosted() -> None:
    found = Router(FOUR, [FOLDER]).choose("write a press release for the company")
    assert (found.selected_skill_id, found.stage, found.hosted) == ("brand-voice", Stage.CATALOG, False)


def test_a_skill_of_the_host_comes_before_a_folder() -> None:
    folder = Skill(SkillManifest("invoices", "Makes an invoice."), "/x", "skills")
    found = Router([INVOICE], [folder]).choose("make an invoice as PDF")
    assert (found.selected_skill_id, found.near) == ("invoice_pdf", ("invoices",))


@pytest.mark.parametrize("text", ["hello there", "17 * 23", "the catalog of minutes", "write a poem about the sea"])
def test_what_fits_nothing_goes_to_the_default_and_says_so(text: str) -> None:
    found = Router((*FOUR, INVOICE), [FOLDER]).choose(text)
    assert (found.selected_skill_id, found.stage, found.understood) == ("echo", Stage.DEFAULT, False)
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
    handler, logger = Kept(), logging.getLogger("openskills.host.calling.router")
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
