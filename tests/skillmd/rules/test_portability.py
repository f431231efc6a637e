import pytest

from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem
from openskills.skillmd.rules import apply_rules
from openskills.skillmd.rules.rule import Subject


def said(*lines: str) -> list[Problem]:
    """What is said of a skill with these fields."""
    parsed = parse("\n".join(("---", *lines, "---", "Do it.", "")))
    assert parsed.manifest
    return list(apply_rules(Subject(parsed, parsed.manifest)))


def rules(*lines: str) -> list[str]:
    return [problem.rule for problem in said("name: pdf", "description: Merge PDF files. Use when asked.", *lines)]


@pytest.mark.parametrize("text", ["👩‍💻 merges", "क्‍ष जोड़ें", "می‌خواهم", "plain", "❤️ merges", "日本語"])
def test_joiners_and_marks_that_belong_to_the_script_are_visible(text: str) -> None:
    assert "text-invisible" not in [problem.rule for problem in said("name: pdf", f"description: {text}")]


@pytest.mark.parametrize(
    "character", ["\u200b", "\u2060", "\u202e", "\u2066", "\ufeff", "\u00ad", "\U000e0020", "\u3164", "\u200d"]
)
def test_characters_that_hide_are_reported_by_number_and_count(character: str) -> None:
    problem = next(
        p for p in said("name: pdf", f"description: a{character}b{character}c") if p.rule == "text-invisible"
    )
    assert f"U+{ord(character):04X}" in problem.message
    assert " 2 " in problem.message


@pytest.mark.parametrize(
    "line",
    [
        "disable-model-invocation: true",
        "user-invocable: no",
        "argument-hint: [file]",
        "argument-hint: file",
        "paths: [a, b]",
        "hooks: {a: b}",
        "model:",
        "version: '1.0'",
    ],
)
def test_an_extension_of_the_right_type_is_only_noted(line: str) -> None:
    assert rules(line) == ["field-extension"]


@pytest.mark.parametrize(
    "line", ["disable-model-invocation: [true]", "homepage: {a: b}", "argument-hint: {a: b}", "hooks: [a]"]
)
def test_an_extension_of_another_type_is_a_warning(line: str) -> None:
    assert rules(line) == ["field-extension", "extension-type"] or rules(line) == ["extension-type", "field-extension"]


@pytest.mark.parametrize(
    ("line", "is_lost"),
    [
        ("compatibility: Needs Python # 3.11", True),
        ("license: MIT # the usual", False),
        ("license: MIT #usual", True),
        ("license: 'MIT' # the usual", False),
        ("license: C#", False),
        ("metadata: {a: b} #c", False),
    ],
)
def test_a_comment_is_reported_where_it_was_probably_meant_as_text(line: str, is_lost: bool) -> None:
    assert ("yaml-comment-in-value" in rules(line)) == is_lost


def test_every_reserved_word_is_reported() -> None:
    assert [p.rule for p in said("name: anthropic-claude", "description: Merge PDF files. Use when asked.")] == [
        "name-reserved"
    ] * 2
