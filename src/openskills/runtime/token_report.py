"""Token report: what skills cost a model with progressive disclosure and with everything in the prompt.

Plays the same scripted tasks in three modes without calling a model, and counts the tokens of every request.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from openskills.arguments import check_arguments
from openskills.catalog.catalog import Catalog
from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument, MissingExtra, SkillError
from openskills.prompt.blocks import (
    LoadedText,
    PromptLayer,
    PromptPart,
    SkillBlock,
    TokenBudget,
    parse_fragment,
    render_addition,
    select_lines,
)
from openskills.prompt.overview import overview
from openskills.prompt.usage import Ledger, RequestTokens
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.session.state import ALL
from openskills.settings import Settings
from openskills.tokens import TokenCounter, estimate_tokens, load_exact_counter
from openskills.tools.names import INTERACTIVE, LIST, LOAD, SEARCH, SELECT, UNLOAD
from openskills.tools.tool import format_tools

TOOLS = "tools"
"""The layer of our tools' schemas, which are sent with every request."""
ENCODING = "o200k_base"
SYSTEM = "You help with office work. Be brief, and say which files you made."
ANSWER = "\n".join(f"{row:04d}  a row of the table that was looked up, with a date and a value" for row in range(16))
"""The default answer of the application's own tool."""

_MAX_SINGLES = 9
_NO_LIMIT = 10**9
_QUERY_WORDS = 12


class DisclosureMode(StrEnum):
    """How the texts of skills reach the model."""

    PROGRESSIVE = "progressive"
    BODIES = "bodies"
    EVERYTHING = "bodies and docs"


@dataclass(frozen=True, slots=True)
class Cost:
    """The tokens of one or several requests; `new` are those after the prefix shared with the previous request."""

    total: int = 0
    new: int = 0
    by_layer: Mapping[str, int] = field(default_factory=dict[str, int])
    requests: int = 1

    @property
    def per_request(self) -> float:
        """The mean of a request."""
        return self.total / self.requests if self.requests else 0.0


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """Add costs up."""
    found = list(costs)
    layers = Counter[str]()
    for cost in found:
        layers.update(cost.by_layer)
    total, new = sum(cost.total for cost in found), sum(cost.new for cost in found)
    return Cost(total, new, dict(layers), sum(cost.requests for cost in found))


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The cost of each request of one task, by mode."""

    name: str
    modes: Mapping[DisclosureMode, tuple[Cost, ...]]

    def cost(self, mode: DisclosureMode) -> Cost:
        """The sum over all requests of the task."""
        return sum_costs(self.modes[mode])


@dataclass(frozen=True, slots=True)
class TokenReport:
    """The size of the library by layer, and the costs of all tasks.

    `counted` names the tokenizer, or is `estimate`. `unread` names what could not be read: skills, and documents as
    `skill/path`.
    """

    counted: str
    exact: bool
    skills: int
    unread: tuple[str, ...]
    overview: int
    bodies: int
    docs: int
    tasks: tuple[TaskReport, ...]

    def cost(self, mode: DisclosureMode) -> Cost:
        """The sum over all requests of all tasks."""
        return sum_costs(task.cost(mode) for task in self.tasks)

    def savings(self, mode: DisclosureMode) -> float:
        """The fraction of this mode's tokens that progressive disclosure saves: 0.9 is nine tenths."""
        theirs = self.cost(mode).total
        return 1 - self.cost(DisclosureMode.PROGRESSIVE).total / theirs if theirs else 0.0


class StepKind(StrEnum):
    """What the model does: load a skill, select documents of one, or call a tool that is not ours."""

    LOAD = "load"
    DOCS = "docs"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ScriptedStep:
    """One call of the model. `answer` is the result of a tool that is not ours."""

    kind: StepKind
    skill: str = ""
    docs: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """A user message, and the calls of the model before it answers."""

    user: str
    steps: tuple[ScriptedStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptedTask:
    """A whole conversation."""

    name: str
    turns: tuple[ScriptedTurn, ...]


ScriptedCall: TypeAlias = tuple[str, Mapping[str, Any]]
"""The name of a tool, and its arguments."""


@dataclass(frozen=True, slots=True)
class SkillContents:
    """A skill with the text of its body and of all documents that a model may read, by path."""

    name: str
    description: str
    body: str
    docs: Mapping[str, str] = field(default_factory=dict[str, str])


@check_arguments
async def measure_tokens(
    catalog: Catalog,
    *,
    tasks: Sequence[ScriptedTask] = (),
    encoding: str | None = ENCODING,
    settings: Settings | None = None,
    progress: Callable[[str, int, int | None], object] | None = None,
) -> TokenReport:
    """Play every task in every mode; without `tasks`, some that fit the catalog (see `default_tasks`).

    Tokens are exact for `encoding` if the extra `tokens` is installed; otherwise, and with None, they are estimated.
    Bodies and documents are never truncated. The list of skills has the usual budget; a skill that is not described in
    it is searched for before it is loaded. A text that is in the prompt already is not loaded, so full injection needs
    fewer requests. Raises `InvalidArgument` for an unknown encoding or a task that does not fit the skills.
    """
    counter, exact = estimate_tokens, False
    if encoding is not None:
        with suppress(MissingExtra):
            counter, exact = load_exact_counter(encoding), True
    # Each text is counted once.
    count = cache(counter)
    contents, unread = read_contents(catalog.skills)
    tasks = tasks or default_tasks(contents)
    options = SessionOptions(count=count, budget=TokenBudget(_NO_LIMIT, _NO_LIMIT, _NO_LIMIT))
    listed = overview(catalog.skills, options.overview_format, options.overview_tokens, count=count)
    hidden = {*listed.names_only, *listed.left_out}
    queries = {one.name: " ".join(one.description.split()[:_QUERY_WORDS]) for one in contents if one.name in hidden}
    found: dict[str, dict[DisclosureMode, tuple[Cost, ...]]] = {task.name: {} for task in tasks}
    # With an executor, which is never used: the tools of the profile `full` are counted in every mode.
    async with SkillRuntime(catalog, "local", settings=settings, options=options) as runtime:
        for number, task in enumerate(tasks):
            if progress is not None:
                progress(task.name, number, len(tasks))
            async with runtime.session(f"s{number}") as session:
                costs = await play(ProgressiveConversation(session, queries), task.turns)
            found[task.name][DisclosureMode.PROGRESSIVE] = costs
        async with runtime.session("schemas") as session:
            schemas = session.tools()
    for mode in (DisclosureMode.BODIES, DisclosureMode.EVERYTHING):
        docs = mode is DisclosureMode.EVERYTHING
        for task in tasks:
            conversation = InjectedConversation(contents, count, docs=docs)
            # What is in the prompt already need not be found, loaded or read.
            unused = {LOAD, LIST, UNLOAD, SEARCH, *INTERACTIVE, *((SELECT,) if docs else ())}
            tools = format_tools([schema for schema in schemas if schema["function"]["name"] not in unused])
            found[task.name][mode] = await play(conversation, task.turns, count(tools))
    return TokenReport(
        encoding if encoding and exact else "estimate",
        exact,
        len(contents),
        unread,
        listed.tokens,
        sum(count(skill.body) for skill in contents),
        sum(count(text) for skill in contents for text in skill.docs.values()),
        tuple(TaskReport(name, modes) for name, modes in found.items()),
    )


def read_contents(skills: Iterable[Skill]) -> tuple[tuple[SkillContents, ...], tuple[str, ...]]:
    """Read all bodies and documents, by name of skill; also return the names of what could not be read. Blocking."""
    found: list[SkillContents] = []
    unread: list[str] = []
    for skill in sorted(skills, key=lambda skill: skill.name):
        docs: dict[str, str] = {}
        try:
            for doc in skill.docs():
                try:
                    docs[doc.path] = skill.read(doc.path).decode("utf-8-sig")
                except (SkillError, UnicodeDecodeError):
                    unread.append(f"{skill.name}/{doc.path}")
            found.append(SkillContents(skill.name, skill.description, skill.body(), docs))
        except SkillError:
            unread.append(skill.name)
    return tuple(found), tuple(unread)


def default_tasks(contents: Iterable[SkillContents]) -> tuple[ScriptedTask, ...]:
    """Tasks for any library, always the same for the same one.

    One that needs no skill; one for each of up to nine skills, from the shortest body to the longest; one question that
    takes three skills; three questions that take one each. A skill's first document is read if it has one.
    """
    look_up = ScriptedStep(StepKind.OTHER, answer=ANSWER)

    def build_turn(skills: Sequence[SkillContents]) -> ScriptedTurn:
        steps: list[ScriptedStep] = []
        for skill in skills:
            steps.append(ScriptedStep(StepKind.LOAD, skill.name))
            steps += [ScriptedStep(StepKind.DOCS, skill.name, (doc,)) for doc in list(skill.docs)[:1]]
            steps.append(look_up)
        wanted = " ".join(skill.description for skill in skills)[:400]
        return ScriptedTurn(f"Please do this for me: {wanted}", tuple(steps))

    skills = sorted(contents, key=lambda skill: (len(skill.body), skill.name))
    tasks = [ScriptedTask("needs no skill", (ScriptedTurn("What is in the table?", (look_up, look_up)),))]
    singles = _select_evenly(skills, _MAX_SINGLES)
    tasks += [ScriptedTask(f"one skill: {skill.name}", (build_turn((skill,)),)) for skill in singles]
    three = _select_evenly([skill for skill in skills if skill.docs] or skills, 3)
    if len(three) > 1:
        turns = tuple(build_turn((skill,)) for skill in three)
        tasks.append(ScriptedTask(f"{len(three)} skills, one question", (build_turn(three),)))
        tasks.append(ScriptedTask(f"{len(three)} skills, {len(three)} questions", turns))
    return tuple(tasks)


def _select_evenly(skills: Sequence[SkillContents], number: int) -> list[SkillContents]:
    """At most `number`, evenly spaced, including the first and the last."""
    if len(skills) <= number:
        return list(skills)
    return [skills[round(index * (len(skills) - 1) / (number - 1))] for index in range(number)]


_Text = Annotated[str, Field(min_length=1, max_length=1_000_000)]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _StepModel(_StrictModel):
    load: _Text | None = None
    docs: list[_Text] | None = None
    skill: str = ""
    answer: str | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> "_StepModel":
        given = [name for name in ("load", "docs", "answer") if getattr(self, name) is not None]
        if len(given) != 1 or (self.docs is not None) != bool(self.skill):
            raise ValueError('a step is {"load": SKILL}, {"docs": [PATH, ...], "skill": SKILL} or {"answer": TEXT}')
        return self

    def to_step(self) -> ScriptedStep:
        if self.load is not None:
            return ScriptedStep(StepKind.LOAD, self.load)
        if self.docs is not None:
            return ScriptedStep(StepKind.DOCS, self.skill, tuple(self.docs))
        return ScriptedStep(StepKind.OTHER, answer=self.answer or ANSWER)


class _TurnModel(_StrictModel):
    user: _Text
    steps: list[_StepModel] = Field(default_factory=list[_StepModel])


class _TaskModel(_StrictModel):
    name: _Text
    turns: Annotated[list[_TurnModel], Field(min_length=1)]

    def to_task(self) -> ScriptedTask:
        turns = (ScriptedTurn(turn.user, tuple(step.to_step() for step in turn.steps)) for turn in self.turns)
        return ScriptedTask(self.name, tuple(turns))


class _TaskFileModel(_StrictModel):
    tasks: Annotated[list[_TaskModel], Field(min_length=1)]


def parse_tasks(text: str | bytes) -> tuple[ScriptedTask, ...]:
    """Parse a document `{"tasks": [{"name": ..., "turns": [{"user": ..., "steps": [...]}]}]}`.

    Raises `InvalidArgument` that says which part is wrong.
    """
    try:
        return tuple(task.to_task() for task in _TaskFileModel.model_validate_json(text).tasks)
    except ValidationError as error:
        first: Any = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InvalidArgument("tasks", f"{place}: {first['msg'].removeprefix('Value error, ')}") from None


async def play(
    conversation: "ProgressiveConversation | InjectedConversation", turns: Sequence[ScriptedTurn], tools: int = 0
) -> tuple[Cost, ...]:
    """Play a conversation: one request after each user message and each call, each with `tools` tokens of schemas."""
    found: list[Cost] = []
    messages = conversation.messages

    def send() -> None:
        sent = conversation.send()
        total, unchanged = sent.total + tools, sent.unchanged + (tools if sent.before else 0)
        layers = {str(layer): tokens for layer, tokens in sent.by_layer.items()}
        layers[TOOLS] = layers.get(TOOLS, 0) + tools
        found.append(Cost(total, total - unchanged, layers))

    for turn in turns:
        messages.append({"role": "user", "content": turn.user})
        send()
        for step in turn.steps:
            for name, arguments in [_OTHER_CALL] if step.kind is StepKind.OTHER else conversation.calls_for(step):
                call_id = f"call_{len(messages)}"
                function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
                call = {"id": call_id, "type": "function", "function": function}
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
                text = step.answer
                if step.kind is not StepKind.OTHER:
                    text = await conversation.answer(step, (name, arguments), call_id)
                messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
                send()
        messages.append({"role": "assistant", "content": "Done."})
    return tuple(found)


def _select_call(step: ScriptedStep) -> ScriptedCall:
    return "skill_select_docs", {"skill": step.skill, "docs": list(step.docs), "mode": "add"}


_OTHER_CALL: ScriptedCall = ("lookup", {"table": "figures"})


class ProgressiveConversation:
    """Progressive disclosure: a session whose tools are really called.

    `queries` has the search words for skills that a model has to search for before it can load them.
    """

    def __init__(self, session: SkillSession, queries: Mapping[str, str] | None = None) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
        self._session = session
        self._queries = queries or {}

    def send(self) -> RequestTokens:
        """Build the next request and count it."""
        self._session.context(self.messages, tools=self._session.tools(usable=True))
        return self._session.ledger.last[-1]

    def calls_for(self, step: ScriptedStep) -> Sequence[ScriptedCall]:
        """The tool calls that a model would make."""
        if step.kind is StepKind.DOCS:
            return [_select_call(step)]
        query = self._queries.get(step.skill)
        search: list[ScriptedCall] = [] if query is None else [("skill_search", {"query": query})]
        return [*search, ("skill_load", {"skill": step.skill})]

    async def answer(self, step: ScriptedStep, call: ScriptedCall, call_id: str) -> str:
        """Call a tool. Raises `InvalidArgument` if it fails: the script does not fit the skills."""
        result = await self._session.call(*call, call_id=call_id)
        if result.error is not None:
            raise InvalidArgument("tasks", f"{call[0]} of {step.skill!r} failed: {result.text}")
        return result.text


class InjectedConversation:
    """Full injection: all bodies, and with `docs` all documents, are in the system message.

    There is neither a list of skills nor guidance. A document that is not in the prompt is the result of a tool call.
    """

    def __init__(self, contents: Sequence[SkillContents], count: TokenCounter, *, docs: bool) -> None:
        self._skills = {skill.name: skill for skill in contents}
        self._docs = docs
        self._count = count
        self._parts: list[PromptPart] = []
        self._ledger = Ledger()
        blocks: list[SkillBlock] = []
        for skill in contents:
            texts = tuple(_to_text(path, text) for path, text in skill.docs.items()) if docs else ()
            blocks.append(SkillBlock(skill.name, _to_text("SKILL.md", skill.body), texts))
            self._parts.append(PromptPart(PromptLayer.BODY, skill.name, skill.body))
            self._parts += (PromptPart(PromptLayer.DOCS, skill.name, one.text) for one in texts)
        system = f"{SYSTEM}\n\n{render_addition(tuple(blocks))}"
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": system}]

    def send(self) -> RequestTokens:
        """Count the messages as they are."""
        return self._ledger.record(self.messages, self._parts, self._count)

    def calls_for(self, step: ScriptedStep) -> Sequence[ScriptedCall]:
        """No call is needed for what is in the prompt."""
        return [_select_call(step)] if step.kind is StepKind.DOCS and not self._docs else []

    async def answer(self, step: ScriptedStep, call: ScriptedCall, call_id: str) -> str:
        """The selected documents, as the result of a call shows them."""
        del call, call_id
        if step.skill not in self._skills:
            raise InvalidArgument("tasks", f"there is no skill {step.skill!r}")
        known = self._skills[step.skill].docs
        texts: list[LoadedText] = []
        for name in known if step.docs == (ALL,) else step.docs:
            path, lines = parse_fragment(name)
            if path not in known:
                raise InvalidArgument("tasks", f"{step.skill!r} has no document {path!r}")
            texts.append(_to_text(name, known[path] if lines is None else select_lines(known[path], lines)))
        self._parts += (PromptPart(PromptLayer.DOCS, step.skill, one.text) for one in texts)
        return SkillBlock(step.skill, None, tuple(texts)).render()


def _to_text(path: str, text: str) -> LoadedText:
    return LoadedText(path, text, 0, 0)
