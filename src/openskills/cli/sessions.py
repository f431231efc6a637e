"""`openskills sessions`: the conversations that are kept."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.listing import Json
from openskills.cli.output import counted, plain, say, say_json, say_text, warn
from openskills.cli.quick import QuickCommand, QuickGroup
from openskills.cli.skills import settings_of
from openskills.cli.table import Column, show_table

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
    from openskills.cli.chat_store import listed, me
    from openskills.sync import run

    found, more = run(listed(store, settings_of(context), app_name, user or me(), limit))
    if as_json:
        say_json({"sessions": [{**_info(info), "title": title} for info, title in found], "more": more})
        return
    _show(found)
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
    found = _session(session, store, user, app_name, settings_of(context))
    if events:
        from openskills.session.events import to_json

        for event in found.events:
            say_text(to_json(event))
    elif as_json:
        say_json(_whole(found))
    else:
        from openskills.cli.chat_story import story

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
    from openskills.cli.chat_store import artifacts_at, deleted, me
    from openskills.session.store import SessionKey
    from openskills.sync import run

    keys = [SessionKey(app_name, user or me(), name) for name in dict.fromkeys(sessions)]
    if not yes and not _agreed(keys, as_json):
        raise typer.Exit(1)
    settings = settings_of(context)
    kept = artifacts_at(artifact_store, settings) if artifacts else None
    done = run(deleted(store, settings, keys, artifacts=kept))
    if as_json:
        say_json({"deleted": [key.session for key in keys], "artifacts": done})
        return
    more = f", and {counted(done, 'artifact')}" if artifacts else ""
    say(f"deleted {', '.join(plain(key.session) for key in keys)}{more}")


def _session(name: str, store: str | None, user: str | None, app_name: str, settings: "Settings") -> "Session":
    from openskills.cli.chat_store import me, read
    from openskills.session.store import SessionKey
    from openskills.sync import run

    return run(read(store, settings, SessionKey(app_name, user or me(), name)))


def _agreed(keys: "Sequence[SessionKey]", as_json: bool) -> bool:
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        warn("nobody was asked, so nothing was deleted; agree with --yes")
        return False
    names = ", ".join(plain(key.session) for key in keys)
    sys.stderr.write(f"Delete {counted(len(keys), 'conversation')} for good ({names})? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _show(found: "Sequence[tuple[SessionInfo, str]]") -> None:
    if not sys.stdout.isatty():
        rows = [
            (plain(info.key.session), str(info.revision), info.begun.isoformat(), info.updated.isoformat(), title)
            for info, title in found
        ]
        show_table((), rows)
        return
    columns = (Column("session", "bold cyan"), Column("events"), Column("last used"), Column("began with", wide=True))
    rows = [(plain(info.key.session), f"{info.revision:,}", _time(info.updated), title) for info, title in found]
    show_table(columns, rows)


def _time(at: "datetime") -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def _info(info: "SessionInfo") -> dict[str, object]:
    return {
        **_key(info.key),
        "events": info.revision,
        "begun": info.begun.isoformat(),
        "updated": info.updated.isoformat(),
    }


def _key(key: "SessionKey") -> dict[str, object]:
    return {"session": key.session, "user": key.user, "app": key.app}


def _whole(session: "Session") -> dict[str, object]:
    import json

    from openskills.session.events import to_json

    events = [json.loads(to_json(event)) for event in session.events]
    return {**_key(session.key), "revision": session.revision, "state": dict(session.state), "events": events}
