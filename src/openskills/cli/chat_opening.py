"""Everything that a conversation at the command line needs, opened once and closed in the end."""

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from openskills.agent.agent import Agent
from openskills.agent.runner import Runner
from openskills.catalog.catalog import Catalog
from openskills.cli.chat_ask import asking, is_isolated
from openskills.cli.chat_store import artifacts_at, me, store_at
from openskills.cli.chat_talk import NO_SKILLS, Talk
from openskills.cli.chat_tokens import Tokens
from openskills.cli.chat_view import JsonView, TextView, View
from openskills.cli.output import counted, plain
from openskills.cli.sessions import COMMAND_LINE
from openskills.executors.choose import executor
from openskills.executors.protocol import Executor
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.settings import Settings

AGENT = "assistant"
RULE = "rule"
INSTRUCTIONS = (
    "You talk with a person at a terminal. Answer in the person's language, in plain text without much markup. When a "
    "skill fits the request, use it instead of guessing, and say which files you made."
)


@dataclass(frozen=True, slots=True)
class ChatWishes:
    """What was asked for beside the message."""

    session: str | None = None
    model: str | None = None
    executor: str = "auto"
    store: str | None = None
    artifact_store: str | None = None
    install: tuple[str, ...] | None = None
    ask: bool = False
    yes: bool = False
    interactive: bool = False
    verbose: bool = False
    as_json: bool = False


def new_name() -> str:
    """A name that no other conversation has, and that says when this one began."""
    return f"chat-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


@asynccontextmanager
async def opened(wishes: ChatWishes, catalog: Catalog, settings: Settings) -> AsyncGenerator[Talk]:
    """A conversation: a new one, or the one of that name. Raises `SkillError` for what cannot be had."""
    view: View = JsonView() if wishes.as_json else TextView(AGENT, verbose=wishes.verbose)
    tokens = Tokens()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(store_at(wishes.store, settings))
        place = None if wishes.executor == "none" else executor(wishes.executor, settings)
        if place is not None:
            stack.push_async_callback(place.close)
        options = await _options(wishes, place, view, tokens, settings)
        kept = artifacts_at(wishes.artifact_store, settings)
        runtime = SkillRuntime(catalog, place, store=store, artifacts=kept, settings=settings, options=options)
        await stack.enter_async_context(runtime)
        model = wishes.model or settings.model or RULE
        agent = Agent(AGENT, model, runtime, instructions=INSTRUCTIONS)
        if not isinstance(agent.model, str):
            stack.push_async_callback(agent.model.close)
        name = wishes.session or new_name()
        session = await stack.enter_async_context(runtime.session(name, agent=AGENT, user=me(), app=COMMAND_LINE))
        talk = Talk(Runner(COMMAND_LINE, agent), runtime, session, view, tokens)
        await _greet(talk, chosen=model != RULE or wishes.model == RULE)
        yield talk


async def _options(
    wishes: ChatWishes, place: Executor | None, view: View, tokens: Tokens, settings: Settings
) -> SessionOptions:
    asks = wishes.ask
    if place is not None and not await is_isolated(wishes.executor, place, settings):
        view.note(("warning", "yellow"), ": commands of skills are not isolated: they can do whatever you can")
        asks = asks or not wishes.yes
    ask = asking(view, interactive=wishes.interactive) if asks else None
    return SessionOptions(ask=ask, force_save=True, before_model=tokens.seen, install=wishes.install)


async def _greet(talk: Talk, *, chosen: bool) -> None:
    if not chosen:
        talk.view.note(
            ("note", "yellow"),
            ": no model is chosen, so fixed rules answer, which are no language model; choose one with --model NAME or"
            " OPENSKILL_MODEL, such as openai/gpt-5 or anthropic/claude-opus-5-5",
        )
    said = len(await talk.session.events())
    name = plain(talk.session.scope.session)
    before = f", {counted(said, 'event')} so far" if said else ""
    skills = counted(len(talk.runtime.catalog.skills), "skill")
    talk.view.note(("session", "bold"), f" {name}{before}; {skills}")
    if not talk.runtime.catalog.skills:
        talk.view.note(("note", "yellow"), f": {NO_SKILLS}")
