"""`openskills chat`: a conversation with an agent that has skills."""

import sys
from typing import Annotated

import typer

from openskills.cli.listing import Trust, report_places
from openskills.cli.run import Many
from openskills.cli.skills import open_catalog, settings_of
from openskills.errors import InvalidArgument

MOST_PIPED = 1024 * 1024


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
        typer.Option("--executor", metavar="NAME", help="auto, sandbox, container, landlock, local, or none."),
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
    from openskills.cli.chat_opening import ChatWishes
    from openskills.cli.chat_program import chat_with

    settings = settings_of(context)
    if ask and yes:
        raise InvalidArgument("--yes", "cannot be combined with --ask; choose one")
    words = _words(message, attach or [])
    if words is None and as_json:
        raise InvalidArgument("--json", "is for programs; give a message, or pipe one in")
    wishes = ChatWishes(
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
    report_places(catalog.snapshot)
    chat_with(catalog, wishes, settings, words, attach or [])


def _words(message: Many, attach: list[str]) -> str | None:
    """The one message that there is, None when a person is going to type."""
    if message:
        text = " ".join(message)
    elif sys.stdin.isatty():
        return None
    elif "-" in attach:
        raise InvalidArgument("--attach", "- is what is piped in, and so is the message; give the message as MESSAGE")
    else:
        text = sys.stdin.buffer.read(MOST_PIPED + 1).decode("utf-8", "replace")
    if len(text) > MOST_PIPED:
        raise InvalidArgument("MESSAGE", f"has more than {MOST_PIPED:,} characters; send it as a file with --attach -")
    if not text.strip():
        raise InvalidArgument("MESSAGE", "is empty; write what you want to know")
    return text.strip()
