""""""

from openskills.skillmd.problem import MAX_PER_RULE, Edit, Fix, Problem, Severity, select_errors, summarize_problems
from openskills.skillmd.suppressions import drop_suppressed

ERROR = Problem("name-length", "the name is too long", line=2, column=7)
WARNING = Problem("body-lines", "the body is long", Severity.WARNING)


def test_a_problem_reads_like_the_message_of_a_compiler() -> None:
    assert str(ERROR.with_path("a/SKILL.md")) == "a/SKILL.md:2:7: error: the name is too long [name-length]"
    assert str(WARNING.with_path("a/SKILL.md")) == "a/SKILL.md: warning: the body is long [body-lines]"
    assert str(WARNING) == "warning: the body is long [body-lines]"


def test_a_line_without_a_column_is_shown_from_its_beginning() -> None:
    assert str(Problem("x", "y", line=3)) == ":3:1: error: y [x]"


def test_softening_turns_errors_into_warnings_and_leaves_the_rest() -> None:
    assert ERROR.as_warning().severity is Severity.WARNING
    assert ERROR.as_warning().message == ERROR.message
    assert WARNING.as_warning() is WARNING


def test_errors_are_picked_from_the_rest() -> None:
    assert select_errors([WARNING, ERROR]) == (ERROR,)


def problem(number: int) -> Problem:
    return Problem("x", f"number {number}", line=number, fix=Fix("mend", (Edit(number, number + 1, ""),)))


def test_a_few_problems_are_told_one_by_one() -> None:
    few = [problem(number) for number in range(MAX_PER_RULE)]
    assert summarize_problems(few) == few


def test_the_rest_of_many_is_told_in_one_that_carries_every_fix() -> None:
    told = summarize_problems([problem(number) for number in range(MAX_PER_RULE + 3)])
    assert len(told) == MAX_PER_RULE + 1
    assert told[-1].message == "3 more of this kind, first: number 20"
    assert told[-1].line == 20
    assert told[-1].fix
    assert [edit.start for edit in told[-1].fix.edits] == [20, 21, 22]


def test_comments_suppress_warnings_of_their_lines_in_the_front_matter_and_the_body() -> None:
    text = "---\n# openskills: ignore a-b, c\nname: x\n---\n<!-- openskills: ignore-file d -->\n" + "#" * 100_000
    found = [
        Problem(rule, "m", severity, line)
        for rule in ("a-b", "c", "d", "e")
        for line in (2, 3, 4, None)
        for severity in (Severity.WARNING, Severity.ERROR)
    ]
    left = [(problem.rule, problem.line) for problem in drop_suppressed(found, text) if problem.severity == "warning"]
    assert left == [("a-b", 4), ("a-b", None), ("c", 4), ("c", None), ("e", 2), ("e", 3), ("e", 4), ("e", None)]
    assert sum(problem.severity == "error" for problem in drop_suppressed(found, text)) == 16
    assert drop_suppressed(found, "no comment") == tuple(found)
