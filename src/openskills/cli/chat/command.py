"""Chat.

`openskills chat`: a conversation with an agent that has skills.

The two ways to chat: line by line at a terminal, or one message and its answer.

Everything that a conversation at the command line needs, opened once and closed in the end.

From the options of `openskills chat` to a conversation, and its end.
"""

import secrets
import shlex
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Annotated

import typer

from openskills.agent.agent import Agent
from openskills.agent.runner import Runner
from openskills.catalog.catalog import Catalog
from openskills.cli.chat.commands import ChatExit, complete_word, run_slash_command
from openskills.cli.chat.conversation import (
    NO_SKILLS,
    ChatSession,
    TokenTracker,
    current_user,
    open_artifacts,
    open_store,
)
from openskills.cli.chat.input import LineEditor, create_approver, is_isolated, parse_slash_command, parse_words
from openskills.cli.chat.view import ChatView, JsonChatView, TextChatView
from openskills.cli.output import escape_line, pluralize, warn
from openskills.cli.run import Many
from openskills.cli.sessions import COMMAND_LINE
from openskills.cli.skills import Trust, get_settings, open_catalog, report_sources
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor
from openskills.paths import to_printable
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.sync import run

MAX_PIPED_BYTES = 1024 * 1024


def chat(
    context: typer.Context,
    message: Annotated[
        Many, typer.Argument(metavar="MESSAGE", help="What to ask; the answer is printed, and that is all.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="NAME", help="Go on with a conversation, or begin it.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="openai/NAME, anthropic/NAME, or rule, which needs no network."),
    ] = None,
    skills: Annotated[Many, typer.Option("--skills", metavar="PATH", help="Where to look for skills.")] = None,
    attach: Annotated[
        Many, typer.Option("--attach", metavar="FILE", help="A file to send with the first message; - for stdin.")
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option("--open_executor", metavar="NAME", help="auto, sandbox, container, landlock, local, or none."),
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="Where conversations are kept.", show_default=False)
    ] = None,
    artifact_store: Annotated[
        str | None,
        typer.Option("--artifact-store", metavar="URL", help="Where files are kept.", show_default=False),
    ] = None,
    install: Annotated[
        Many, typer.Option("--install", metavar="HOST", help="Install what skills declare, from this host only.")
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Be asked before every command.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Let commands run that are not isolated.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show arguments and results of tools in full.")
    ] = False,
    trust: Trust = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print events as JSON, one on a line.")] = False,
) -> None:
    """Talk with an agent that finds, loads and runs skills.

    Without MESSAGE it reads from the terminal; /help there says more. What is piped in is a message. The conversation
    is kept, and its name is printed: --session goes on with it.

    With --install, packages that a skill declares are installed before its first command: from these hosts, which
    nothing else of the skill can reach.

    Commands run isolated, without a question. Where they are not isolated you are asked before each; where nobody can
    be asked they are denied. --ask asks always, --yes never.

    Examples:
      openskills chat
      openskills chat "What is in it?" --attach sales.csv --model openai/gpt-5
      openskills chat --session chat-20260131-120000-3f2a
      git log | openskills chat "Summarise these commits" --attach -

    Exit codes: 0 done, 1 there was no answer, 2 wrong usage.
    """

    settings = get_settings(context)
    if ask and yes:
        raise InvalidArgument("--yes", "cannot be combined with --ask; choose one")
    words = _read_message(message, attach or [])
    if words is None and as_json:
        raise InvalidArgument("--json", "is for programs; give a message, or pipe one in")
    wishes = ChatOptions(
        session=session,
        model=model,
        executor=executor or settings.executor,
        store=store,
        artifact_store=artifact_store,
        install=tuple(install) if install else None,
        ask=ask,
        yes=yes,
        # Whoever is asked must see the question, too.
        interactive=sys.stdin.isatty() and sys.stderr.isatty(),
        verbose=verbose,
        as_json=as_json,
    )
    catalog = open_catalog(skills or (), settings, trusted=trust, asking=not as_json)
    report_sources(catalog.snapshot)
    run_chat(catalog, wishes, settings, words, attach or [])


def _read_message(message: Many, attach: list[str]) -> str | None:
    """The one message that there is, None when a person is going to type."""
    if message:
        text = " ".join(message)
    elif sys.stdin.isatty():
        return None
    elif "-" in attach:
        raise InvalidArgument("--attach", "- is what is piped in, and so is the message; give the message as MESSAGE")
    else:
        text = sys.stdin.buffer.read(MAX_PIPED_BYTES + 1).decode("utf-8", "replace")
    if len(text) > MAX_PIPED_BYTES:
        raise InvalidArgument(
            "MESSAGE", f"has more than {MAX_PIPED_BYTES:,} characters; send it as a file with --attach -"
        )
    if not text.strip():
        raise InvalidArgument("MESSAGE", "is empty; write what you want to know")
    return text.strip()


PROMPT = "> "


def converse(talk: ChatSession) -> None:
    """Read lines until the person ends it. Ctrl-C stops a run, or clears what was typed; nothing else ends the chat."""
    keyboard = LineEditor(lambda begun: complete_word(talk, begun))
    interrupted = False
    while True:
        try:
            # In here, because the key may be pressed again meanwhile.
            if interrupted:
                warn()
            interrupted = False
            line = keyboard.read_line(PROMPT)
        except KeyboardInterrupt:
            interrupted = True
            continue
        if line is None:
            return
        try:
            _handle_line(talk, line)
        except ChatExit:
            return


def answer_once(talk: ChatSession, message: str) -> None:
    """Answer one message, or do what it orders. Exits with 1 when there is no answer."""
    try:
        if not run(_run_line(talk, message)):
            raise typer.Exit(1)
    except ChatExit:
        return


def exit_on_signals() -> None:
    """Asked to end from outside, or with its terminal gone, it ends what it has started, and then itself."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit_on_signal)


def _handle_line(talk: ChatSession, line: str) -> None:
    """Do what a line says; what goes wrong is told, and is over."""
    if not line.strip():
        return
    try:
        run(_run_line(talk, line))
    except KeyboardInterrupt:
        talk.view.note()
        talk.view.note("stopped; the conversation goes on")
    except SkillError as error:
        talk.view.note(("error", "bold red"), f": {to_printable(error.message)}")
    sys.stdout.flush()


async def _run_line(talk: ChatSession, line: str) -> bool:
    order = parse_slash_command(line)
    return await (talk.send(parse_words(line)) if order is None else run_slash_command(talk, order))


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    del frame
    raise typer.Exit(128 + number)


AGENT = "assistant"
RULE = "rule"
INSTRUCTIONS = (
    "You talk with a person at a terminal. Answer in the person's language, in plain text without much markup. When a "
    "skill fits the request, use it instead of guessing, and say which files you made."
)


@dataclass(frozen=True, slots=True)
class ChatOptions:
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


def new_session_name() -> str:
    """A name that no other conversation has, and that says when this one began."""
    return f"chat-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


@asynccontextmanager
async def open_chat(wishes: ChatOptions, catalog: Catalog, settings: Settings) -> AsyncGenerator[ChatSession]:
    """A conversation: a new one, or the one of that name. Raises `SkillError` for what cannot be had."""
    view: ChatView = JsonChatView() if wishes.as_json else TextChatView(AGENT, verbose=wishes.verbose)
    tokens = TokenTracker()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(wishes.store, settings))
        place = None if wishes.executor == "none" else open_executor(wishes.executor, settings)
        if place is not None:
            stack.push_async_callback(place.close)
        options = await _build_options(wishes, place, view, tokens, settings)
        kept = open_artifacts(wishes.artifact_store, settings)
        runtime = SkillRuntime(catalog, place, store=store, artifacts=kept, settings=settings, options=options)
        await stack.enter_async_context(runtime)
        model = wishes.model or settings.model or RULE
        agent = Agent(AGENT, model, runtime, instructions=INSTRUCTIONS)
        if not isinstance(agent.model, str):
            stack.push_async_callback(agent.model.close)
        name = wishes.session or new_session_name()
        session = await stack.enter_async_context(
            runtime.session(name, agent=AGENT, user=current_user(), app=COMMAND_LINE)
        )
        talk = ChatSession(Runner(COMMAND_LINE, agent), runtime, session, view, tokens)
        await _greet(talk, chosen=model != RULE or wishes.model == RULE)
        yield talk


async def _build_options(
    wishes: ChatOptions, place: Executor | None, view: ChatView, tokens: TokenTracker, settings: Settings
) -> SessionOptions:
    asks = wishes.ask
    if place is not None and not await is_isolated(wishes.executor, place, settings):
        view.note(("warning", "yellow"), ": commands of skills are not isolated: they can do whatever you can")
        asks = asks or not wishes.yes
    ask = create_approver(view, interactive=wishes.interactive) if asks else None
    return SessionOptions(ask=ask, force_save=True, before_model=tokens.record_request, install=wishes.install)


async def _greet(talk: ChatSession, *, chosen: bool) -> None:
    if not chosen:
        talk.view.note(
            ("note", "yellow"),
            ": no model is chosen, so fixed rules answer, which are no language model; choose one with --model NAME or"
            " OPENSKILL_MODEL, such as openai/gpt-5 or anthropic/claude-opus-5-5",
        )
    said = len(await talk.session.events())
    name = escape_line(talk.session.scope.session)
    before = f", {pluralize(said, 'event')} so far" if said else ""
    skills = pluralize(len(talk.runtime.catalog.skills), "skill")
    talk.view.note(("session", "bold"), f" {name}{before}; {skills}")
    if not talk.runtime.catalog.skills:
        talk.view.note(("note", "yellow"), f": {NO_SKILLS}")


def run_chat(catalog: Catalog, wishes: ChatOptions, settings: Settings, message: str | None, paths: list[str]) -> None:
    """Talk until the end; with a message, only about that. Runs on the loop of `sync.run`, which can be interrupted."""
    exit_on_signals()
    conversation = open_chat(wishes, catalog, settings)
    talk = run(conversation.__aenter__())
    try:
        for path in paths:
            talk.attach(path)
        if message is None:
            warn("/help shows what you can do; Ctrl-D ends the chat")
            converse(talk)
            warn(f"openskills chat --session {shlex.quote(talk.session.scope.session)} goes on with it")
        else:
            answer_once(talk, message)
    finally:
        run(conversation.__aexit__(None, None, None))
