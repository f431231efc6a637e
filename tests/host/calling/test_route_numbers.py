"""Numbers and operations of a request, in two languages; what is doubtful is not read."""

import pytest

from openskills.host.calling.route_numbers import compared, numbers_of, operations_in, without_percentiles


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
    assert operations_in(text) == operations


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
    found, doubt = numbers_of(text)
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
    found, doubt = numbers_of(text)
    assert found == []
    assert strange in doubt


def test_the_rank_of_a_percentile_is_no_number_of_the_list() -> None:
    assert numbers_of(without_percentiles("p90 and 99.9th percentile of 1 2 3")) == ([1, 2, 3], "")


def test_a_comparison_is_noticed() -> None:
    assert compared("compare a and b")
    assert compared("比较")
    assert not compared("comparepoint")
