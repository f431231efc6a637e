import json
from typing import Any

import pytest

from openskills.bench.task_file import parse_tasks
from openskills.bench.tasks import ANSWER, Step, StepKind
from openskills.errors import InvalidArgument


def written(*steps: dict[str, Any], **more: Any) -> str:
    return json.dumps({"tasks": [{"name": "one", "turns": [{"user": "Hello", "steps": list(steps)}], **more}]})


def test_each_kind_of_step_is_understood() -> None:
    text = written({"load": "pdf"}, {"docs": ["a.md"], "skill": "pdf"}, {"answer": "42"}, {"answer": ""})
    ((turn,),) = [task.turns for task in parse_tasks(text)]
    assert turn.user == "Hello"
    assert turn.steps == (
        Step(StepKind.LOAD, "pdf"),
        Step(StepKind.DOCS, "pdf", ("a.md",)),
        Step(StepKind.OTHER, answer="42"),
        Step(StepKind.OTHER, answer=ANSWER),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "the file: Invalid JSON"),
        ('{"tasks": []}', "tasks: List should have at least 1 item"),
        (written({"load": "pdf", "answer": "x"}), "tasks.0.turns.0.steps.0: a step is"),
        (written({"docs": ["a.md"]}), "tasks.0.turns.0.steps.0: a step is"),
        (written({}), "tasks.0.turns.0.steps.0: a step is"),
        (written(colour="red"), "tasks.0.colour: Extra inputs are not permitted"),
        ('{"tasks": [{"name": "x", "turns": [{"user": ""}]}]}', "tasks.0.turns.0.user: String should have at least 1"),
    ],
)
def test_a_wrong_document_is_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_tasks(text)
    assert said in refused.value.message
