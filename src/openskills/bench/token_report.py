"""Progressive disclosure against full injection, over the same tasks and with the same counter."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from openskills.bench.cost import Cost, cost_of, together
from openskills.bench.counting import Counting
from openskills.bench.injected import InjectedTalk, injected
from openskills.bench.library import Contents, Library
from openskills.bench.talk import SessionTalk, play
from openskills.bench.tasks import Task, Turn
from openskills.catalog.catalog import Catalog
from openskills.prompt.overview import Overview, overview
from openskills.prompt.pieces import Budget
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.tokens import TokenCounter

_NO_LIMIT = 10**9
_WORDS = 12


class Way(StrEnum):
    """How the texts of skills reach the model."""

    PROGRESSIVE = "progressive"
    BODIES = "bodies"
    EVERYTHING = "bodies and docs"


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What the requests of one task cost, in each way."""

    name: str
    ways: Mapping[Way, tuple[Cost, ...]]

    def cost(self, way: Way) -> Cost:
        """All requests of the task together."""
        return together(self.ways[way])


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

    def cost(self, way: Way) -> Cost:
        """All requests of all tasks together."""
        return together(task.cost(way) for task in self.tasks)

    def saved(self, way: Way) -> float:
        """How much of the tokens of this way progressive disclosure does without: 0.9 is nine tenths."""
        theirs = self.cost(way).total
        return 1 - self.cost(Way.PROGRESSIVE).total / theirs if theirs else 0.0


async def token_report(
    catalog: Catalog,
    library: Library,
    tasks: Sequence[Task],
    counting: Counting,
    settings: Settings,
    progress: Callable[[str, int, int | None], object] | None = None,
) -> TokenReport:
    """Play every task in every way. `library` has the texts of the catalog's skills.

    Bodies and documents are whole in every way. The list of skills has the usual budget; a skill that is not described
    in it is searched for before it is loaded. Where a text is in the prompt already, the calls that load it are left
    out, so full injection has fewer requests. Raises `InvalidArgument` when a task does not fit the skills.
    """
    count = counting.remembering()
    options = SessionOptions(count=count, budget=Budget(_NO_LIMIT, _NO_LIMIT, _NO_LIMIT))
    listed = overview(catalog.skills, options.overview_format, options.overview_tokens, count=count)
    searched = _searched(listed, library.skills)
    found: dict[str, dict[Way, tuple[Cost, ...]]] = {task.name: {} for task in tasks}
    async with SkillRuntime(catalog, settings=settings, options=options) as runtime:
        for number, task in enumerate(tasks):
            if progress is not None:
                progress(task.name, number, len(tasks))
            found[task.name][Way.PROGRESSIVE] = await _progressive(runtime, f"s{number}", task.turns, searched, count)
        reading = await _schemas(runtime, count, "skill_select_docs")
    for way in (Way.BODIES, Way.EVERYTHING):
        docs = way is Way.EVERYTHING
        prompt = injected(library.skills, docs=docs)
        for task in tasks:
            talk = InjectedTalk(library.skills, prompt, count, docs=docs)
            await play(talk, task.turns)
            found[task.name][way] = tuple(cost_of(tokens, 0 if docs else reading) for tokens in talk.tokens)
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


async def _progressive(
    runtime: SkillRuntime, session: str, turns: Sequence[Turn], searched: Mapping[str, str], count: TokenCounter
) -> tuple[Cost, ...]:
    async with runtime.session(session) as opened:
        talk = SessionTalk(opened, searched)
        tools = count(json.dumps(opened.tools()))
        await play(talk, turns)
    return tuple(cost_of(tokens, tools) for tokens in talk.tokens)


async def _schemas(runtime: SkillRuntime, count: TokenCounter, *names: str) -> int:
    """The tokens of the descriptions of these tools."""
    async with runtime.session("schemas") as session:
        return count(json.dumps([tool for tool in session.tools() if tool["function"]["name"] in names]))


def _searched(listed: Overview, skills: Sequence[Contents]) -> dict[str, str]:
    """The skills that the list does not describe, with the words that a model would look for."""
    hidden = {*listed.names_only, *listed.left_out}
    return {skill.name: " ".join(skill.description.split()[:_WORDS]) for skill in skills if skill.name in hidden}
