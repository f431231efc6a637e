"""What a request gives to a command."""

import pytest

from openskills.agent.rule_request import is_chinese, meant, numbers_in, payload, value_of


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
