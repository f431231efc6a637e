from openskills.bench.library import Contents
from openskills.bench.tasks import StepKind, Task, usual_tasks
from tests.bench.shelves import contents


def library(count: int) -> list[Contents]:
    return [contents(f"skill-{number:02d}", body="word " * (number + 1)) for number in range(count)]


def loaded(task: Task) -> list[str]:
    return [step.skill for turn in task.turns for step in turn.steps if step.kind is StepKind.LOAD]


def test_the_same_library_in_any_order_gives_the_same_tasks() -> None:
    assert usual_tasks(library(30)) == usual_tasks(reversed(library(30)))


def test_nine_skills_from_the_shortest_to_the_longest_have_a_task_of_their_own() -> None:
    singles = [loaded(task) for task in usual_tasks(library(30)) if task.name.startswith("one skill")]
    assert len(singles) == 9
    assert (singles[0], singles[-1]) == (["skill-00"], ["skill-29"])


def test_the_first_task_needs_no_skill_and_the_last_two_need_the_same_three() -> None:
    first, *_, question, questions = usual_tasks(library(30))
    assert loaded(first) == []
    assert loaded(question) == loaded(questions)
    assert (len(question.turns), len(questions.turns)) == (1, 3)


def test_a_document_is_read_where_there_is_one() -> None:
    (_, plain, documented, *_) = usual_tasks([contents("a", body="x"), contents("b", "one.md", "two.md")])
    assert [step.kind for step in plain.turns[0].steps] == [StepKind.LOAD, StepKind.OTHER]
    assert documented.turns[0].steps[1].docs == ("one.md",)


def test_a_library_of_one_skill_has_tasks_too() -> None:
    assert [task.name for task in usual_tasks([contents("only")])] == ["needs no skill", "one skill: only"]
