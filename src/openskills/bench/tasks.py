"""Scripted tasks: what the user says, and what the model does about it. Plain values; some for any library."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from openskills.bench.library import Contents

ANSWER = "\n".join(
    f"{number:04d}  a row of the table that was looked up, with a date and a value" for number in range(16)
)
"""What the application's own tool answers, unless a task says otherwise."""

_SINGLES = 9


class StepKind(StrEnum):
    """What the model does: it loads a skill, selects documents of one, or calls a tool that is not ours."""

    LOAD = "load"
    DOCS = "docs"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the model. `answer` is what a tool that is not ours says."""

    kind: StepKind
    skill: str = ""
    docs: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user says, and the calls of the model before it answers."""

    user: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A conversation from its beginning to its end."""

    name: str
    turns: tuple[Turn, ...]


def usual_tasks(library: Iterable[Contents]) -> tuple[Task, ...]:
    """Tasks for any library, always the same for the same one.

    One that needs no skill; one for each of up to nine skills, from the shortest body to the longest; one question that
    takes three skills; three questions that take one each. A skill's first document is read where it has one.
    """
    skills = sorted(library, key=lambda skill: (len(skill.body), skill.name))
    tasks = [Task("needs no skill", (Turn("What is in the table?", (_other(), _other())),))]
    tasks += [Task(f"one skill: {skill.name}", (_turn((skill,)),)) for skill in _spread(skills, _SINGLES)]
    three = _spread([skill for skill in skills if skill.docs] or skills, 3)
    if len(three) > 1:
        tasks.append(Task(f"{len(three)} skills, one question", (_turn(three),)))
        tasks.append(Task(f"{len(three)} skills, {len(three)} questions", tuple(_turn((skill,)) for skill in three)))
    return tuple(tasks)


def _turn(skills: Sequence[Contents]) -> Turn:
    """The user asks for what the skills do; the model reads them, and looks something up."""
    wanted = " ".join(skill.description for skill in skills)[:400]
    return Turn(f"Please do this for me: {wanted}", tuple(step for skill in skills for step in _steps(skill)))


def _steps(skill: Contents) -> list[Step]:
    first = next(iter(skill.docs), None)
    select = [] if first is None else [Step(StepKind.DOCS, skill.name, (first,))]
    return [Step(StepKind.LOAD, skill.name), *select, _other()]


def _other() -> Step:
    return Step(StepKind.OTHER, answer=ANSWER)


def _spread(skills: Sequence[Contents], most: int) -> list[Contents]:
    """At most so many, evenly from all of them, the first and the last among them."""
    if len(skills) <= most:
        return list(skills)
    return [skills[round(number * (len(skills) - 1) / (most - 1))] for number in range(most)]
