"""Token report.

What requests cost, by layer, and what several of them cost together. Pure.

Which counter is used, and how that is said. Pure, but for the import of the exact one.

Full injection: the texts of all skills stand in the system message of every request. Opens nothing.

Progressive disclosure against full injection, over the same tasks and with the same counter.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from openskills.bench.tasks import (
    SYSTEM,
    BenchCall,
    BenchStep,
    BenchTask,
    BenchTurn,
    ProgressiveConversation,
    SkillContents,
    SkillLibrary,
    StepKind,
    other_call,
    play,
    select_call,
)
from openskills.catalog.catalog import Catalog
from openskills.errors import InvalidArgument, MissingExtra
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
from openskills.prompt.overview import Overview, overview
from openskills.prompt.usage import Ledger, RequestTokens
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.session.state import ALL
from openskills.settings import Settings
from openskills.tokens import TokenCounter, estimate_tokens, load_exact_counter
from openskills.tools.names import EXEC, FILES, RUN, SELECT
from openskills.tools.tool import format_tools

TOOLS = "tools"
"""The layer of the descriptions of our tools, which go with every request beside the messages."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The tokens of one request, or of `requests` together. `new` are those that no request before began with."""

    total: int = 0
    new: int = 0
    by_layer: Mapping[str, int] = field(default_factory=dict[str, int])
    requests: int = 1

    @property
    def per_request(self) -> float:
        """The mean of a request."""
        return self.total / self.requests if self.requests else 0.0


def cost_of(request: RequestTokens, tools: int) -> Cost:
    """What a request costs with `tools` more tokens of descriptions of tools, which never change in a conversation."""
    layers = {str(layer): tokens for layer, tokens in request.by_layer.items()}
    layers[TOOLS] = layers.get(TOOLS, 0) + tools
    unchanged = request.unchanged + (tools if request.before else 0)
    total = request.total + tools
    return Cost(total, total - unchanged, layers)


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """All of them as one."""
    found: Sequence[Cost] = list(costs)
    layers: dict[str, int] = {}
    for cost in found:
        for layer, tokens in cost.by_layer.items():
            layers[layer] = layers.get(layer, 0) + tokens
    return Cost(
        sum(cost.total for cost in found),
        sum(cost.new for cost in found),
        layers,
        sum(cost.requests for cost in found),
    )


ENCODING = "o200k_base"


@dataclass(frozen=True, slots=True)
class ReportCounter:
    """A counter with its name, and whether it agrees with a real tokenizer."""

    count: TokenCounter
    name: str
    exact: bool

    def with_cache(self) -> TokenCounter:
        """The counter, which counts each text once: for as long as the result lives it remembers all of them."""
        return cache(self.count)


def estimate_counter() -> ReportCounter:
    """The estimate, which needs nothing."""
    return ReportCounter(estimate_tokens, "estimate", exact=False)


def best_counter(encoding: str = ENCODING) -> ReportCounter:
    """The exact counter when it is installed, else the estimate. Raises `InvalidArgument` for an unknown encoding."""
    try:
        return ReportCounter(load_exact_counter(encoding), encoding, exact=True)
    except MissingExtra:
        return estimate_counter()


@dataclass(frozen=True, slots=True)
class InjectedPrompt:
    """The text that stands in the system message, and what it consists of."""

    text: str
    parts: tuple[PromptPart, ...]


def build_injected_prompt(skills: Iterable[SkillContents], *, docs: bool) -> InjectedPrompt:
    """All bodies, with all documents if wanted, under the headings that ours have when they are loaded.

    There is neither a list of skills nor guidance: nobody needs them when everything is there.
    """
    blocks: list[SkillBlock] = []
    parts: list[PromptPart] = []
    for skill in skills:
        pieces = tuple(_build_piece(path, text) for path, text in skill.docs.items()) if docs else ()
        blocks.append(SkillBlock(skill.name, _build_piece("SKILL.md", skill.body), pieces))
        parts.append(PromptPart(PromptLayer.BODY, skill.name, skill.body))
        parts += (PromptPart(PromptLayer.DOCS, skill.name, piece.text) for piece in pieces)
    return InjectedPrompt(render_addition(tuple(blocks)), tuple(parts))


class InjectedConversation:
    """A conversation in which nothing is loaded; a document that is not in the prompt is the answer of a tool."""

    def __init__(
        self, skills: Sequence[SkillContents], prompt: InjectedPrompt, count: TokenCounter, *, docs: bool
    ) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": f"{SYSTEM}\n\n{prompt.text}"}]
        self.tokens: list[RequestTokens] = []
        self._skills = {skill.name: skill for skill in skills}
        self._docs = docs
        self._count = count
        self._parts = list(prompt.parts)
        self._ledger = Ledger()

    def request(self) -> list[Any]:
        """What would be sent now: the messages as they are."""
        self.tokens.append(self._ledger.record(self.messages, self._parts, self._count))
        return list(self.messages)

    def calls_for(self, step: BenchStep) -> Sequence[BenchCall]:
        """Nothing is called for what is there already."""
        if step.kind is StepKind.OTHER:
            return [other_call()]
        return [select_call(step)] if step.kind is StepKind.DOCS and not self._docs else []

    async def answer(self, step: BenchStep, call: BenchCall, call_id: str) -> str:
        """The documents, as they would be shown in the result of a call."""
        del call, call_id
        if step.kind is StepKind.OTHER:
            return step.answer
        pieces = self._pieces(step)
        self._parts += (PromptPart(PromptLayer.DOCS, step.skill, piece.text) for piece in pieces)
        return SkillBlock(step.skill, None, pieces).render()

    def _pieces(self, step: BenchStep) -> tuple[LoadedText, ...]:
        if step.skill not in self._skills:
            raise InvalidArgument("tasks", f"there is no skill {step.skill!r}")
        known = self._skills[step.skill].docs
        found: list[LoadedText] = []
        for name in known if step.docs == (ALL,) else step.docs:
            path, lines = parse_fragment(name)
            if path not in known:
                raise InvalidArgument("tasks", f"{step.skill!r} has no document {path!r}")
            found.append(_build_piece(name, known[path] if lines is None else select_lines(known[path], lines)))
        return tuple(found)


def _build_piece(path: str, text: str) -> LoadedText:
    return LoadedText(path, text, 0, 0)


_NO_LIMIT = 10**9
_WORDS = 12


class DisclosureMode(StrEnum):
    """How the texts of skills reach the model."""

    PROGRESSIVE = "progressive"
    BODIES = "bodies"
    EVERYTHING = "bodies and docs"


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What the requests of one task cost, in each way."""

    name: str
    ways: Mapping[DisclosureMode, tuple[Cost, ...]]

    def cost(self, way: DisclosureMode) -> Cost:
        """All requests of the task together."""
        return sum_costs(self.ways[way])


@dataclass(frozen=True, slots=True)
class TokenReport:
    """What was found: the size of the library by layer, and every task in every way."""

    counted: str
    exact: bool
    skills: int
    unread: tuple[str, ...]
    overview: int
    bodies: int
    docs: int
    tasks: tuple[TaskReport, ...]

    def cost(self, way: DisclosureMode) -> Cost:
        """All requests of all tasks together."""
        return sum_costs(task.cost(way) for task in self.tasks)

    def savings(self, way: DisclosureMode) -> float:
        """How much of the tokens of this way progressive disclosure does without: 0.9 is nine tenths."""
        theirs = self.cost(way).total
        return 1 - self.cost(DisclosureMode.PROGRESSIVE).total / theirs if theirs else 0.0


async def token_report(
    catalog: Catalog,
    library: SkillLibrary,
    tasks: Sequence[BenchTask],
    counting: ReportCounter,
    settings: Settings,
    progress: Callable[[str, int, int | None], object] | None = None,
) -> TokenReport:
    """Play every task in every way. `library` has the texts of the catalog's skills.

    Bodies and documents are whole in every way. The list of skills has the usual budget; a skill that is not described
    in it is searched for before it is loaded. Where a text is in the prompt already, the calls that load it are left
    out, so full injection has fewer requests. Raises `InvalidArgument` when a task does not fit the skills.
    """
    count = counting.with_cache()
    options = SessionOptions(count=count, budget=TokenBudget(_NO_LIMIT, _NO_LIMIT, _NO_LIMIT))
    listed = overview(catalog.skills, options.overview_format, options.overview_tokens, count=count)
    searched = _build_search_queries(listed, library.skills)
    found: dict[str, dict[DisclosureMode, tuple[Cost, ...]]] = {task.name: {} for task in tasks}
    # With an executor, which is never used: the tools of the profile `full` are counted in every way.
    async with SkillRuntime(catalog, "local", settings=settings, options=options) as runtime:
        for number, task in enumerate(tasks):
            if progress is not None:
                progress(task.name, number, len(tasks))
            found[task.name][DisclosureMode.PROGRESSIVE] = await _play_progressive(
                runtime, f"s{number}", task.turns, searched
            )
        needed = {
            DisclosureMode.BODIES: await _count_schemas(runtime, count, (RUN, EXEC, *FILES, SELECT)),
            DisclosureMode.EVERYTHING: await _count_schemas(runtime, count, (RUN, EXEC, *FILES)),
        }
    for way in (DisclosureMode.BODIES, DisclosureMode.EVERYTHING):
        docs = way is DisclosureMode.EVERYTHING
        prompt = build_injected_prompt(library.skills, docs=docs)
        for task in tasks:
            talk = InjectedConversation(library.skills, prompt, count, docs=docs)
            await play(talk, task.turns)
            found[task.name][way] = tuple(cost_of(tokens, needed[way]) for tokens in talk.tokens)
    return TokenReport(
        counting.name,
        counting.exact,
        len(library.skills),
        library.unread,
        listed.tokens,
        sum(count(skill.body) for skill in library.skills),
        sum(count(text) for skill in library.skills for text in skill.docs.values()),
        tuple(TaskReport(name, ways) for name, ways in found.items()),
    )


async def _play_progressive(
    runtime: SkillRuntime, session: str, turns: Sequence[BenchTurn], searched: Mapping[str, str]
) -> tuple[Cost, ...]:
    async with runtime.session(session) as opened:
        talk = ProgressiveConversation(opened, searched)
        await play(talk, turns)
    return tuple(cost_of(tokens, 0) for tokens in talk.tokens)


async def _count_schemas(runtime: SkillRuntime, count: TokenCounter, names: Collection[str]) -> int:
    """The tokens of the descriptions of these tools."""
    async with runtime.session("schemas") as session:
        return count(format_tools([tool for tool in session.tools() if tool["function"]["name"] in names]))


def _build_search_queries(listed: Overview, skills: Sequence[SkillContents]) -> dict[str, str]:
    """The skills that the list does not describe, with the words that a model would look for."""
    hidden = {*listed.names_only, *listed.left_out}
    return {skill.name: " ".join(skill.description.split()[:_WORDS]) for skill in skills if skill.name in hidden}
