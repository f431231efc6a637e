"""The chat: opening a conversation, and reading messages from the terminal or answering a single one."""

import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from types import FrameType, MappingProxyType
from typing import Any

import typer

from openskills.artifacts.open import open_artifact_store
from openskills.catalog.catalog import Catalog
from openskills.cli.chat.command import ChatOptions
from openskills.cli.chat.commands import ChatExit, complete_word, run_slash_command
from openskills.cli.chat.conversation import (
    AGENT,
    NO_SKILLS,
    ChatSession,
    TokenTracker,
    create_agent,
    create_runner,
    new_session_name,
    open_store,
)
from openskills.cli.chat.input import LineEditor, create_approver, is_isolated, parse_slash_command, parse_words
from openskills.cli.chat.view import ChatView, JsonChatView, TextChatView
from openskills.cli.output import can_ask, escape_line, pluralize, warn
from openskills.cli.sessions import COMMAND_LINE, current_user
from openskills.cli.trust import SecretConsent, ask_on_terminal
from openskills.errors import SkillError
from openskills.executors.open import open_executor
from openskills.paths import to_printable
from openskills.project import SkillGrants
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.settings import Settings
from openskills.sync import run

PROMPT = "> "


def converse(talk: ChatSession) -> None:
    """Read lines until the end of input or `/quit`. Ctrl-C stops a run or clears the line; the chat continues."""
    keyboard = LineEditor(lambda begun: complete_word(talk, begun))
    is_reading = False

    def clear_line(_number: int, _frame: FrameType | None) -> None:
        # Once for each prompt: Ctrl-C may be pressed many times, also while nothing would catch the exception.
        nonlocal is_reading
        if is_reading:
            is_reading = False
            raise KeyboardInterrupt

    try:
        line: str | None = ""
        while line is not None:
            _handle_line(talk, line)
            _handle_interrupts(clear_line)
            try:
                is_reading = True
                line = keyboard.read_line(PROMPT)
                is_reading = False
            except KeyboardInterrupt:
                warn()
                line = ""
    except ChatExit:
        return
    finally:
        _handle_interrupts(signal.default_int_handler)


def _handle_interrupts(handler: Callable[[int, FrameType | None], Any]) -> None:
    """Set what Ctrl-C does, unless it is ignored, as for programs in the background."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


def _handle_line(talk: ChatSession, line: str) -> None:
    if not line.strip():
        return
    try:
        _handle_interrupts(signal.default_int_handler)
        run(_run_line(talk, line))
    except KeyboardInterrupt:
        talk.view.note()
        talk.view.note("stopped; the conversation continues")
    except SkillError as error:
        talk.view.note(("error", "bold red"), f": {to_printable(error.message)}")
    sys.stdout.flush()


async def _run_line(talk: ChatSession, line: str) -> bool:
    command = parse_slash_command(line)
    return await (talk.send(parse_words(line)) if command is None else run_slash_command(talk, command))


RULE = "rule"


@asynccontextmanager
async def open_chat(
    options: ChatOptions,
    catalog: Catalog,
    settings: Settings,
    grants: Mapping[str, SkillGrants] = MappingProxyType({}),
    install: str = "never",
) -> AsyncGenerator[ChatSession]:
    """Open a new conversation, or the one named in `options`. Raises `SkillError` when something is unavailable."""
    view: ChatView = JsonChatView() if options.as_json else TextChatView(AGENT, verbose=options.verbose)
    tokens = TokenTracker()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(options.store, settings))
        approve = create_approver(view, interactive=can_ask())
        asks = options.ask
        name = options.executor or settings.executor
        executor = None if name == "none" else open_executor(name, settings)
        if executor is not None:
            stack.push_async_callback(executor.close)
            if not await is_isolated(name, executor, settings):
                view.note(
                    ("warning", "yellow"), ": commands of skills are not isolated: they have all of your permissions"
                )
                asks = asks or not options.yes
        session_options = SessionOptions(
            ask=approve if asks else None,
            force_save=True,
            before_model=tokens.record_request,
            install=install,
            ask_install=approve,
            report_progress=lambda line: view.note(("packages", "cyan"), f": {escape_line(line)}"),
            grants=grants,
            secrets={name: settings.environment[name] for entry in grants.values() for name in entry.secrets},
            ask_secrets=SecretConsent(settings, None if options.as_json else ask_on_terminal),
        )
        artifacts = open_artifact_store(options.artifact_store, settings)
        runtime = SkillRuntime(
            catalog, executor, store=store, artifacts=artifacts, settings=settings, options=session_options
        )
        await stack.enter_async_context(runtime)
        model = options.model or settings.model or RULE
        agent = create_agent(model, runtime)
        sessions = await stack.enter_async_context(AsyncExitStack())
        session = await sessions.enter_async_context(
            runtime.session(options.session or new_session_name(), agent=AGENT, user=current_user(), app=COMMAND_LINE)
        )
        runner = create_runner(COMMAND_LINE, agent)
        talk = ChatSession(runner, runtime, session, view, tokens, agent=agent, sessions=sessions)
        stack.push_async_callback(talk.close_model)
        await _greet(talk, is_chosen=model != RULE or options.model == RULE)
        yield talk


async def _greet(talk: ChatSession, *, is_chosen: bool) -> None:
    if not is_chosen:
        hint = "choose one with --model NAME or OPENSKILL_MODEL, such as openai/gpt-5 or ollama/qwen3"
        talk.view.note(("note", "yellow"), f": no language model is configured, so fixed rules answer; {hint}")
    events = len(await talk.session.events())
    name = escape_line(talk.session.scope.session)
    before = f", {pluralize(events, 'event')} so far" if events else ""
    skills = pluralize(len(talk.runtime.catalog.skills), "skill")
    talk.view.note(("session", "bold"), f" {name}{before}; {skills}")
    if not talk.runtime.catalog.skills:
        talk.view.note(("note", "yellow"), f": {NO_SKILLS}")


def run_chat(conversation: AbstractAsyncContextManager[ChatSession], message: str | None, paths: list[str]) -> None:
    """Chat interactively, or answer `message` or run it as a slash command; without an answer exit with 1.

    Runs on the loop of `sync.run`, which can be interrupted. SIGTERM and SIGHUP close everything and exit.
    """

    def exit_on_signal(number: int, _frame: FrameType | None) -> None:
        raise typer.Exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, exit_on_signal)
    talk = run(conversation.__aenter__())
    try:
        for path in paths:
            talk.attach(path)
        if message is None:
            warn("/help shows the commands; Ctrl-D ends the chat")
            converse(talk)
            warn(f"continue with: openskills chat --session {shlex.quote(talk.session.scope.session)}")
        else:
            with suppress(ChatExit):
                if not run(_run_line(talk, message)):
                    raise typer.Exit(1)
    finally:
        run(conversation.__aexit__(None, None, None))
