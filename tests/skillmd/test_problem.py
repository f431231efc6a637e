from openskills.skillmd.problem import Problem, Severity, errors_in

ERROR = Problem("name-length", "the name is too long", line=2, column=7)
WARNING = Problem("body-lines", "the body is long", Severity.WARNING)


def test_a_problem_reads_like_the_message_of_a_compiler() -> None:
    assert str(ERROR.at("a/SKILL.md")) == "a/SKILL.md:2:7: error: the name is too long [name-length]"
    assert str(WARNING.at("a/SKILL.md")) == "a/SKILL.md: warning: the body is long [body-lines]"
    assert str(WARNING) == "warning: the body is long [body-lines]"


def test_a_line_without_a_column_is_shown_from_its_beginning() -> None:
    assert str(Problem("x", "y", line=3)) == ":3:1: error: y [x]"


def test_softening_turns_errors_into_warnings_and_leaves_the_rest() -> None:
    assert ERROR.softened().severity is Severity.WARNING
    assert ERROR.softened().message == ERROR.message
    assert WARNING.softened() is WARNING


def test_errors_are_picked_from_the_rest() -> None:
    assert errors_in([WARNING, ERROR]) == (ERROR,)
