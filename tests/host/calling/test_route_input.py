"""The input that a request says, and what has to be asked for."""

from typing import Any

import pytest

from openskills.host.calling.route_input import Extracted, extracted


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
    assert extracted(skill_id, text) == Extracted(expected)


@pytest.mark.parametrize(
    ("skill_id", "text", "field", "question"),
    [
        ("echo", "echo:  ", "text", "what to say"),
        ("file_search", "find the files", "query", "what to look for"),
        ("calculator", "mean please", "numbers", "which numbers"),
        ("calculator", "mean of 10kg", "numbers", "'10kg' is no plain number"),
        ("calculator", "1 2 3", "ops", "what to compute"),
        ("calculator", "compare 1 2 3", "compare", "two numbers"),
        ("log_transform", "parse the log", "input_path", "which file"),
        ("log_transform", "parse a.log and b.log", "input_path", "one file of a.log, b.log"),
    ],
)
def test_what_it_does_not_say_is_asked_for(skill_id: str, text: str, field: str, question: str) -> None:
    found = extracted(skill_id, text)
    assert found is not None
    assert question in found.missing[field]


def test_nobody_guesses_the_input_of_another_skill() -> None:
    assert extracted("invoice_pdf", "make an invoice") is None
