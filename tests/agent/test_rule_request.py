"""What a request gives to a command."""

import pytest

from openskills.agent.rule_request import (
    formulas_in,
    is_chinese,
    meant,
    numbers_in,
    payload,
    value_of,
    without_files,
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("echo: hello there", "hello there"),
        ("echo：你好", "你好"),
        ('say "good morning" to them', "good morning"),
        ("搜索「错误」", "错误"),
        ("find openSkill in the docs", "openSkill"),
        ("search for needle, please", "needle"),
        ("检索 关键词", "关键词"),
        ("just this", "just this"),
    ],
)
def test_the_text_for_a_command_is_what_the_request_points_at(text: str, wanted: str) -> None:
    assert payload(text) == wanted


def test_numbers_are_read_with_signs_decimals_and_thousands() -> None:
    assert numbers_in("mean of 10.5, -9.9 and 1,234.5; v2 is none") == ["10.5", "-9.9", "1234.5"]
    assert numbers_in("比较10和12") == ["10", "12"]
    assert numbers_in("none") == []


def test_the_word_after_an_option_in_a_request_is_its_value() -> None:
    assert value_of("top", "show the top 5 errors") == "5"
    assert value_of("line-ends", "use line ends: crlf") == "crlf"
    assert value_of("top", "on top of the list") == ""
    assert value_of("top", "stop 5") == ""


def test_files_that_are_named_come_before_those_that_are_there() -> None:
    assert meant("compare B.CSV", ("a.csv", "b.csv"), ()) == ("b.csv",)
    assert meant("compare", ("a.csv", "b.csv"), ("c.csv",)) == ("a.csv", "b.csv")
    assert meant("and now a chart", (), ("new.csv", "old.csv")) == ("new.csv",)
    assert meant("and old.csv?", (), ("new.csv", "old.csv")) == ("old.csv",)
    assert meant("hello", (), ()) == ()


def test_one_chinese_character_makes_a_request_chinese() -> None:
    assert is_chinese("plot 这个")
    assert not is_chinese("plot it, señor")


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("What is 17 * 23?", ["17 * 23"]),
        ("计算(1+2)×3", ["(1+2)*3"]),
        ("solve x^2 - x - 1 = 0 for me", ["x^2 - x - 1 = 0"]),
        ("2x + 3y = 5 and x - y = 1/2", ["2x + 3y = 5", "x - y = 1/2"]),
        ("what is sqrt(2)", ["sqrt(2)"]),
        ("I have 3 apples and a pear", []),
    ],
)
def test_calculations_are_found_between_words(text: str, formulas: list[str]) -> None:
    assert formulas_in(text) == formulas


def test_names_of_files_say_nothing_about_the_work() -> None:
    assert without_files("sort Notes.txt", ("notes.txt",)).split() == ["sort"]


@pytest.mark.parametrize("text", ["(" * 50_000, "1(" * 20_000, "-" * 50_000, '"' * 50_001, "x" * 50_000, "=" * 50_000])
def test_hostile_texts_cost_no_more_than_others(text: str) -> None:
    assert payload("\n" * 50_000 + text) == text
    assert (numbers_in(text) == []) is ("1" not in text)
    assert len(formulas_in(text)) <= 1
    assert value_of("top", text) == ""


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("find", 'find "main loop" here', "main loop"),
        ("find", "replace: “一 二”", "一 二"),
        ("digits", "to 10 digits", "10"),
        ("lines", "1.5 lines", ""),
    ],
)
def test_a_value_may_be_quoted_or_a_number_before_its_name(option: str, text: str, value: str) -> None:
    assert value_of(option, text) == value


def test_a_number_alone_is_no_calculation() -> None:
    assert formulas_in("max of -3 and 7") == []
    assert formulas_in("-3 + 7") == ["-3 + 7"]
