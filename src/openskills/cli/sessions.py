"""`openskills sessions`: list, show and delete stored conversations, and show the requests of their steps."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import Column, Row, ask, escape_line, pluralize, say, say_json, say_text, show_table, warn
from openskills.cli.parameters import Json, Text, Yes, argument, get_settings, option
from openskills.errors import InvalidArgument, SkillError
from openskills.settings import Settings
from openskills.sync import run

if TYPE_CHECKING:
    from openskills.artifacts.store import Scope
    from openskills.prompt.usage import RecordedRequest
    from openskills.session.store import SessionKey


app = typer.Typer(no_args_is_help=True, help="List, show and delete stored conversations, and show their requests.")

Store = Annotated[
    Text,
    option(
        "URL",
        "The session store: sqlite:///FILE, postgresql://..., redis://...",
        show_default="a file in the state directory",
    ),
]
COMMAND_LINE = "cli"


def current_user() -> str:
    """The user of the command line."""
    return f"user-{os.getuid()}"


@dataclass(frozen=True, slots=True)
class OwnerOptions:
    """Whose conversations a command is about."""

    user: Annotated[Text, option("NAME", "Their user.", show_default="you")] = None
    app_name: Annotated[str, option("NAME", "The application that the conversations belong to.", names="--app")] = (
        COMMAND_LINE
    )

    def key(self, session: str) -> "SessionKey":
        """The key of a conversation."""
        from openskills.session.store import SessionKey

        return SessionKey(self.app_name, self.user or current_user(), session)

    def scope(self, session: str) -> "Scope":
        """The owner of the artifacts of a conversation."""
        from openskills.artifacts.store import Scope

        return Scope(self.app_name, self.user or current_user(), session)


def complete_session(context: typer.Context, incomplete: str) -> list[str]:
    """Shell completion for names of conversations, latest first."""
    from openskills.session.open import open_session_store

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
    settings: Settings,
    owner: OwnerOptions,
    store: Store = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of conversations.")] = 50,
    search: Annotated[str, option("TEXT", "Only those with this text in their name or title.")] = "",
    as_json: Json = False,
) -> None:
    """List conversations, the most recently used first.

    Examples:
      openskills sessions list
      openskills sessions list --search sales
      openskills sessions list --app my-app --user u1 --store redis://host/0

    In a pipe each conversation is one line of tab-separated fields: name, number of events, times of the first and the
    last event (UTC), first message of the user.
    """
    from openskills.cli.chat.conversation import list_conversations

    user = owner.user or current_user()
    found, more = run(list_conversations(store, settings, owner.app_name, user, limit, search))
    rows: list[Row] = []
    entries: list[dict[str, object]] = []
    for info, title in found:
        rows.append((info.key.session, info.revision, (None, info.begun), info.updated, title))
        times = {"begun": info.begun.isoformat(), "updated": info.updated.isoformat()}
        entries.append({**_key_json(info.key), "events": info.revision, **times, "title": title})
    columns = (Column("session", "bold cyan"), "events", "last used", Column("title", wide=True))
    empty = "no sessions; `openskills chat` starts one"
    show_table(columns, rows, empty, as_json and {"sessions": entries, "more": more})
    if more and not as_json:
        warn(f"and {more:,} more; --limit shows them")


@app.command("show")
def show(
    settings: Settings,
    session: Name,
    owner: OwnerOptions,
    store: Store = None,
    events: Annotated[bool, typer.Option("--events", help="Print the stored events, one per line.")] = False,
    as_json: Json = False,
) -> None:
    """Print a conversation: its messages, and tool calls with their results.

    Examples:
      openskills sessions show chat-20260131-120000-3f2a
      openskills sessions show chat-20260131-120000-3f2a --events
    """
    from openskills.cli.chat.conversation import format_conversation, read_conversation
    from openskills.session.events import event_to_json

    found = run(read_conversation(store, settings, owner.key(session)))
    if events:
        for event in found.events:
            say_text(event_to_json(event))
    elif as_json:
        logged = [json.loads(event_to_json(event)) for event in found.events]
        about = {"revision": found.revision, "state": dict(found.state), "events": logged}
        say_json({**_key_json(found.key), **about})
    else:
        for line in format_conversation(found.events):
            say(*line)


@app.command("requests")
def requests(
    settings: Settings,
    session: Name,
    owner: OwnerOptions,
    store: Store = None,
    number: Annotated[int | None, option("N", "Show this request, against the one before.", min=1)] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the body of --number exactly as it was sent.")] = False,
    as_json: Json = False,
) -> None:
    """Show what the model saw: list the recorded requests, or show one with its difference to the one before.

    Examples:
      openskills sessions requests chat-20260131-120000-3f2a
      openskills sessions requests chat-20260131-120000-3f2a --number 2
      openskills sessions requests chat-20260131-120000-3f2a --number 2 --raw

    In a pipe each request is one line of tab-separated fields: number, time (UTC), agent, model, tokens (estimated),
    unchanged tokens, bytes.
    """
    from openskills.cli.chat.conversation import read_session_requests

    if raw and number is None:
        raise InvalidArgument("--raw", "needs --number N")
    key = owner.key(session)
    found = run(read_session_requests(store, settings, key))
    if number is not None:
        _show_request(found, number, raw=raw, as_json=as_json)
        return
    rows: list[Row] = []
    for one in found:
        tokens = [f"{int(one.tokens.get(name, 0)):,}" for name in ("total", "unchanged")]
        at = one.at.isoformat(timespec="seconds")
        rows.append((str(one.number), at, one.agent, one.model, *tokens, f"{one.size:,}"))
    show_table(
        ("number", "time", "agent", "model", "tokens", "unchanged", "bytes"),
        rows,
        empty="no requests recorded; OPENSKILL_RECORD_REQUESTS=1 records those of later messages",
        json=as_json and {**_key_json(key), "requests": [_request_json(one) for one in found]},
    )


def _show_request(found: "Sequence[RecordedRequest]", number: int, *, raw: bool, as_json: bool) -> None:
    from openskills.prompt.usage import compare_requests, diff_lines

    index = next((index for index, one in enumerate(found) if one.number == number), None)
    if index is None:
        raise InvalidArgument("--number", f"unknown request {number}; recorded: {len(found)}")
    wanted = found[index]
    if wanted.body is None:
        raise SkillError(f"the body of request {number} ({wanted.size:,} bytes) was not recorded, or is damaged")
    before = next((one for one in reversed(found[:index]) if one.agent == wanted.agent and one.body), None)
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(wanted.body)
        return
    changes = compare_requests(before.body if before else None, wanted.body)
    if as_json:
        shown = [{"state": one.state, **one.element._asdict(), "before": one.before} for one in changes]
        say_json({**_request_json(wanted), "changes": shown})
        return
    for change in changes:
        title = f"{change.element.section} {change.element.title}".rstrip()
        say((f"{change.state:<8}", _STATES[change.state]), (escape_line(title), "bold"))
        if change.state == "same":
            continue
        sign = {"added": "+", "removed": "-"}.get(change.state)
        lines = [(sign, line) for line in change.element.text.splitlines()] if sign else []
        for mark, line in lines or diff_lines(change.before, change.element.text):
            say((f"  {mark} ", _MARKS[mark]), escape_line(line))


_STATES = {"same": "dim", "added": "green", "removed": "red", "changed": "yellow"}
_MARKS = {" ": "dim", "+": "green", "-": "red"}


def _request_json(request: "RecordedRequest") -> dict[str, object]:
    about = {"number": request.number, "at": request.at.isoformat(), "agent": request.agent, "model": request.model}
    return {**about, "bytes": request.size, "sha256": request.digest, "tokens": dict(request.tokens)}


@app.command("delete")
def delete(
    settings: Settings,
    sessions: Annotated[list[str], argument("SESSION", "The names of conversations.", autocompletion=complete_session)],
    owner: OwnerOptions,
    store: Store = None,
    artifacts: Annotated[bool, typer.Option("--artifacts", help="Also delete their artifacts.")] = False,
    artifact_store: Annotated[Text, option("URL", "Their artifact store, as for `artifacts --store`.")] = None,
    yes: Yes = False,
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

    keys = [owner.key(name) for name in dict.fromkeys(sessions)]
    names = ", ".join(escape_line(key.session) for key in keys)
    if not yes:
        agreed = None if as_json else ask(f"Delete {pluralize(len(keys), 'conversation')} for good ({names})?")
        if agreed is None:
            warn("nothing was deleted; confirm with --yes")
        if not agreed:
            raise typer.Exit(1)
    their_artifacts = open_artifact_store(artifact_store, settings) if artifacts else None
    count = run(delete_conversations(store, settings, keys, artifacts=their_artifacts))
    more = f", and {pluralize(count, 'artifact')}" if artifacts else ""
    say(f"deleted {names}{more}", json=as_json and {"deleted": [key.session for key in keys], "artifacts": count})


def _key_json(key: "SessionKey") -> dict[str, object]:
    return {"session": key.session, "user": key.user, "app": key.app}
