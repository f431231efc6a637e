"""Statistics that are exact on decimals."""

import json
import math
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tests.skills_cli.calling import call, send


def results(numbers: list[Any], *ops: str) -> dict[str, Any]:
    return call("calculator", {"numbers": numbers, "ops": list(ops)}).data["results"]


def refusal(numbers: Any, *ops: Any, **more: Any) -> str:
    word, message = call("calculator", {"numbers": numbers, "ops": list(ops), **more}).refusal
    assert word == "INVALID_ARGUMENT"
    return message


def test_the_example_of_the_document() -> None:
    assert results([10.5, 9.9, 11.2], "mean", "median", "min", "max") == {
        "mean": float(Fraction("31.6") / 3),
        "median": 10.5,
        "min": 9.9,
        "max": 11.2,
    }


def test_decimals_are_exact() -> None:
    assert results([0.1, 0.2], "sum", "mean", "range") == {"sum": 0.3, "mean": 0.15, "range": 0.1}
    assert results([0.1] * 1000, "sum", "variance", "mode") == {"sum": 100, "variance": 0, "mode": 0.1}
    assert results([1e300, 1, -1e300], "sum") == {"sum": 1}
    assert results([2**53, 1], "sum") == {"sum": 2**53 + 1}


def test_all_operations_agree_with_the_statistics_of_python() -> None:
    numbers = [4.25, 1.5, 1.5, 9, -3.75, 8.125, 2]
    exact = [Fraction(number) for number in numbers]
    found = results(numbers, "count", "mode", "variance", "stdev", "pvariance", "pstdev", "modes")
    assert found == {
        "count": 7,
        "mode": 1.5,
        "modes": [1.5],
        "variance": float(statistics.variance(exact)),
        "stdev": statistics.stdev(exact),
        "pvariance": float(statistics.pvariance(exact)),
        "pstdev": statistics.pstdev(exact),
    }


def test_a_whole_result_is_a_whole_number() -> None:
    data = send("calculator", b'{"input": {"numbers": [2,4,4,4,5,5,7,9], "ops": ["pstdev", "mean", "p100"]}}').data
    assert json.dumps(data["results"]) == '{"pstdev": 2, "mean": 5, "p100": 9}'


def test_percentiles_lie_between_neighbours() -> None:
    found = results([15, 20, 35, 40, 50], "p0", "p40", "percentile:40", "P90", "p99.9", "p100", "median")
    assert found == {
        "p0": 15, "p40": 29, "percentile:40": 29, "P90": 46, "p99.9": 49.96, "p100": 50, "median": 35
    }  # fmt: skip


def test_of_several_modes_the_first_is_given_and_modes_has_all() -> None:
    assert results([3, 1, 3, 1, 2], "mode", "modes") == {"mode": 3, "modes": [1, 3]}


def test_other_names_of_an_operation_are_understood_and_kept() -> None:
    assert results([1, 3], "avg", "average", " Mean ", "std") == {
        "avg": 2, "average": 2, " Mean ": 2, "std": math.sqrt(2)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b", "relation", "larger", "difference", "ratio"),
    [
        (10, 12, "<", "b", -2, 10 / 12),
        (0.3, 0.30, "=", None, 0, 1),
        (0.3, 0.1, ">", "a", 0.2, 3),
        (1, 0, ">", "a", 1, None),
        (-5, 2.5, "<", "b", -7.5, -2),
    ],
)
def test_two_numbers_are_compared(
    a: float, b: float, relation: str, larger: str | None, difference: float, ratio: float | None
) -> None:
    data = call("calculator", {"numbers": [1], "ops": ["sum"], "compare": {"a": a, "b": b}}).data
    found = data["comparison"]
    conclusion = found.pop("conclusion")
    assert conclusion.startswith("a ")
    wanted = {"a": a, "b": b, "relation": relation, "larger": larger, "difference": difference, "ratio": ratio}
    assert found == wanted


def test_without_compare_there_is_no_comparison() -> None:
    assert set(call("calculator", {"numbers": [1], "ops": ["sum"], "compare": None}).data) == {"results"}


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([], "numbers: must not be empty"),
        ([1, True], "numbers[1]: expected a number, not true or false"),
        ([1, "2"], "numbers[1]: expected a number, not text ('2')"),
        ([None], "numbers[0]: expected a number, not null"),
        ([[1]], "numbers[0]: expected a number, not a list"),
        ("1,2", "numbers: expected a list, not text"),
        ({"a": 1}, "numbers: expected a list, not an object"),
        ([10**200], "numbers[0]: has more than 100 digits"),
        ([1] * 100_001, "numbers: has 100001 numbers; the maximum is 100000"),
    ],
)
def test_numbers_that_are_none_are_refused(numbers: Any, said: str) -> None:
    assert refusal(numbers, "mean").startswith(said)


@pytest.mark.parametrize(
    "literal",
    ["NaN", "Infinity", "-Infinity", "1e400", "1e-400", "-1e400", "1e999999999", "1e99999999999999999999", "1" * 10**6],
)
def test_numbers_that_would_explode_are_refused(literal: str) -> None:
    word, message = send("calculator", b'{"input": {"numbers": [1, %s], "ops": ["sum"]}}' % literal.encode()).refusal
    assert word == "INVALID_ARGUMENT"
    assert len(message) < 200


def test_a_fraction_with_too_many_digits_is_refused_and_one_with_a_hundred_is_not() -> None:
    fits = str(Decimal(1) + Decimal(10) ** -20)
    assert send("calculator", f'{{"input": {{"numbers": [{fits}], "ops": ["sum"]}}}}'.encode()).data
    long = f'{{"input": {{"numbers": [0.{"1" * 101}], "ops": ["sum"]}}}}'
    assert send("calculator", long.encode()).refusal[1] == "numbers[0]: has more than 100 digits"


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ("medain", "ops[0]: unknown operation 'medain'; did you mean median"),
        ("", "ops[0]: unknown operation ''; known operations: mean"),
        ("p", "ops[0]: unknown operation 'p'"),
        ("p101", "ops[0]: invalid percentile 'p101'; use p0 to p100"),
        ("p-5", "ops[0]: unknown operation 'p-5'"),
        ("p1e5", "ops[0]: unknown operation 'p1e5'"),
        ("p५", "ops[0]: unknown operation 'p५'"),
        ("percentile:", "ops[0]: unknown operation 'percentile:'"),
        ("p." + "9" * 200, "ops[0]: unknown operation 'p.99"),
        (7, "ops[0]: expected text, not a whole number (7)"),
    ],
)
def test_operations_that_are_none_are_refused_with_the_nearest_names(op: Any, said: str) -> None:
    assert refusal([1, 2], op).startswith(said)


def test_no_operations_and_too_many_are_refused() -> None:
    assert refusal([1]).startswith("ops: has 0 operations; use 1 to 100 of: mean, median")
    assert refusal([1], *["sum"] * 101).startswith("ops: has 101 operations")


def test_a_sample_of_one_has_no_variance_and_the_message_says_what_has() -> None:
    assert refusal([1], "stdev") == "numbers: stdev needs at least two numbers; pstdev works with one"
    assert results([5], "pstdev", "pvariance", "p90") == {"pstdev": 0, "pvariance": 0, "p90": 5}


def test_a_result_that_no_reader_could_hold_is_refused() -> None:
    assert refusal([1e300, -1e300], "variance").startswith("numbers: variance is out of range")
    said = refusal([1], "sum", compare={"a": 1e308, "b": 1e-308})
    assert said.startswith("compare: the difference or the ratio is out of range")


@pytest.mark.parametrize(
    ("compare", "said"),
    [
        ({"a": 1}, 'compare: expected exactly "a" and "b"'),
        ({"a": 1, "b": 2, "c": 3}, 'compare: expected exactly "a" and "b"'),
        ({"a": 1, "b": "2"}, "compare.b: expected a number, not text ('2')"),
        ({"a": True, "b": 2}, "compare.a: expected a number, not true or false"),
        ([1, 2], "compare: expected an object or null, not a list"),
    ],
)
def test_what_cannot_be_compared_is_refused(compare: Any, said: str) -> None:
    assert refusal([1], "sum", compare=compare) == said


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, -(2**63)])
def test_whole_results_are_exact_up_to_64_bits(number: int) -> None:
    answer = call("calculator", {"numbers": [number - 1, 1], "ops": ["sum"]})
    assert answer.data["results"] == {"sum": number}
    assert isinstance(answer.data["results"]["sum"], int)
    assert not {"rounded", "exact"} & set(answer.meta)


def test_a_large_result_that_is_rounded_says_so_with_all_its_digits() -> None:
    asked = b'{"input": {"numbers": [1e28, 1], "ops": ["sum", "max", "count", "mean"], "compare": {"a": 1e28, "b": 1}}}'
    answer = send("calculator", asked)
    assert answer.data["results"] == {"sum": 1e28, "max": 1e28, "count": 2, "mean": 5e27}
    assert answer.meta["rounded"] == ["sum", "mean", "comparison.difference"]
    assert answer.meta["exact"] == {"sum": str(10**28 + 1), "comparison.difference": str(10**28 - 1)}


def test_modes_that_are_rounded_are_named_without_their_digits() -> None:
    answer = call("calculator", {"numbers": [2**80 + 1, 3], "ops": ["modes", "mean"]})
    assert answer.meta["rounded"] == ["modes", "mean"]
    assert set(answer.meta["exact"]) == {"mean"}


def test_fractions_below_two_to_the_53_are_as_near_as_ever_and_nothing_is_said() -> None:
    assert "rounded" not in call("calculator", {"numbers": [1, 1, 2], "ops": ["mean", "stdev"]}).meta
