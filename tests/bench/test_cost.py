from openskills.bench.cost import TOOLS, Cost, cost_of, together
from openskills.prompt.accounting import RequestTokens
from openskills.prompt.shown import Layer


def test_descriptions_of_tools_cost_something_and_are_new_only_once() -> None:
    first = cost_of(RequestTokens(100, {Layer.OTHER: 100}), 10)
    second = cost_of(RequestTokens(130, {Layer.OTHER: 130}, unchanged=100, before=100), 10)
    assert (first.total, first.new) == (110, 110)
    assert (second.total, second.new) == (140, 30)
    assert second.by_layer == {TOOLS: 10, "other": 130}


def test_costs_together_are_their_sum_by_layer() -> None:
    found = together([Cost(10, 5, {"body": 7}), Cost(30, 1, {"body": 3, "docs": 2}, requests=2)])
    assert found == Cost(40, 6, {"body": 10, "docs": 2}, requests=3)
    assert found.per_request == 40 / 3


def test_nothing_costs_nothing() -> None:
    assert together([]).total == together([]).per_request == 0
