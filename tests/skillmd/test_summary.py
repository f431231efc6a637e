from openskills.skillmd.problem import Edit, Fix, Problem
from openskills.skillmd.summary import MAX_OF_A_KIND, summed_up


def problem(number: int) -> Problem:
    return Problem("x", f"number {number}", line=number, fix=Fix("mend", (Edit(number, number + 1, ""),)))


def test_a_few_problems_are_told_one_by_one() -> None:
    few = [problem(number) for number in range(MAX_OF_A_KIND)]
    assert summed_up(few) == few


def test_the_rest_of_many_is_told_in_one_that_carries_every_fix() -> None:
    told = summed_up([problem(number) for number in range(MAX_OF_A_KIND + 3)])
    assert len(told) == MAX_OF_A_KIND + 1
    assert told[-1].message == "3 more of this kind, first: number 20"
    assert told[-1].line == 20
    assert told[-1].fix
    assert [edit.start for edit in told[-1].fix.edits] == [20, 21, 22]
