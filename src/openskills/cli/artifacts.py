"""`openskills artifacts`: the files that conversations and runs have kept."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import Column, QuickCommand, QuickGroup, escape_line, say_json, show_table, warn
from openskills.cli.sessions import COMMAND_LINE, App, Name, User
from openskills.cli.skills import Json, get_settings
from openskills.errors import InvalidArgument

if TYPE_CHECKING:
    from openskills.artifacts.store import Artifact, Scope


Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where artifacts are kept: file:///DIRECTORY, s3://BUCKET/PREFIX?endpoint=URL&region=NAME",
        show_default="files in the state directory",
    ),
]

app = typer.Typer(cls=QuickGroup, no_args_is_help=True, help="See and fetch the files that conversations have kept.")


@app.command("list", cls=QuickCommand)
def list_artifacts(
    context: typer.Context,
    session: Name,
    versions: Annotated[bool, typer.Option("--versions", help="Every version, not only the latest.")] = False,
    store: Store = None,
    user: User = None,
    app_name: App = COMMAND_LINE,
    as_json: Json = False,
) -> None:
    """List the artifacts of a conversation, or of `openskills run --session`.

    Examples:
      openskills artifacts list chat-20260131-120000-3f2a
      openskills artifacts list mine --versions --json
      openskills artifacts list mine --store "s3://bucket/prefix?region=eu-central-1" --app my-app --user u1

    In a pipe each artifact is one line: reference, bytes, MIME type, time (UTC) and SHA-256, with tabs between.
    """
    from openskills.cli.chat.commands import find_artifacts as listed
    from openskills.cli.chat.conversation import open_artifacts as artifacts_at
    from openskills.sync import run

    scope = _build_scope(app_name, user, session)
    found = run(listed(artifacts_at(store, get_settings(context)), scope, versions=versions))
    if as_json:
        say_json({"artifacts": [artifact_json(artifact) for artifact in found]})
        return
    _show_artifacts(found)
    if not found:
        warn(f"the session {escape_line(session)} has no artifacts")


@app.command("get", cls=QuickCommand)
def get(
    context: typer.Context,
    session: Name,
    artifact: Annotated[
        str,
        typer.Argument(metavar="REF", help="artifact://NAME@VERSION; the version may be left out, and artifact://."),
    ],
    to: Annotated[
        str | None, typer.Option("--to", metavar="FILE", help="Where to put it: a file, a directory, or - for stdout.")
    ] = None,
    store: Store = None,
    user: User = None,
    app_name: App = COMMAND_LINE,
    as_json: Json = False,
) -> None:
    """Fetch an artifact. Without --to its bytes go to stdout.

    Examples:
      openskills artifacts get mine artifact://out/report.md@0
      openskills artifacts get mine out/chart.png --to .
      openskills artifacts get mine out/table.csv | head

    Exit codes: 0 done, 1 it could not be written, 2 wrong usage or no such artifact.
    """
    from openskills.cli.chat.commands import fetch_artifact as fetched
    from openskills.cli.chat.conversation import open_artifacts as artifacts_at
    from openskills.sync import run

    if as_json and to in (None, "-"):
        raise InvalidArgument("--json", "tells about the artifact; say with --to in which file to put it")
    scope = _build_scope(app_name, user, session)
    kept = artifacts_at(store, get_settings(context))
    found, path = run(fetched(kept, scope, artifact, None if to == "-" else to, bare=to is None))
    if as_json:
        say_json({**artifact_json(found), "path": path})
    elif path:
        warn(f"{escape_line(found.ref)}: {found.size:,} bytes in {escape_line(path)}")


def artifact_json(artifact: "Artifact") -> dict[str, object]:
    """What programs are told about an artifact."""
    return {
        "ref": artifact.ref,
        "name": artifact.name,
        "version": artifact.version,
        "size_bytes": artifact.size,
        "mime_type": artifact.mime_type,
        "sha256": artifact.sha256,
        "created_at": artifact.created_at.isoformat(),
    }


def _build_scope(app_name: str, user: str | None, session: str) -> "Scope":
    from openskills.artifacts.store import Scope
    from openskills.cli.chat.conversation import current_user as me

    return Scope(app_name, user or me(), session)


def _show_artifacts(found: "Sequence[Artifact]") -> None:
    if not sys.stdout.isatty():
        rows = [
            (escape_line(one.ref), str(one.size), one.mime_type, one.created_at.isoformat(), one.sha256)
            for one in found
        ]
        show_table((), rows)
        return
    columns = (Column("artifact", "bold cyan", wide=True), Column("bytes"), Column("type"), Column("kept"))
    rows = [
        (escape_line(one.ref), f"{one.size:,}", one.mime_type, one.created_at.astimezone().strftime("%Y-%m-%d %H:%M"))
        for one in found
    ]
    show_table(columns, rows)
