"""The rules of the mission document."""

import pytest

from openskills.agent.rule_table import RULES


def first_rule(text: str) -> str | None:
    return next((rule.skill_id for rule in RULES if rule.fits(text)), None)


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
def test_each_word_of_the_document_asks_for_its_skill(text: str, skill_id: str) -> None:
    assert first_rule(text) == skill_id


@pytest.mark.parametrize("text", ["a catalog of logic", "please echo: x", "2026-01-31 3/4", "findings", "sparse", ""])
def test_a_word_within_another_asks_for_nothing(text: str) -> None:
    assert first_rule(text) is None


def test_the_first_rule_counts() -> None:
    assert first_rule("find the mean in the log") == "file_search"
