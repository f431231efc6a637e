"""`openskills sessions`: the conversations that are kept."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import (
    Column,
    QuickCommand,
    QuickGroup,
    escape_line,
    pluralize,
    say,
    say_json,
    say_text,
    show_table,
    warn,
)
from openskills.cli.skills import Json, get_settings

if TYPE_CHECKING:
    from datetime import datetime

    from openskills.session.store import Session, SessionInfo, SessionKey
    from openskills.settings import Settings


app = typer.Typer(cls=QuickGroup, no_args_is_help=True, help="See and remove the conversations that are kept.")

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where conversations are kept: sqlite:///FILE, postgresql://..., redis://...",
        show_default="a file in the state directory",
    ),
]
App = Annotated[str, typer.Option("--app", metavar="NAME", help="The application whose conversations are meant.")]
User = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="The user whose they are.", show_default="you")
]
Name = Annotated[str, typer.Argument(metavar="SESSION", help="The name of a conversation.")]
COMMAND_LINE = "cli"


@app.command("list", cls=QuickCommand)
def list_sessions(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 50,
    store: Store = None,
    user: User = None,
    app_name: App = COMMAND_LINE,
    as_json: Json = False,
) -> None:
    """List conversations, the one that was last used first.

    Examples:
      openskills sessions list
      openskills sessions list --app my-app --user u1 --store postgresql://host/database

    In a pipe each conversation is one line: name, number of events, times of the first and the last event (UTC), and
    what the user said first, with tabs between.
    """
    from openskills.cli.chat.conversation import current_user as me
    from openskills.cli.chat.conversation import list_conversations as listed
    from openskills.sync import run

    found, more = run(listed(store, get_settings(context), app_name, user or me(), limit))
    if as_json:
        say_json({"sessions": [{**_info_json(info), "title": title} for info, title in found], "more": more})
        return
    _show_sessions(found)
    if more:
        warn(f"and {more:,} more; --limit shows them")
    if not found:
        warn("there are no sessions; `openskills chat` begins one")


@app.command("show", cls=QuickCommand)
def show(
    context: typer.Context,
    session: Name,
    events: Annotated[
        bool, typer.Option("--events", help="Print the log as it is stored, an event on a line.")
    ] = False,
    store: Store = None,
    user: User = None,
    app_name: App = COMMAND_LINE,
    as_json: Json = False,
) -> None:
    """Print a conversation: what was said, and every tool call with what came of it.

    Examples:
      openskills sessions show chat-20260131-120000-3f2a
      openskills sessions show chat-20260131-120000-3f2a --events
    """
    found = _read_session(session, store, user, app_name, get_settings(context))
    if events:
        from openskills.session.events import event_to_json as to_json

        for event in found.events:
            say_text(to_json(event))
    elif as_json:
        say_json(_session_json(found))
    else:
        from openskills.cli.chat.conversation import format_conversation as story

        for line in story(found.events):
            say(*line)


@app.command("delete", cls=QuickCommand)
def delete(
    context: typer.Context,
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION", help="The names of conversations.")],
    artifacts: Annotated[
        bool, typer.Option("--artifacts", help="Also delete the artifacts that they have made.")
    ] = False,
    artifact_store: Annotated[
        str | None,
        typer.Option("--artifact-store", metavar="URL", help="Where these are kept; as for `artifacts --store`."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without being asked.")] = False,
    store: Store = None,
    user: User = None,
    app_name: App = COMMAND_LINE,
    as_json: Json = False,
) -> None:
    """Delete conversations for good. Their workspaces stay; `openskills workspaces clean` removes those.

    Examples:
      openskills sessions delete chat-20260131-120000-3f2a
      openskills sessions delete one two --artifacts --yes

    Exit codes: 0 done, 1 nobody agreed or there is no such conversation, 2 wrong usage.
    """
    from openskills.cli.chat.conversation import current_user as me
    from openskills.cli.chat.conversation import delete_conversations as deleted
    from openskills.cli.chat.conversation import open_artifacts as artifacts_at
    from openskills.session.store import SessionKey
    from openskills.sync import run

    keys = [SessionKey(app_name, user or me(), name) for name in dict.fromkeys(sessions)]
    if not yes and not _confirm(keys, as_json):
        raise typer.Exit(1)
    settings = get_settings(context)
    kept = artifacts_at(artifact_store, settings) if artifacts else None
    done = run(deleted(store, settings, keys, artifacts=kept))
    if as_json:
        say_json({"deleted": [key.session for key in keys], "artifacts": done})
        return
    more = f", and {pluralize(done, 'artifact')}" if artifacts else ""
    say(f"deleted {', '.join(escape_line(key.session) for key in keys)}{more}")


def _read_session(name: str, store: str | None, user: str | None, app_name: str, settings: "Settings") -> "Session":
    from openskills.cli.chat.conversation import current_user as me
    from openskills.cli.chat.conversation import read_conversation as read
    from openskills.session.store import SessionKey
    from openskills.sync import run

    return run(read(store, settings, SessionKey(app_name, user or me(), name)))


def _confirm(keys: "Sequence[SessionKey]", as_json: bool) -> bool:
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        warn("nobody was asked, so nothing was deleted; agree with --yes")
        return False
    names = ", ".join(escape_line(key.session) for key in keys)
    sys.stderr.write(f"Delete {pluralize(len(keys), 'conversation')} for good ({names})? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _show_sessions(found: "Sequence[tuple[SessionInfo, str]]") -> None:
    if not sys.stdout.isatty():
        rows = [
            (escape_line(info.key.session), str(info.revision), info.begun.isoformat(), info.updated.isoformat(), title)
            for info, title in found
        ]
        show_table((), rows)
        return
    columns = (Column("session", "bold cyan"), Column("events"), Column("last used"), Column("began with", wide=True))
    rows = [
        (escape_line(info.key.session), f"{info.revision:,}", _format_time(info.updated), title)
        for info, title in found
    ]
    show_table(columns, rows)


def _format_time(at: "datetime") -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def _info_json(info: "SessionInfo") -> dict[str, object]:
    return {
        **_key_json(info.key),
        "events": info.revision,
        "begun": info.begun.isoformat(),
        "updated": info.updated.isoformat(),
    }


def _key_json(key: "SessionKey") -> dict[str, object]:
    return {"session": key.session, "user": key.user, "app": key.app}


def _session_json(session: "Session") -> dict[str, object]:
    import json

    from openskills.session.events import event_to_json as to_json

    events = [json.loads(to_json(event)) for event in session.events]
    return {**_key_json(session.key), "revision": session.revision, "state": dict(session.state), "events": events}
