"""Tasks that a user has written down: a JSON document."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from openskills.bench.tasks import ANSWER, Step, StepKind, Task, Turn
from openskills.errors import InvalidArgument

_Text = Annotated[str, Field(min_length=1, max_length=1_000_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Step(_Strict):
    """One of `{"load": SKILL}`, `{"docs": [PATH], "skill": SKILL}` and `{"answer": TEXT}`."""

    load: _Text | None = None
    docs: list[_Text] | None = None
    skill: str = ""
    answer: str | None = None

    @model_validator(mode="after")
    def _one_of_three(self) -> "_Step":
        given = [name for name in ("load", "docs", "answer") if getattr(self, name) is not None]
        if len(given) != 1 or (self.docs is not None) != bool(self.skill):
            raise ValueError('a step is {"load": SKILL}, {"docs": [PATH, ...], "skill": SKILL} or {"answer": TEXT}')
        return self

    def value(self) -> Step:
        if self.load is not None:
            return Step(StepKind.LOAD, self.load)
        if self.docs is not None:
            return Step(StepKind.DOCS, self.skill, tuple(self.docs))
        return Step(StepKind.OTHER, answer=self.answer or ANSWER)


class _Turn(_Strict):
    user: _Text
    steps: list[_Step] = Field(default_factory=list[_Step])

    def value(self) -> Turn:
        return Turn(self.user, tuple(step.value() for step in self.steps))


class _Task(_Strict):
    name: _Text
    turns: Annotated[list[_Turn], Field(min_length=1)]


class _File(_Strict):
    tasks: Annotated[list[_Task], Field(min_length=1)]


def parse_tasks(text: str | bytes) -> tuple[Task, ...]:
    """The tasks of a document `{"tasks": [{"name": ..., "turns": [{"user": ..., "steps": [...]}]}]}`.

    Raises `InvalidArgument` that says which part is wrong.
    """
    try:
        found = _File.model_validate_json(text)
    except ValidationError as error:
        raise InvalidArgument("tasks", _said(error)) from None
    return tuple(Task(task.name, tuple(turn.value() for turn in task.turns)) for task in found.tasks)


def _said(error: ValidationError) -> str:
    first: Any = error.errors()[0]
    place = ".".join(map(str, first["loc"])) or "the file"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"
