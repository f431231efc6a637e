"""Words that can be compared."""

from openskills.agent.rule_words import all_words, is_enough, telling_words, work_words


def test_words_are_compared_in_one_form_and_little_words_not_at_all() -> None:
    assert all_words("Please summarise the Tables for me") == all_words("summarised table")
    assert all_words("what is it") == []


def test_chinese_is_compared_by_pairs_of_characters() -> None:
    assert {"日志", "错误"} <= set(all_words("日志里的错误"))


def test_only_the_beginning_of_a_long_request_counts() -> None:
    assert len(telling_words(" ".join(f"w{number}" for number in range(1_000)))) == 64


def test_words_for_the_same_work_are_one_in_both_languages() -> None:
    assert "chart" in work_words("plot it") & work_words("画一个图表") & work_words("scripts/chart.py")
    assert "unique" in work_words("去重") & work_words("deduplicate")


def test_half_of_the_words_are_enough_or_two_that_are_not_lost_in_many() -> None:
    assert is_enough(1, 2)
    assert not is_enough(1, 3)
    assert is_enough(2, 20)
    assert not is_enough(2, 21)
    assert not is_enough(0, 0)
