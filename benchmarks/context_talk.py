"""Scripted conversations, as plain data that every library can play: what the user says, and what the model does."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

SYSTEM = "You help with office work. Be brief, and say which files you made."
LOOKED = "\n".join(
    f"{number:04d}  a row of the table that was looked up, with a date and a value" for number in range(16)
)
"""What the application's own tool answers, always."""

WARM_UPS = 20
"""How often a request is built before it is timed: a processor that was idle takes a while to reach its speed."""

LOAD, SELECT, LOOK = "load", "select", "look"


@dataclass(frozen=True)
class Step:
    """One call of the model: it loads a skill, selects documents, or looks something up with a tool of its own."""

    kind: str
    skill: str = ""
    docs: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Turn:
    """What the user says, and the calls of the model before it answers."""

    user: str
    steps: list[Step]


@dataclass(frozen=True)
class Documented:
    """A skill with documents to select."""

    name: str
    docs: Sequence[str]


def in_one_turn(skills: Sequence[Documented]) -> list[Turn]:
    """Twelve requests: three loads, two selections and six other calls, all for one question."""
    first, second, third = skills
    look = Step(LOOK)
    steps = [
        *(Step(LOAD, first.name), look, Step(SELECT, first.name, [first.docs[0]]), look),
        *(Step(LOAD, second.name), look, look),
        *(Step(LOAD, third.name), look, Step(SELECT, third.name, [third.docs[0]]), look),
    ]
    return [Turn("Make the quarterly report from the tables, and check every figure.", steps)]


def in_three_turns(skills: Sequence[Documented]) -> list[Turn]:
    """Twelve requests: the same three loads and two selections, but the user speaks three times."""
    first, second, third = skills
    look = Step(LOOK)
    return [
        Turn("Make the report.", [Step(LOAD, first.name), Step(SELECT, first.name, [first.docs[0]]), look]),
        Turn("Now the figures.", [Step(LOAD, second.name), look, look]),
        Turn("And a summary.", [Step(LOAD, third.name), Step(SELECT, third.name, [third.docs[0]]), look]),
    ]


def in_many_turns(skills: Sequence[Documented], turns: int) -> list[Turn]:
    """So many turns of four requests each; the skills are loaded in turns of their own, evenly from the first on.

    The number of requests is the same for any number of skills that is not more than that of turns.
    """
    look = Step(LOOK)
    loading = {number * turns // len(skills): skill for number, skill in enumerate(skills)}
    found: list[Turn] = []
    for number in range(turns):
        skill = loading.get(number)
        steps = [look] if skill is None else [Step(LOAD, skill.name), Step(SELECT, skill.name, [skill.docs[0]])]
        found.append(Turn(f"Now step {number + 1} of the checklist.", [*steps, *[look] * (3 - len(steps))]))
    return found


def long_turn(skills: Sequence[str]) -> list[Turn]:
    """Every skill is loaded in one turn, with other calls until a request has 40 messages, the system's included."""
    looks = [Step(LOOK)] * (19 - len(skills))
    return [Turn("Do everything that the checklist says.", [*(Step(LOAD, name) for name in skills), *looks])]


def as_data(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """A conversation for another process."""
    return [asdict(turn) for turn in turns]


def of_data(data: Sequence[dict[str, Any]]) -> Iterator[Turn]:
    """The conversation that another process has sent."""
    for turn in data:
        yield Turn(turn["user"], [Step(**step) for step in turn["steps"]])
