"""`openskills artifacts`: list and download the artifacts of sessions."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import Column, escape_line, say_json, show_table, warn
from openskills.cli.parameters import Json, Text, argument, get_settings, option
from openskills.cli.sessions import COMMAND_LINE, App, Name, User, current_user
from openskills.errors import InvalidArgument
from openskills.sync import run

if TYPE_CHECKING:
    from openskills.artifacts.store import Artifact


Store = Annotated[
    Text,
    option(
        "--store",
        "URL",
        "The artifact store: file:///DIRECTORY, s3://BUCKET/PREFIX?endpoint=URL&region=NAME",
        show_default="files in the state directory",
    ),
]

app = typer.Typer(no_args_is_help=True, help="List and download the artifacts of conversations.")


@app.command("list")
def list_artifacts(
    context: typer.Context,
    session: Name,
    versions: Annotated[bool, typer.Option("--versions", help="List every version, not only the latest.")] = False,
    store: Store = None,
    user: User = None,
    app_name: App = COMMAND_LINE,
    as_json: Json = False,
) -> None:
    """List the artifacts of a conversation, or of `openskills run --session`.

    Examples:
      openskills artifacts list chat-20260131-120000-3f2a
      openskills artifacts list mine --versions --json
      openskills artifacts list mine --store "s3://bucket/prefix" --user u1

    In a pipe each artifact is one line of tab-separated fields: reference, bytes, MIME type, time (UTC), SHA-256.
    """
    from openskills.artifacts.open import open_artifact_store
    from openskills.artifacts.store import Scope
    from openskills.cli.chat.commands import find_artifacts

    scope = Scope(app_name, user or current_user(), session)
    found = run(find_artifacts(open_artifact_store(store, get_settings(context)), scope, versions=versions))
    if as_json:
        say_json({"artifacts": [artifact_json(artifact) for artifact in found]})
        return
    if sys.stdout.isatty():
        times = [artifact.created_at.astimezone().strftime("%Y-%m-%d %H:%M") for artifact in found]
        rows = [(escape_line(a.ref), f"{a.size:,}", a.mime_type, time) for a, time in zip(found, times, strict=True)]
    else:
        rows = [(escape_line(a.ref), str(a.size), a.mime_type, a.created_at.isoformat(), a.sha256) for a in found]
    columns = (Column("artifact", "bold cyan", wide=True), "bytes", "type", "saved")
    show_table(columns, rows, empty=f"no artifacts in session {escape_line(session)}")


@app.command("get")
def get(
    context: typer.Context,
    session: Name,
    artifact: Annotated[str, argument("REF", "artifact://NAME@VERSION; artifact:// and @VERSION are optional.")],
    to: Annotated[Text, option("--to", "FILE", "The target: a file, a directory, or - for stdout.")] = None,
    store: Store = None,
    user: User = None,
    app_name: App = COMMAND_LINE,
    as_json: Json = False,
) -> None:
    """Download an artifact. Without --to it goes to stdout.

    Examples:
      openskills artifacts get mine artifact://out/report.md@0
      openskills artifacts get mine out/chart.png --to .
      openskills artifacts get mine out/table.csv | head

    Exit codes: 0 done, 1 the file could not be written, 2 wrong usage or no such artifact.
    """
    from openskills.artifacts.open import open_artifact_store
    from openskills.artifacts.store import Scope
    from openskills.cli.chat.commands import fetch_artifact

    if as_json and to in (None, "-"):
        raise InvalidArgument("--json", "cannot be combined with output to stdout; choose a file with --to")
    scope = Scope(app_name, user or current_user(), session)
    artifacts = open_artifact_store(store, get_settings(context))
    found, path = run(fetch_artifact(artifacts, scope, artifact, None if to == "-" else to, bare=to is None))
    if as_json:
        say_json({**artifact_json(found), "path": path})
    elif path:
        warn(f"{escape_line(found.ref)}: {found.size:,} bytes in {escape_line(path)}")


def artifact_json(artifact: "Artifact") -> dict[str, object]:
    """An artifact as JSON."""
    return {
        "ref": artifact.ref,
        "name": artifact.name,
        "version": artifact.version,
        "size_bytes": artifact.size,
        "mime_type": artifact.mime_type,
        "sha256": artifact.sha256,
        "created_at": artifact.created_at.isoformat(),
    }
