"""Scripted tasks.

The texts of all skills, as they would stand in a prompt. Blocking reads.

Scripted tasks: what the user says, and what the model does about it. Plain values; some for any library.

Tasks that a user has written down: a JSON document.

A conversation with a script: the messages that a program around a model keeps, and the requests it would send.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument, SkillError
from openskills.prompt.usage import RequestTokens
from openskills.runtime.session import SkillSession


@dataclass(frozen=True, slots=True)
class SkillContents:
    """A skill with the text of its body and of all documents that a model may read, by path."""

    name: str
    description: str
    body: str
    docs: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class SkillLibrary:
    """What could be read, in order of name, and the names of what could not: skills, and documents as `skill/path`."""

    skills: tuple[SkillContents, ...]
    unread: tuple[str, ...] = ()


def read_library(skills: Iterable[Skill]) -> SkillLibrary:
    """Everything, read now. What has gone, is too big or is no text is named in `unread`; nothing raises for it."""
    found: list[SkillContents] = []
    unread: list[str] = []
    for skill in sorted(skills, key=lambda skill: skill.name):
        try:
            found.append(_read_contents(skill, unread))
        except SkillError:
            unread.append(skill.name)
    return SkillLibrary(tuple(found), tuple(unread))


def _read_contents(skill: Skill, unread: list[str]) -> SkillContents:
    docs: dict[str, str] = {}
    for doc in skill.docs():
        try:
            docs[doc.path] = skill.read(doc.path).decode("utf-8-sig")
        except (SkillError, UnicodeDecodeError):
            unread.append(f"{skill.name}/{doc.path}")
    return SkillContents(skill.name, skill.description, skill.body(), docs)


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
class BenchStep:
    """One call of the model. `answer` is what a tool that is not ours says."""

    kind: StepKind
    skill: str = ""
    docs: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True)
class BenchTurn:
    """What the user says, and the calls of the model before it answers."""

    user: str
    steps: tuple[BenchStep, ...] = ()


@dataclass(frozen=True, slots=True)
class BenchTask:
    """A conversation from its beginning to its end."""

    name: str
    turns: tuple[BenchTurn, ...]


def default_tasks(library: Iterable[SkillContents]) -> tuple[BenchTask, ...]:
    """Tasks for any library, always the same for the same one.

    One that needs no skill; one for each of up to nine skills, from the shortest body to the longest; one question that
    takes three skills; three questions that take one each. A skill's first document is read where it has one.
    """
    skills = sorted(library, key=lambda skill: (len(skill.body), skill.name))
    tasks = [BenchTask("needs no skill", (BenchTurn("What is in the table?", (_lookup_step(), _lookup_step())),))]
    tasks += [
        BenchTask(f"one skill: {skill.name}", (_build_turn((skill,)),)) for skill in _select_evenly(skills, _SINGLES)
    ]
    three = _select_evenly([skill for skill in skills if skill.docs] or skills, 3)
    if len(three) > 1:
        tasks.append(BenchTask(f"{len(three)} skills, one question", (_build_turn(three),)))
        tasks.append(
            BenchTask(f"{len(three)} skills, {len(three)} questions", tuple(_build_turn((skill,)) for skill in three))
        )
    return tuple(tasks)


def _build_turn(skills: Sequence[SkillContents]) -> BenchTurn:
    """The user asks for what the skills do; the model reads them, and looks something up."""
    wanted = " ".join(skill.description for skill in skills)[:400]
    return BenchTurn(
        f"Please do this for me: {wanted}", tuple(step for skill in skills for step in _build_steps(skill))
    )


def _build_steps(skill: SkillContents) -> list[BenchStep]:
    first = next(iter(skill.docs), None)
    select = [] if first is None else [BenchStep(StepKind.DOCS, skill.name, (first,))]
    return [BenchStep(StepKind.LOAD, skill.name), *select, _lookup_step()]


def _lookup_step() -> BenchStep:
    return BenchStep(StepKind.OTHER, answer=ANSWER)


def _select_evenly(skills: Sequence[SkillContents], most: int) -> list[SkillContents]:
    """At most so many, evenly from all of them, the first and the last among them."""
    if len(skills) <= most:
        return list(skills)
    return [skills[round(number * (len(skills) - 1) / (most - 1))] for number in range(most)]


_Text = Annotated[str, Field(min_length=1, max_length=1_000_000)]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _StepModel(_StrictModel):
    """One of `{"load": SKILL}`, `{"docs": [PATH], "skill": SKILL}` and `{"answer": TEXT}`."""

    load: _Text | None = None
    docs: list[_Text] | None = None
    skill: str = ""
    answer: str | None = None

    @model_validator(mode="after")
    def _check_one_of_three(self) -> "_StepModel":
        given = [name for name in ("load", "docs", "answer") if getattr(self, name) is not None]
        if len(given) != 1 or (self.docs is not None) != bool(self.skill):
            raise ValueError('a step is {"load": SKILL}, {"docs": [PATH, ...], "skill": SKILL} or {"answer": TEXT}')
        return self

    def to_step(self) -> BenchStep:
        if self.load is not None:
            return BenchStep(StepKind.LOAD, self.load)
        if self.docs is not None:
            return BenchStep(StepKind.DOCS, self.skill, tuple(self.docs))
        return BenchStep(StepKind.OTHER, answer=self.answer or ANSWER)


class _TurnModel(_StrictModel):
    user: _Text
    steps: list[_StepModel] = Field(default_factory=list[_StepModel])

    def to_turn(self) -> BenchTurn:
        return BenchTurn(self.user, tuple(step.to_step() for step in self.steps))


class _TaskModel(_StrictModel):
    name: _Text
    turns: Annotated[list[_TurnModel], Field(min_length=1)]


class _TaskFileModel(_StrictModel):
    tasks: Annotated[list[_TaskModel], Field(min_length=1)]


def parse_tasks(text: str | bytes) -> tuple[BenchTask, ...]:
    """The tasks of a document `{"tasks": [{"name": ..., "turns": [{"user": ..., "steps": [...]}]}]}`.

    Raises `InvalidArgument` that says which part is wrong.
    """
    try:
        found = _TaskFileModel.model_validate_json(text)
    except ValidationError as error:
        raise InvalidArgument("tasks", _describe_error(error)) from None
    return tuple(BenchTask(task.name, tuple(turn.to_turn() for turn in task.turns)) for task in found.tasks)


def _describe_error(error: ValidationError) -> str:
    first: Any = error.errors()[0]
    place = ".".join(map(str, first["loc"])) or "the file"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"


SYSTEM = "You help with office work. Be brief, and say which files you made."
"""What the application itself tells the model."""

OTHER_TOOL = "lookup"


BenchCall: TypeAlias = tuple[str, Mapping[str, Any]]
"""The name of a tool, and its arguments."""


class BenchConversation(Protocol):
    """Who can play a conversation. `tokens` has what each request cost that was asked for."""

    messages: list[dict[str, Any]]
    tokens: list[RequestTokens]

    def request(self) -> list[Any]:
        """What would be sent now."""
        ...

    def calls_for(self, step: BenchStep) -> Sequence[BenchCall]:
        """The calls that a step takes here; none when there is nothing to do."""
        ...

    async def answer(self, step: BenchStep, call: BenchCall, call_id: str) -> str:
        """What the tool answers to a call of a step."""
        ...


async def play(talk: BenchConversation, turns: Sequence[BenchTurn]) -> list[list[Any]]:
    """The requests of a whole conversation, one after what the user says and one after each call."""
    requests: list[list[Any]] = []
    for turn in turns:
        talk.messages.append({"role": "user", "content": turn.user})
        requests.append(talk.request())
        for step in turn.steps:
            for call in talk.calls_for(step):
                await _record_call(talk, step, call, f"call_{len(talk.messages)}")
                requests.append(talk.request())
        talk.messages.append({"role": "assistant", "content": "Done."})
    return requests


async def _record_call(talk: BenchConversation, step: BenchStep, call: BenchCall, call_id: str) -> None:
    name, arguments = call
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    written = {"id": call_id, "type": "function", "function": function}
    talk.messages.append({"role": "assistant", "content": None, "tool_calls": [written]})
    text = await talk.answer(step, call, call_id)
    talk.messages.append({"role": "tool", "tool_call_id": call_id, "content": text})


class ProgressiveConversation:
    """Progressive disclosure: a session of ours, whose tools are really called.

    The skills of `searched` are looked for with these words before they are loaded, as a model would have to.
    """

    def __init__(self, session: SkillSession, searched: Mapping[str, str] | None = None) -> None:
        self.session = session
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
        self.tokens: list[RequestTokens] = []
        self._searched = searched or {}

    def request(self) -> list[Any]:
        """What would be sent now."""
        sent = self.session.context(self.messages, tools=self.session.tools(usable=True))
        self.tokens.append(self.session.ledger.last[-1])
        return sent

    def calls_for(self, step: BenchStep) -> Sequence[BenchCall]:
        """As the model would call our tools."""
        if step.kind is StepKind.OTHER:
            return [other_call()]
        if step.kind is StepKind.DOCS:
            return [select_call(step)]
        words = self._searched.get(step.skill)
        search: list[BenchCall] = [] if words is None else [("skill_search", {"query": words})]
        return [*search, ("skill_load", {"skill": step.skill})]

    async def answer(self, step: BenchStep, call: BenchCall, call_id: str) -> str:
        """What the tool answers. Raises `InvalidArgument` when it fails: the script does not fit the skills."""
        if step.kind is StepKind.OTHER:
            return step.answer
        result = await self.session.call(*call, call_id=call_id)
        if result.error is not None:
            raise InvalidArgument("tasks", f"{call[0]} of {step.skill!r} failed: {result.text}")
        return result.text


def other_call() -> BenchCall:
    """The call of a tool that is not ours."""
    return OTHER_TOOL, {"table": "figures"}


def select_call(step: BenchStep) -> BenchCall:
    """The call that selects the documents of a step."""
    return "skill_select_docs", {"skill": step.skill, "docs": list(step.docs), "mode": "add"}
