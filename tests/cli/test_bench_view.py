from openskills.bench.cost import Cost
from openskills.bench.token_report import TaskReport, TokenReport, Way
from openskills.cli.bench_view import aligned, report_json


def report() -> TokenReport:
    costs = {Way.PROGRESSIVE: (Cost(10, 10), Cost(15, 5)), Way.BODIES: (Cost(100, 100),), Way.EVERYTHING: (Cost(0, 0),)}
    return TokenReport("estimate", False, 1, (), 5, 50, 0, (TaskReport("one", costs),))


def test_numbers_stand_to_the_right_below_their_heading() -> None:
    assert aligned([["", "tokens"], ["all", "1,234"], ["one of them", "7"]]).splitlines() == [
        "             tokens",
        "all           1,234",
        "one of them       7",
    ]


def test_json_has_what_is_saved_and_nothing_is_saved_of_nothing() -> None:
    ways = report_json(report())["ways"]
    assert isinstance(ways, dict)
    assert [ways[way]["saved"] for way in Way] == [0.0, 0.75, 0.0]
