"""`openskills sessions`: list, show and delete stored conversations."""

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import Column, ask, escape_line, pluralize, say, say_json, say_text, show_table, warn
from openskills.cli.parameters import Json, Text, argument, get_settings, option
from openskills.errors import SkillError

if TYPE_CHECKING:
    from openskills.session.store import Session, SessionInfo, SessionKey


app = typer.Typer(no_args_is_help=True, help="List, show and delete stored conversations.")

Store = Annotated[
    Text,
    option(
        "--store",
        "URL",
        "The session store: sqlite:///FILE, postgresql://..., redis://...",
        show_default="a file in the state directory",
    ),
]
App = Annotated[str, option("--app", "NAME", "The application that the conversations belong to.")]
User = Annotated[Text, option("--user", "NAME", "Their user.", show_default="you")]
COMMAND_LINE = "cli"


def current_user() -> str:
    """The user of the command line."""
    return f"user-{os.getuid()}"


def complete_session(context: typer.Context, incomplete: str) -> list[str]:
    """Shell completion for names of conversations, latest first."""
    from openskills.session.open import open_session_store
    from openskills.sync import run

    given = context.params
    try:
        store = open_session_store(given.get("store"), get_settings(context))
        found = run(store.list(given.get("app_name") or COMMAND_LINE, given.get("user") or current_user()))
    except (SkillError, OSError):
        return []
    return [info.key.session for info in found if info.key.session.startswith(incomplete)]


Name = Annotated[str, argument("SESSION", "The name of a conversation.", autocompletion=complete_session)]


@app.command("list")
def list_sessions(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of conversations.")] = 50,
    store: Store = None,
    user: User = None,
    app_name: App = COMMAND_LINE,
    as_json: Json = False,
) -> None:
    """List conversations, the most recently used first.

    Examples:
      openskills sessions list
      openskills sessions list --app my-app --user u1 --store redis://host/0

    In a pipe each conversation is one line of tab-separated fields: name, number of events, times of the first and the
    last event (UTC), first message of the user.
    """
    from openskills.cli.chat.conversation import list_conversations
    from openskills.sync import run

    found, more = run(list_conversations(store, get_settings(context), app_name, user or current_user(), limit))
    if as_json:
        say_json({"sessions": [_info_json(info, title) for info, title in found], "more": more})
        return
    _show_sessions(found)
    if more:
        warn(f"and {more:,} more; --limit shows them")
    if not found:
        warn("no sessions; `openskills chat` starts one")


@app.command("show")
def show(
    context: typer.Context,
    session: Name,
    events: Annotated[bool, typer.Option("--events", help="Print the stored events, one per line.")] = False,
    store: Store = None,
    user: User = None,
    app_name: App = COMMAND_LINE,
    as_json: Json = False,
) -> None:
    """Print a conversation: its messages, and tool calls with their results.

    Examples:
      openskills sessions show chat-20260131-120000-3f2a
      openskills sessions show chat-20260131-120000-3f2a --events
    """
    from openskills.cli.chat.conversation import format_conversation, read_conversation
    from openskills.session.store import SessionKey
    from openskills.sync import run

    key = SessionKey(app_name, user or current_user(), session)
    found = run(read_conversation(store, get_settings(context), key))
    if events:
        from openskills.session.events import event_to_json

        for event in found.events:
            say_text(event_to_json(event))
    elif as_json:
        say_json(_session_json(found))
    else:
        for line in format_conversation(found.events):
            say(*line)


@app.command("delete")
def delete(
    context: typer.Context,
    sessions: Annotated[list[str], argument("SESSION", "The names of conversations.", autocompletion=complete_session)],
    artifacts: Annotated[bool, typer.Option("--artifacts", help="Also delete their artifacts.")] = False,
    artifact_store: Annotated[
        Text, option("--artifact-store", "URL", "Their artifact store, as for `artifacts --store`.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    store: Store = None,
    user: User = None,
    app_name: App = COMMAND_LINE,
    as_json: Json = False,
) -> None:
    """Delete conversations permanently. `openskills workspaces clean` removes their workspaces.

    Examples:
      openskills sessions delete chat-20260131-120000-3f2a
      openskills sessions delete one two --artifacts --yes

    Exit codes: 0 done, 1 not confirmed or no such conversation, 2 wrong usage.
    """
    from openskills.artifacts.open import open_artifact_store
    from openskills.cli.chat.conversation import delete_conversations
    from openskills.session.store import SessionKey
    from openskills.sync import run

    keys = [SessionKey(app_name, user or current_user(), name) for name in dict.fromkeys(sessions)]
    if not yes:
        names = ", ".join(escape_line(key.session) for key in keys)
        agreed = None if as_json else ask(f"Delete {pluralize(len(keys), 'conversation')} for good ({names})?")
        if agreed is None:
            warn("nothing was deleted; confirm with --yes")
        if not agreed:
            raise typer.Exit(1)
    settings = get_settings(context)
    their_artifacts = open_artifact_store(artifact_store, settings) if artifacts else None
    count = run(delete_conversations(store, settings, keys, artifacts=their_artifacts))
    if as_json:
        say_json({"deleted": [key.session for key in keys], "artifacts": count})
        return
    more = f", and {pluralize(count, 'artifact')}" if artifacts else ""
    say(f"deleted {', '.join(escape_line(key.session) for key in keys)}{more}")


def _show_sessions(found: "Sequence[tuple[SessionInfo, str]]") -> None:
    if not sys.stdout.isatty():
        for info, title in found:
            times = (info.begun.isoformat(), info.updated.isoformat())
            show_table((), [(escape_line(info.key.session), str(info.revision), *times, title)])
        return
    columns = (Column("session", "bold cyan"), Column("events"), Column("last used"), Column("title", wide=True))
    rows: list[tuple[str, ...]] = []
    for info, title in found:
        last_used = info.updated.astimezone().strftime("%Y-%m-%d %H:%M")
        rows.append((escape_line(info.key.session), f"{info.revision:,}", last_used, title))
    show_table(columns, rows)


def _info_json(info: "SessionInfo", title: str) -> dict[str, object]:
    times = {"begun": info.begun.isoformat(), "updated": info.updated.isoformat()}
    return {**_key_json(info.key), "events": info.revision, **times, "title": title}


def _key_json(key: "SessionKey") -> dict[str, object]:
    return {"session": key.session, "user": key.user, "app": key.app}


def _session_json(session: "Session") -> dict[str, object]:
    from openskills.session.events import event_to_json

    events = [json.loads(event_to_json(event)) for event in session.events]
    return {**_key_json(session.key), "revision": session.revision, "state": dict(session.state), "events": events}
